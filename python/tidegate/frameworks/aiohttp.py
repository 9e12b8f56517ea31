"""Limits for servers of aiohttp."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional, Union

try:
    from aiohttp import web
    from aiohttp.typedefs import Handler
except ImportError as missing:
    raise ImportError("tidegate.frameworks.aiohttp needs aiohttp: pip install aiohttp") from missing

from ..limits import Number
from ..sets import LimitSet
from . import http
from ._gate import Gate

#: Where a request has the fields that go into its response.
_FIELDS: Any = web.RequestKey("tidegate.fields", list) if hasattr(web, "RequestKey") else "tidegate.fields"


def client_address(request: web.BaseRequest) -> str:
    """The key of the client that is connected: its IPv4 address, or its IPv6 network of 64 bits.

    Behind a proxy that is the proxy: give a ``key`` that takes what your proxy adds.
    """
    return http.key_of_address(request.remote)


def limit_requests(
    app: web.Application,
    limits: LimitSet,
    *,
    key: Callable[[web.Request], Optional[str]] = client_address,
    requested: Union[Mapping[str, Number], Callable[[web.Request], Mapping[str, Number]], None] = None,
    timeout: Optional[float] = 0,
    failure_mode: str = "deny",
) -> None:
    """Requests of ``app`` within limits: of an application, or of a sub-application.

    A request holds what it took until its handler has returned: a response that the handler
    writes, and a WebSocket, until its end. The fields ``RateLimit-Policy`` and ``RateLimit`` are
    in every response, a refusal is 429 with ``Retry-After``.

    :param key: of a request, whose it is; ``None`` for one that is not limited.
    :param requested: amounts by limit, or a function of the request that says them.
    :param timeout: how many seconds a request may wait for its turn before it is refused; ``None`` for as
        long as it takes, 0 or less for not at all.
    :param failure_mode: what a request gets while the store does not answer: ``"deny"``, a 503, or
        ``"admit"``.
    """
    gate: Gate[web.Request] = Gate(limits, key=key, requested=requested, timeout=timeout, failure_mode=failure_mode)

    @web.middleware
    async def within(request: web.Request, handler: Handler) -> web.StreamResponse:
        entry = await gate.async_enter(request)
        if isinstance(entry, http.Refusal):
            return web.Response(status=entry.status, body=entry.body, headers=entry.all_headers)
        if entry is None:
            return await handler(request)
        request.setdefault(_FIELDS, []).extend(http.fields(limits, entry).items())
        async with gate.held(entry):
            return await handler(request)

    async def tell(request: web.Request, response: web.StreamResponse) -> None:
        for name, value in request.pop(_FIELDS, ()):
            response.headers.add(name, value)

    app.middlewares.append(within)
    app.on_response_prepare.append(tell)
