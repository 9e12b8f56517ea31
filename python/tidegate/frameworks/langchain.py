"""Limits for LangChain's models, as their rate limiter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

try:
    from langchain_core.rate_limiters import BaseRateLimiter
except ImportError as missing:
    raise ImportError("tidegate.frameworks.langchain needs LangChain: pip install langchain-core") from missing

from ..limits import Number, ResourceLimit
from ..sets import LimitSet
from ._leaving import async_leave, leave


class LimitSetRateLimiter(BaseRateLimiter):
    """What ``rate_limiter=`` of a model takes: each call of the model waits for its turn.

    >>> from tidegate import LimitSet
    >>> limiter = LimitSetRateLimiter(LimitSet("60/minute"))
    >>> limiter.acquire(blocking=False)
    True

    LangChain does not say when a call ends, nor what it used: a ``ResourceLimit`` is refused,
    and ``requested`` says how much of each rate a call takes.

    :param requested: amounts by limit; a ``RateLimit`` needs one.
    :param timeout: how many seconds a call may wait; ``None`` for as long as it takes. Then
        ``AcquireTimeout`` is raised.
    """

    def __init__(
        self,
        limits: LimitSet,
        *,
        key: str = "default",
        requested: Optional[Mapping[str, Number]] = None,
        timeout: Optional[float] = None,
    ) -> None:
        if not isinstance(limits, LimitSet):
            raise TypeError(f"a LimitSet is needed, not {limits!r}")
        if any(isinstance(limit, ResourceLimit) for limit in limits.limits):
            raise TypeError("LangChain does not say when a call ends: hold a ResourceLimit yourself")
        self._limits = limits
        self._key = key
        self._requested = requested
        self._timeout = timeout

    def acquire(self, *, blocking: bool = True) -> bool:
        """Waits for a turn, or, not ``blocking``, says whether there is one.

        :raises AcquireTimeout: there was none within the ``timeout``.
        """
        if blocking:
            acquired = self._limits.acquire(self._requested, self._timeout, key=self._key)
        else:
            acquired = self._limits.try_acquire(self._requested, key=self._key)
        leave(acquired)
        return acquired.successful

    async def aacquire(self, *, blocking: bool = True) -> bool:
        """The same in an event loop, without a thread."""
        if blocking:
            acquired = await self._limits.async_acquire(self._requested, self._timeout, key=self._key)
        else:
            acquired = await self._limits.async_try_acquire(self._requested, key=self._key)
        await async_leave(acquired)
        return acquired.successful
