"""Limits for WSGI applications: Flask, Bottle, Pyramid, Django.

It needs no framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Optional, Union

from .._core import Acquisition
from ..limits import Number
from ..sets import LimitSet
from . import http
from ._gate import Gate
from ._leaving import leave

Environ = dict[str, Any]
App = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


def client_address(environ: Environ) -> str:
    """The key of the client that is connected: its IPv4 address, or its IPv6 network of 64 bits.

    Behind a proxy that is the proxy. Put Werkzeug's ``ProxyFix`` outside of the middleware, with
    as many proxies as there are.
    """
    return http.key_of_address(environ.get("REMOTE_ADDR"))


class LimitMiddleware:
    """Requests of an application within limits.

    What a request holds it holds until its body was closed: by PEP 3333 the server does so, at
    its end or when the client goes away. The fields ``RateLimit-Policy`` and ``RateLimit`` are
    in every response, a refusal is 429 with ``Retry-After``.

    ``app.wsgi_app = LimitMiddleware(app.wsgi_app, LimitSet("100/minute"))``

    :param key: of an environ, whose it is; ``None`` for one that is not limited.
    :param requested: amounts by limit, or a function of the environ that says them.
    :param timeout: how many seconds a request may wait for its turn before it is refused, and its thread
        with it; ``None`` for as long as it takes, 0 or less for not at all.
    :param failure_mode: what a request gets while the store does not answer: ``"deny"``, a 503, or
        ``"admit"``.
    """

    def __init__(
        self,
        app: App,
        limits: LimitSet,
        *,
        key: Callable[[Environ], Optional[str]] = client_address,
        requested: Union[Mapping[str, Number], Callable[[Environ], Mapping[str, Number]], None] = None,
        timeout: Optional[float] = 0,
        failure_mode: str = "deny",
    ) -> None:
        self.app = app
        self._gate = Gate(limits, key=key, requested=requested, timeout=timeout, failure_mode=failure_mode)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        entry = self._gate.enter(environ)
        if isinstance(entry, http.Refusal):
            status = HTTPStatus(entry.status)
            start_response(f"{status.value} {status.phrase}", list(entry.all_headers.items()))
            return [entry.body]
        if entry is None:
            return self.app(environ, start_response)
        lines = list(http.fields(self._gate.limits, entry).items())

        def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            return start_response(status, [*headers, *lines], *error)

        try:
            return _Held(self.app(environ, start), entry)
        except BaseException as error:
            leave(entry, error)
            raise


class _Held:
    """A body; with its end ends what is held for it."""

    def __init__(self, body: Iterable[bytes], acquired: Acquisition) -> None:
        self._body = body
        self._acquired = acquired
        self._error: Optional[Exception] = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._body
        except Exception as error:
            self._error = error
            raise

    def close(self) -> None:
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            leave(self._acquired, self._error)
