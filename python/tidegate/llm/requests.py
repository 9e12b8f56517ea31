"""Calls of language models within limits, by Requests."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Optional, Union
from urllib.parse import urlsplit

try:
    import requests
    import urllib3
    from requests.adapters import HTTPAdapter
except ImportError as missing:
    raise ImportError("tidegate.llm.requests needs Requests: pip install requests") from missing

from ..sets import LimitPool, LimitSet
from . import Price, TokenWeight
from ._calls import Calls, Held, Refused
from ._codings import are_read, is_signed

__all__ = ["LlmAdapter"]


class LlmAdapter(HTTPAdapter):
    """Sends each call of a language model when ``limits`` let it, and settles it once for what it used.

    >>> import requests
    >>> from tidegate import CallLimit, LimitSet, RateLimit
    >>> limits = LimitSet([CallLimit(500, "per_minute"), RateLimit("tokens", 90_000, "per_minute")])
    >>> session = requests.Session()
    >>> session.mount("https://api.openai.com", LlmAdapter(limits))

    A call is settled at the end of its answer, when that is closed or breaks off, or when nobody has it
    any more. One that the limits refuse is answered in the words of its provider.

    :param key: whose a call is, or a function of the ``PreparedRequest``.
    :param adapter: what an ``HTTPAdapter`` takes, such as ``pool_maxsize``. What ``max_retries`` sends
        again is not asked for again.

    The others are those of ``tidegate.llm.httpx.LlmTransport``.
    """

    def __init__(
        self,
        limits: Union[LimitSet, LimitPool],
        *,
        key: Union[str, Callable[[requests.PreparedRequest], str]] = "default",
        timeout: Optional[float] = None,
        counts: Optional[Mapping[str, str]] = None,
        prices: Optional[Mapping[str, Price]] = None,
        weights: Optional[Mapping[str, TokenWeight]] = None,
        provider: Optional[str] = None,
        max_pause: float = 300,
        ttl: Optional[float] = None,
        **adapter: Any,
    ) -> None:
        super().__init__(**adapter)
        self._words: dict[str, Any] = dict(
            limits=limits,
            timeout=timeout,
            counts=counts,
            prices=prices,
            weights=weights,
            provider=provider,
            max_pause=max_pause,
            ttl=ttl,
        )
        self._calls = Calls(**self._words)
        self._key = key

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_words": self._words, "_key": self._key}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._calls = Calls(**self._words)

    def send(self, request: requests.PreparedRequest, *arguments: Any, **named: Any) -> requests.Response:
        method, path = request.method or "GET", urlsplit(str(request.url)).path
        headers = _lines(request.headers)
        body = _body(request.body) if self._calls.uses_tokens(method, path, headers) else None
        is_signed_so = is_signed(_line(headers, "authorization"))
        if body is not None and not is_signed_so:
            # What is compressed says nothing of its usage on its way.
            request.headers["Accept-Encoding"] = "identity"
        key = self._key(request) if callable(self._key) else self._key
        held = self._calls.enter(self._calls.call(method, path, headers, body, key))
        if isinstance(held, Refused):
            return self._in_place(request, held)
        _of_this_thread.was_sent = False
        try:
            response = super().send(request, *arguments, **named)
            lines = _lines(response.headers)
            encoding, accepted = _line(lines, "content-encoding"), _line(headers, "accept-encoding")
            if is_signed_so and are_read(encoding, accepted, urllib3.HTTPResponse.CONTENT_DECODERS):
                # Requests has it read as what it was made of.
                lines = [(name, value) for name, value in lines if name.lower() != "content-encoding"]
            served = self._calls.served(held, response.status_code, lines)
        except BaseException:
            if _of_this_thread.was_sent:
                held.end(False)
            else:
                held.cancel()
            raise
        if served is False:
            held.cancel()
        elif served is None:
            held.end(False)
        else:
            response.raw = _Raw(response.raw, held)
        return response

    def cert_verify(self, conn: Any, *arguments: Any, **named: Any) -> None:
        """Every pool of connections passes here before it sends."""
        super().cert_verify(conn, *arguments, **named)
        of_pool = conn.ConnectionCls  # Read once: another thread may be here for the same pool.
        if not issubclass(of_pool, _Connection):
            conn.ConnectionCls = type("_Connection", (_Connection, of_pool), {})

    def _in_place(self, request: requests.PreparedRequest, refused: Refused) -> requests.Response:
        raw = urllib3.HTTPResponse(
            body=io.BytesIO(refused.body), headers=refused.headers, status=refused.status, preload_content=False
        )
        return self.build_response(request, raw)


#: ``was_sent``: whether the provider may have the call that this thread sends, by any of its tries.
_of_this_thread = threading.local()


class _Connection:
    """Notes that a call goes out, once there is a way to the provider: no proxy and no handshake fails any more."""

    def putrequest(self: Any, *arguments: Any, **named: Any) -> None:
        if self.sock is None:
            self.connect()
        _of_this_thread.was_sent = True
        super().putrequest(*arguments, **named)  # type: ignore[misc]


class _Raw(io.IOBase):
    """A connection's end, read as it passes; with the end of the body the call is settled.

    Whatever reads, reads by one of these: lines, for one, are read by ``read``.
    """

    _raw: Any
    _held: Held

    def __init__(self, raw: Any, held: Held) -> None:
        object.__setattr__(self, "_raw", raw)
        object.__setattr__(self, "_held", held)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def __setattr__(self, name: str, value: Any) -> None:
        # Such as `auto_close` and `decode_content`.
        setattr(self._raw, name, value)

    def stream(self, *arguments: Any, **named: Any) -> Iterator[bytes]:
        return self._passing(self._raw.stream(*arguments, **named))

    def read_chunked(self, *arguments: Any, **named: Any) -> Iterator[bytes]:
        return self._passing(self._raw.read_chunked(*arguments, **named))

    def __iter__(self) -> Iterator[bytes]:
        return self._passing(iter(self._raw))

    def read(self, amt: Optional[int] = None, *arguments: Any, **named: Any) -> bytes:
        data = self._came(lambda: self._raw.read(amt, *arguments, **named))
        if amt is None or amt < 0 or (amt > 0 and not data):
            self._held.end(True)
        return data

    def read1(self, amt: Optional[int] = None, *arguments: Any, **named: Any) -> bytes:
        # urllib3 1 has no such thing.
        read1 = getattr(self._raw, "read1", self._raw.read)
        data = self._came(lambda: read1(amt, *arguments, **named))
        if amt != 0 and not data:
            self._held.end(True)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    @property
    def data(self) -> bytes:
        data = self._came(lambda: self._raw.data)
        self._held.end(True)
        return data

    def json(self) -> Any:
        return json.loads(self.data)

    def drain_conn(self) -> None:
        with contextlib.suppress(urllib3.exceptions.HTTPError, http.client.HTTPException, OSError):
            self.read()

    def _came(self, read: Callable[[], Optional[bytes]]) -> bytes:
        """What is read at once, noted."""
        try:
            data = read() or b""
        except Exception:
            # Whoever keeps the error keeps this, too.
            self._held.end(False)
            raise
        self._held.read(data)
        return data

    def _passing(self, parts: Iterator[bytes]) -> Iterator[bytes]:
        """What is read part by part, noted as it comes."""
        try:
            for data in parts:
                self._held.read(data)
                yield data
        except Exception:
            # Whoever keeps the error keeps this, too.
            self._held.end(False)
            raise
        self._held.end(True)

    def readable(self) -> bool:
        return True

    @property
    def closed(self) -> bool:
        return bool(self._raw.closed)

    def fileno(self) -> int:
        return int(self._raw.fileno())

    def flush(self) -> None:
        self._raw.flush()

    def tell(self) -> int:
        return int(self._raw.tell())

    def close(self) -> None:
        try:
            self._raw.close()
        finally:
            self._held.end(False)

    def release_conn(self) -> None:
        try:
            self._raw.release_conn()
        finally:
            self._held.end(False)

    def __del__(self) -> None:
        # Nobody has it any more, and nobody closed it.
        self._held.end(False)


def _lines(headers: Mapping[str, Union[str, bytes]]) -> list[tuple[str, str]]:
    text = {name: value.decode("latin-1") if isinstance(value, bytes) else value for name, value in headers.items()}
    return list(text.items())


def _line(lines: list[tuple[str, str]], name: str) -> Optional[str]:
    return next((value for line, value in lines if line.lower() == name), None)


def _body(body: Any) -> bytes:
    """The body of a call; nothing of one that is read as it is sent."""
    if isinstance(body, str):
        return body.encode()
    return body if isinstance(body, bytes) else b""
