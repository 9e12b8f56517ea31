"""What the transports of httpx and of httpx2 have in common."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, Optional, TypeVar, Union

from .. import _core
from ..sets import LimitPool, LimitSet
from . import Price, TokenWeight
from ._calls import Calls, Held, Refused
from ._codings import are_read, is_signed, names

_Inner = TypeVar("_Inner")
_Request = TypeVar("_Request")


class _Limited(Generic[_Inner, _Request]):
    #: ``httpx`` or ``httpx2``.
    _library: ClassVar[Any]
    #: The class of bodies that are read as they pass.
    _body: ClassVar[Any]

    def __init__(
        self,
        limits: Union[LimitSet, LimitPool],
        transport: Optional[_Inner] = None,
        *,
        key: Union[str, Callable[[_Request], str]] = "default",
        timeout: Optional[float] = None,
        counts: Optional[Mapping[str, str]] = None,
        prices: Optional[Mapping[str, Price]] = None,
        weights: Optional[Mapping[str, TokenWeight]] = None,
        provider: Optional[str] = None,
        max_pause: float = 300,
        ttl: Optional[float] = None,
    ) -> None:
        self._calls = Calls(
            limits,
            timeout=timeout,
            counts=counts,
            prices=prices,
            weights=weights,
            provider=provider,
            max_pause=max_pause,
            ttl=ttl,
        )
        self._key = key
        self._transport: Any = self._usual() if transport is None else transport

    def _usual(self) -> Any:
        raise NotImplementedError

    def _uses_tokens(self, request: Any) -> bool:
        return self._calls.uses_tokens(request.method, _path(request), request.headers.multi_items())

    def _call(self, request: Any, body: Optional[bytes]) -> _core.LlmCall:
        headers = request.headers.multi_items()
        if body is not None and not _signs_encoding(request):
            # What is compressed says nothing of its usage on its way.
            request.headers["Accept-Encoding"] = "identity"
        key = self._key(request) if callable(self._key) else self._key
        return self._calls.call(request.method, _path(request), headers, body, key)

    def _decodes(self, request: Any, response: Any) -> bool:
        """Whether an answer is compressed as its caller's signature says that it may be, and the library can read it:
        then it is read, and passes, as what it was made of."""
        if not _signs_encoding(request) or not self._uses_tokens(request):
            return False
        encoding, accepted = response.headers.get("content-encoding"), request.headers.get("accept-encoding")
        return are_read(encoding, accepted, _known(self._library))

    def _decoded(self, response: Any) -> Any:
        encoded = self._library.Response(response.status_code, headers=response.headers, stream=response.stream)
        for header in ("content-encoding", "content-length"):
            response.headers.pop(header, None)
        return _Decoded(encoded)

    def _served(self, response: Any, held: Held, *, decodes: bool) -> Optional[bool]:
        lines = response.headers.multi_items()
        if decodes:
            lines = [(name, value) for name, value in lines if name.lower() != "content-encoding"]
        return self._calls.served(held, response.status_code, lines)

    def _in_place(self, request: Any, refused: Refused) -> Any:
        response = self._library.Response
        return response(refused.status, headers=refused.headers, content=refused.body, request=request)

    def _was_sent(self, error: BaseException) -> bool:
        """Whether the provider may have the request."""
        library = self._library
        unsent = (library.ConnectError, library.ConnectTimeout, library.PoolTimeout)
        return not isinstance(error, (*unsent, library.ProxyError, library.UnsupportedProtocol))


class Transport(_Limited[_Inner, _Request]):
    """Of a client on threads."""

    def _usual(self) -> Any:
        return self._library.HTTPTransport()

    def handle_request(self, request: Any) -> Any:
        call = self._call(request, request.read() if self._uses_tokens(request) else None)
        held = self._calls.enter(call)
        if isinstance(held, Refused):
            return self._in_place(request, held)
        try:
            response = self._transport.handle_request(request)
        except BaseException as error:
            if self._was_sent(error):
                held.end(False)
            else:
                held.cancel()
            raise
        try:
            self._begins(request, response, held)
        except BaseException:
            # Nobody has it yet who could close it.
            try:
                response.close()
            finally:
                held.end(False)
            raise
        return response

    def _begins(self, request: Any, response: Any, held: Held) -> None:
        decodes = self._decodes(request, response)
        served = self._served(response, held, decodes=decodes)
        if served is False:
            held.cancel()
        elif served is None:
            held.end(False)
        elif response.is_closed:
            # It was read before it came here.
            held.read(response.content)
            held.end(True)
        else:
            response.stream = self._body(self._decoded(response) if decodes else response.stream, held)

    def close(self) -> None:
        self._transport.close()


class AsyncTransport(_Limited[_Inner, _Request]):
    """Of a client in an event loop."""

    def _usual(self) -> Any:
        return self._library.AsyncHTTPTransport()

    async def handle_async_request(self, request: Any) -> Any:
        call = self._call(request, await request.aread() if self._uses_tokens(request) else None)
        held = await self._calls.async_enter(call)
        if isinstance(held, Refused):
            return self._in_place(request, held)
        try:
            response = await self._transport.handle_async_request(request)
        except BaseException as error:
            if self._was_sent(error):
                await held.async_end(False)
            else:
                await held.async_cancel()
            raise
        try:
            await self._begins(request, response, held)
        except BaseException:
            # As after a cancellation: nobody has it yet who could close it.
            try:
                await response.aclose()
            finally:
                await held.async_end(False)
            raise
        return response

    async def _begins(self, request: Any, response: Any, held: Held) -> None:
        decodes = self._decodes(request, response)
        served = self._served(response, held, decodes=decodes)
        if served is False:
            await held.async_cancel()
        elif served is None:
            await held.async_end(False)
        elif response.is_closed:
            held.read(response.content)
            await held.async_end(True)
        else:
            response.stream = self._body(self._decoded(response) if decodes else response.stream, held)

    async def aclose(self) -> None:
        await self._transport.aclose()


class _Decoded:
    """The body of an answer, as what it was made of."""

    def __init__(self, encoded: Any) -> None:
        self._encoded = encoded

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._encoded.iter_bytes())

    def __aiter__(self) -> AsyncIterator[bytes]:
        decoded: AsyncIterator[bytes] = self._encoded.aiter_bytes()
        return decoded

    def close(self) -> None:
        self._encoded.close()

    async def aclose(self) -> None:
        await self._encoded.aclose()


class Body:
    """A body that is read as it passes; with its end the call is settled."""

    def __init__(self, stream: Any, held: Held) -> None:
        self._stream = stream
        self._held = held

    def __iter__(self) -> Iterator[bytes]:
        try:
            for data in self._stream:
                self._held.read(data)
                yield data
        except Exception:
            # Whoever keeps the error keeps this, too.
            self._held.end(False)
            raise
        self._held.end(True)

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._held.end(False)

    def __del__(self) -> None:
        # Nobody has it any more, and nobody closed it.
        self._held.end(False)


class AsyncBody:
    """The same in an event loop."""

    def __init__(self, stream: Any, held: Held) -> None:
        self._stream = stream
        self._held = held

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for data in self._stream:
                self._held.read(data)
                yield data
        except Exception:
            await self._held.async_end(False)
            raise
        await self._held.async_end(True)

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            await self._held.async_end(False)

    def __del__(self) -> None:
        # Its loop may have ended.
        self._held.end(False)


def _signs_encoding(request: Any) -> bool:
    return is_signed(request.headers.get("authorization"))


@functools.cache
def _known(library: Any) -> set[str]:
    """The codings that a library can read: those that it asks for, some of which need a package of their own."""
    with library.Client(transport=library.MockTransport(library.Response), trust_env=False) as client:
        return names(client.headers["accept-encoding"])


def _path(request: Any) -> str:
    path: bytes = request.url.raw_path
    return path.decode("ascii").partition("?")[0]
