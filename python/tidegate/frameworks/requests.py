"""Limits for requests of Requests, as an adapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional, Union

try:
    import requests
    from requests.adapters import HTTPAdapter
except ImportError as missing:
    raise ImportError("tidegate.frameworks.requests needs Requests: pip install requests") from missing

from ..limits import Number
from ..sets import LimitPool, LimitSet
from .._core import Acquisition
from ._leaving import leave
from ._outgoing import Outgoing


class LimitAdapter(HTTPAdapter):
    """Sends each request, and each redirect, when ``limits`` let it.

    What a request holds it holds until its body was read or its response is closed. After a
    429 or 503 with ``Retry-After``, and after any response whose ``RateLimit`` says that
    nothing is left, no request is sent until then. The response goes to the caller as it is.

    >>> import requests
    >>> from tidegate import LimitSet
    >>> session = requests.Session()
    >>> session.mount("https://api.example.com", LimitAdapter(LimitSet("10/second")))

    :param limits: of a pool, the set that let a request go is the one that pauses.
    :param key: whose a request is, or a function of the ``PreparedRequest``. A pause is of all
        keys.
    :param requested: amounts by limit, or a function of the ``PreparedRequest``.
    :param timeout: seconds; ``None`` for as long as it takes. Then ``AcquireTimeout`` is raised.
    :param max_pause: the longest that a response can stop requests, in seconds.
    :param ttl: in how many seconds what a request holds comes back if this process has gone, as of
        ``acquire``; it is renewed while the response is open.
    :param adapter: what an ``HTTPAdapter`` takes, such as ``pool_maxsize`` and ``max_retries``.
    """

    def __init__(
        self,
        limits: Union[LimitSet, LimitPool],
        *,
        key: Union[str, Callable[[requests.PreparedRequest], str]] = "default",
        requested: Union[Mapping[str, Number], Callable[[requests.PreparedRequest], Mapping[str, Number]], None] = None,
        timeout: Optional[float] = None,
        max_pause: float = 300,
        ttl: Optional[float] = None,
        **adapter: Any,
    ) -> None:
        super().__init__(**adapter)
        self._outgoing = Outgoing(
            limits, key=key, requested=requested, timeout=timeout, max_pause=max_pause, ttl=ttl
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_outgoing": self._outgoing}

    def send(self, request: requests.PreparedRequest, *arguments: Any, **named: Any) -> requests.Response:
        acquired = self._outgoing.acquire(request)
        try:
            response = super().send(request, *arguments, **named)
            self._outgoing.hear(acquired, response.status_code, response.headers)
            _hold(response, acquired)
        except BaseException as error:
            leave(acquired, error)
            raise
        return response


def _hold(response: requests.Response, acquired: Acquisition) -> None:
    """Ends it when the connection goes back: when the body was read, or the response is closed."""
    release = response.raw.release_conn

    def ended() -> None:
        try:
            release()
        finally:
            leave(acquired)

    response.raw.release_conn = ended
