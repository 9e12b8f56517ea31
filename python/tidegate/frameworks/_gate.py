"""How requests of a framework enter within limits, and leave."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Generic, Optional, TypeVar, Union

from ..errors import (
    AcquireTimeout,
    CapacityFull,
    ImpossibleRequest,
    QueueFull,
    StoreUnavailable,
)
from .._core import Acquisition
from ..limits import Number
from ..sets import LimitSet
from ._leaving import async_leave
from .http import Refusal, refusal

_Request = TypeVar("_Request")

#: What is granted; what is answered instead; or nothing, where nothing is limited.
Entry = Union[Acquisition, Refusal, None]

_Amounts = Optional[Mapping[str, Number]]

#: What is answered by a refusal; other errors are the application's own.
REFUSED = (AcquireTimeout, CapacityFull, ImpossibleRequest, QueueFull, StoreUnavailable)


class Gate(Generic[_Request]):
    """Limits, and what is asked of them for each request."""

    def __init__(
        self,
        limits: LimitSet,
        *,
        key: Callable[[_Request], Optional[str]],
        requested: Union[Mapping[str, Number], Callable[[_Request], _Amounts], None] = None,
        timeout: Optional[float] = 0,
        failure_mode: str = "deny",
    ) -> None:
        if not isinstance(limits, LimitSet):
            raise TypeError(f"a LimitSet is needed, not {limits!r}")
        if failure_mode not in ("deny", "admit"):
            raise ValueError(f"failure_mode is 'deny' or 'admit', not {failure_mode!r}")
        self.limits = limits
        self._key = key
        self._requested = requested
        self._timeout = timeout
        self._waits = timeout is None or timeout > 0
        self._admits = failure_mode == "admit"

    def enter(self, request: _Request) -> Entry:
        """Asks for a request, on its thread. What is granted is renewed until it is left."""
        key = self._key(request)
        if key is None:
            return None
        try:
            acquired = self._acquire(request, key)
        except AcquireTimeout as error:
            with contextlib.suppress(StoreUnavailable):
                return self._late(error, self.limits.peek(key=key))
            return refusal(error)
        except REFUSED as error:
            return self._failed(error)
        return acquired if acquired else refusal(acquired, self.limits)

    async def async_enter(self, request: _Request) -> Entry:
        """The same in an event loop."""
        key = self._key(request)
        if key is None:
            return None
        try:
            asked = self._asked(request)
            if self._waits:
                acquired = await self.limits.async_acquire(asked, self._timeout, key=key, keep_alive=True)
            else:
                acquired = await self.limits.async_try_acquire(asked, key=key, keep_alive=True)
        except AcquireTimeout as error:
            with contextlib.suppress(StoreUnavailable):
                return self._late(error, await self.limits.async_peek(key=key))
            return refusal(error)
        except REFUSED as error:
            return self._failed(error)
        return acquired if acquired else refusal(acquired, self.limits)

    @contextlib.asynccontextmanager
    async def held(self, acquired: Acquisition) -> AsyncIterator[None]:
        """Holds it while the body runs."""
        try:
            yield
        except BaseException as error:
            await async_leave(acquired, error)
            raise
        else:
            await async_leave(acquired)

    def _acquire(self, request: _Request, key: str) -> Acquisition:
        asked = self._asked(request)
        if self._waits:
            return self.limits.acquire(asked, self._timeout, key=key, keep_alive=True)
        return self.limits.try_acquire(asked, key=key, keep_alive=True)

    def _asked(self, request: _Request) -> _Amounts:
        return self._requested(request) if callable(self._requested) else self._requested

    def _late(self, error: AcquireTimeout, peeked: Mapping[str, Mapping[str, Number]]) -> Refusal:
        """A wait that has ended says where the limits stand now."""
        remaining = {name: standing["remaining"] for name, standing in peeked.items()}
        return refusal(error, self.limits, remaining)

    def _failed(self, error: Any) -> Optional[Refusal]:
        if self._admits and isinstance(error, StoreUnavailable):
            return None
        return refusal(error)
