"""Limits for paths of FastAPI, as a dependency."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Optional, Union

try:
    from fastapi import Depends
    from starlette.exceptions import HTTPException
    from starlette.requests import HTTPConnection
except ImportError as missing:
    raise ImportError("tidegate.frameworks.fastapi needs FastAPI: pip install fastapi") from missing

from .._core import Acquisition
from ..limits import Number
from ..sets import LimitSet
from . import asgi, http
from ._gate import Gate
from .asgi import LINES, encoded


async def client_address(connection: HTTPConnection) -> str:
    """The key of the client that is connected: see ``tidegate.frameworks.asgi.client_address``."""
    return asgi.client_address(connection.scope)


def limit_requests(
    limits: LimitSet,
    *,
    key: Callable[..., Any] = client_address,
    requested: Union[Mapping[str, Number], Callable[..., Any], None] = None,
    timeout: Optional[float] = 0,
    failure_mode: str = "deny",
) -> Callable[..., AsyncIterator[Optional[Acquisition]]]:
    """A dependency that takes from ``limits``, and holds what it took until the response was sent.

    ``@app.get("/search", dependencies=[Depends(limit_requests(LimitSet("10/minute")))])``. Its value
    is the acquisition, for ``update``; ``None`` where nothing is limited. A refusal is 429
    with ``Retry-After``. Responses that are no refusals have the fields ``RateLimit-Policy``
    and ``RateLimit`` where the application stands in a ``LimitMiddleware``.

    :param key: a dependency that says whose the request is; ``None`` for one that is not
        limited. Write ``async def``: FastAPI runs others on threads.
    :param requested: amounts by limit, or a dependency that says them.
    :param timeout: how many seconds a request may wait for its turn before it is refused; ``None`` for as
        long as it takes, 0 or less for not at all.
    :param failure_mode: what a request gets while the store does not answer: ``"deny"``, a 503, or
        ``"admit"``.
    """

    async def fixed() -> Any:
        return requested

    async def dependency(
        connection: HTTPConnection,
        whose: Any = Depends(key),
        asked: Any = Depends(requested if callable(requested) else fixed),
    ) -> AsyncIterator[Optional[Acquisition]]:
        entry = await gate.async_enter((whose, asked))
        if isinstance(entry, http.Refusal):
            raise HTTPException(entry.status, entry.detail, entry.headers)
        if entry is None:
            yield None
            return
        connection.scope.get(LINES, []).extend(encoded(http.fields(limits, entry)))
        async with gate.held(entry):
            yield entry

    gate: Gate[tuple[Optional[str], Optional[Mapping[str, Number]]]] = Gate(
        limits,
        key=lambda said: said[0],
        requested=lambda said: said[1],
        timeout=timeout,
        failure_mode=failure_mode,
    )
    return dependency
