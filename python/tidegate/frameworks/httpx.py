"""Limits for requests of httpx, as transports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Optional, Union

try:
    import httpx
except ImportError as missing:
    raise ImportError("tidegate.frameworks.httpx needs httpx: pip install httpx") from missing

from ..limits import Number
from ..sets import LimitPool, LimitSet
from .._core import Acquisition
from ._leaving import async_leave, leave
from ._outgoing import Outgoing

_Key = Union[str, Callable[[httpx.Request], str]]
_Requested = Union[Mapping[str, Number], Callable[[httpx.Request], Mapping[str, Number]], None]


class LimitTransport(httpx.BaseTransport):
    """Sends each request, and each redirect, when ``limits`` let it.

    What a request holds it holds until its response is closed. After a 429 or 503 with
    ``Retry-After``, and after any response whose ``RateLimit`` says that nothing is left,
    no request is sent until then. The response goes to the caller as it is.

    >>> import httpx
    >>> from tidegate import LimitSet
    >>> client = httpx.Client(transport=LimitTransport(LimitSet("10/second")))

    :param limits: of a pool, the set that let a request go is the one that pauses.
    :param transport: what sends them; default: ``httpx.HTTPTransport()``.
    :param key: whose a request is, or a function of it: ``lambda request: request.url.host``.
        A pause is of all keys.
    :param requested: amounts by limit, or a function of the request that says them.
    :param timeout: seconds; ``None`` for as long as it takes. Then ``AcquireTimeout`` is raised.
    :param max_pause: the longest that a response can stop requests, in seconds.
    :param ttl: in how many seconds what a request holds comes back if this process has gone, as of
        ``acquire``; it is renewed while the response is open.
    """

    def __init__(
        self,
        limits: Union[LimitSet, LimitPool],
        transport: Optional[httpx.BaseTransport] = None,
        *,
        key: _Key = "default",
        requested: _Requested = None,
        timeout: Optional[float] = None,
        max_pause: float = 300,
        ttl: Optional[float] = None,
    ) -> None:
        self._outgoing = Outgoing(
            limits, key=key, requested=requested, timeout=timeout, max_pause=max_pause, ttl=ttl
        )
        self._transport = httpx.HTTPTransport() if transport is None else transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        acquired = self._outgoing.acquire(request)
        try:
            response = self._transport.handle_request(request)
            self._outgoing.hear(acquired, response.status_code, response.headers)
            assert isinstance(response.stream, httpx.SyncByteStream)
            response.stream = _Body(response.stream, acquired)
        except BaseException as error:
            leave(acquired, error)
            raise
        return response

    def close(self) -> None:
        self._transport.close()


class AsyncLimitTransport(httpx.AsyncBaseTransport):
    """The same for ``httpx.AsyncClient``, without a thread."""

    def __init__(
        self,
        limits: Union[LimitSet, LimitPool],
        transport: Optional[httpx.AsyncBaseTransport] = None,
        *,
        key: _Key = "default",
        requested: _Requested = None,
        timeout: Optional[float] = None,
        max_pause: float = 300,
        ttl: Optional[float] = None,
    ) -> None:
        self._outgoing = Outgoing(
            limits, key=key, requested=requested, timeout=timeout, max_pause=max_pause, ttl=ttl
        )
        self._transport = httpx.AsyncHTTPTransport() if transport is None else transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        acquired = await self._outgoing.async_acquire(request)
        try:
            response = await self._transport.handle_async_request(request)
            self._outgoing.hear(acquired, response.status_code, response.headers)
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = _AsyncBody(response.stream, acquired)
        except BaseException as error:
            await async_leave(acquired, error)
            raise
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


class _Body(httpx.SyncByteStream):
    """A body; with its end ends what is held for it."""

    def __init__(self, stream: httpx.SyncByteStream, acquired: Acquisition) -> None:
        self._stream = stream
        self._acquired = acquired

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            leave(self._acquired)


class _AsyncBody(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, acquired: Acquisition) -> None:
        self._stream = stream
        self._acquired = acquired

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            await async_leave(self._acquired)
