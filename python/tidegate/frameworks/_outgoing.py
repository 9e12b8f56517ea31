"""Limits of requests that go out, and what their answers say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Optional, TypeVar, Union

from .._core import Acquisition
from ..limits import Number
from ..sets import LimitPool, LimitSet
from ._answers import pause

_Request = TypeVar("_Request")


class Outgoing(Generic[_Request]):
    """Limits, what is asked of them for each request, and how long an answer can stop all."""

    def __init__(
        self,
        limits: Union[LimitSet, LimitPool],
        *,
        key: Union[str, Callable[[_Request], str]],
        requested: Union[Mapping[str, Number], Callable[[_Request], Mapping[str, Number]], None],
        timeout: Optional[float],
        max_pause: float,
        ttl: Optional[float],
    ) -> None:
        if not isinstance(limits, (LimitSet, LimitPool)):
            raise TypeError(f"a LimitSet or a LimitPool is needed, not {limits!r}")
        # A set alone is a pool of one, since it is a pool's member that can cool down.
        self.limits = LimitPool([limits]) if isinstance(limits, LimitSet) else limits
        self._key = key
        self._requested = requested
        self._timeout = timeout
        self._max_pause = max_pause
        self._ttl = ttl

    def acquire(self, request: _Request) -> Acquisition:
        """What is granted for a request, renewed until it is left or nobody has it any more."""
        return self.limits.acquire(**self._asks(request))

    async def async_acquire(self, request: _Request) -> Acquisition:
        """The same in an event loop."""
        return await self.limits.async_acquire(**self._asks(request))

    def _asks(self, request: _Request) -> dict[str, Any]:
        """What is asked for a request."""
        return dict(
            requested=self._requested(request) if callable(self._requested) else self._requested,
            timeout=self._timeout,
            key=self._key(request) if callable(self._key) else self._key,
            ttl=self._ttl,
            keep_alive=True,
        )

    def hear(self, acquired: Acquisition, status: int, headers: Mapping[str, str]) -> None:
        """Sends nothing more where the answer came from, for as long as it says."""
        seconds = pause(status, headers)
        if seconds:
            self.pause(acquired, seconds)

    def pause(self, acquired: Acquisition, seconds: float) -> None:
        """Sends nothing more for so long where that was let go."""
        if acquired.member is not None:
            self.limits.cool_down(acquired.member, min(seconds, self._max_pause))

    def members(self) -> list[LimitSet]:
        """The sets that let requests go."""
        return [self.limits[position] for position in range(len(self.limits))]
