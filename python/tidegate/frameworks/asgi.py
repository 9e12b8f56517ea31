"""Limits for ASGI applications: Starlette, FastAPI, Litestar, Django, Quart.

It needs no framework.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Optional, Union

from .._core import Acquisition
from ..limits import Number
from ..sets import LimitSet
from . import http
from ._gate import Gate
from ._leaving import async_leave

#: Of ASGI. Each framework has types of its own for these.
Scope = Any
Message = Any
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]
Lines = list[tuple[bytes, bytes]]

#: Where a scope has the header lines that go into its response.
LINES = "tidegate.lines"

#: What begins a response, and so has its headers.
_BEGINS = ("http.response.start", "websocket.accept", "websocket.http.response.start")

#: "Try again later", by the registry of WebSocket close codes.
_TRY_AGAIN_LATER = 1013


def client_address(scope: Scope) -> str:
    """The key of the client that is connected: its IPv4 address, or its IPv6 network of 64 bits.

    Behind a proxy that is the proxy. Let the server put the client's address there, from that
    proxy alone: ``uvicorn --proxy-headers --forwarded-allow-ips 10.0.0.2``.
    """
    connected = scope.get("client")
    return http.key_of_address(connected[0] if connected else None)


class LimitMiddleware:
    """Requests and WebSockets of an application within limits.

    What a request holds it holds until the last of its body was sent, a WebSocket while it is
    connected. The fields ``RateLimit-Policy`` and ``RateLimit`` are in every response: also if
    it streams, or is an error's. A refusal is 429 with ``Retry-After``; a WebSocket that is
    refused is not accepted.

    >>> from tidegate import CallLimit, LimitSet, ResourceLimit
    >>> async def app(scope, receive, send): ...
    >>> limits = LimitSet([CallLimit(100, "per_minute"), ResourceLimit("slots", 8)])
    >>> app = LimitMiddleware(app, limits)

    :param limits: ``None`` limits nothing here, and writes the fields of dependencies
        (``tidegate.frameworks.fastapi``).
    :param key: of a scope, whose it is; ``None`` for one that is not limited.
    :param requested: amounts by limit, or a function of the scope that says them.
    :param timeout: how many seconds a request may wait for its turn before it is refused; ``None`` for as
        long as it takes, 0 or less for not at all.
    :param failure_mode: what a request gets while the store does not answer: ``"deny"``, a 503, or
        ``"admit"``.
    """

    def __init__(
        self,
        app: App,
        limits: Optional[LimitSet] = None,
        *,
        key: Callable[[Scope], Optional[str]] = client_address,
        requested: Union[Mapping[str, Number], Callable[[Scope], Mapping[str, Number]], None] = None,
        timeout: Optional[float] = 0,
        failure_mode: str = "deny",
    ) -> None:
        self.app = app
        self._gate = (
            None
            if limits is None
            else Gate(limits, key=key, requested=requested, timeout=timeout, failure_mode=failure_mode)
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        entry = None if self._gate is None else await self._gate.async_enter(scope)
        if isinstance(entry, http.Refusal):
            return await _refuse(entry, scope, receive, send)
        lines: Lines = []
        scope = {**scope, LINES: lines}
        if self._gate is None or entry is None:
            return await self.app(scope, receive, _answered(send, lines, None))
        lines += encoded(http.fields(self._gate.limits, entry))
        async with self._gate.held(entry):
            is_request = scope["type"] == "http"
            await self.app(scope, receive, _answered(send, lines, entry if is_request else None))


def encoded(headers: Mapping[str, str]) -> Lines:
    """As ASGI has headers."""
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]


def _answered(send: Send, lines: Lines, held: Optional[Acquisition]) -> Send:
    """Puts lines into the response that begins; what is held for it ends with it."""

    async def answer(message: Message) -> None:
        if message["type"] in _BEGINS:
            message = {**message, "headers": [*message.get("headers", ()), *lines]}
        await send(message)
        ends = message["type"] == "http.response.body" and not message.get("more_body", False)
        if held is not None and ends:
            await async_leave(held)

    return answer


async def _refuse(refused: http.Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    kind = "http.response"
    if scope["type"] == "websocket":
        await receive()
        if "websocket.http.response" not in scope.get("extensions", {}):
            return await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER})
        kind = "websocket.http.response"
    await send({"type": f"{kind}.start", "status": refused.status, "headers": encoded(refused.all_headers)})
    await send({"type": f"{kind}.body", "body": refused.body})
