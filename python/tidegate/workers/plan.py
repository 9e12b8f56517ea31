"""What ``map`` is to do with each item, and how it does it: once for all modes, in an event loop."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from concurrent import futures
from dataclasses import dataclass
from typing import Any, Optional, Union

from ..limits import Number
from ..sets import LimitPool
from .granted import Called, Granted
from .outcome import ENDS, Outcome
from .retry import Retry


@dataclass(frozen=True)
class Plan:
    """Of all items."""

    limits: LimitPool
    requested: Union[Mapping[str, Number], Callable[[Any], Mapping[str, Number]], None]
    key: Union[str, Callable[[Any], str]]
    timeout: Optional[float]
    priority: int
    ttl: Optional[float]
    retry: Retry
    max_workers: int

    def asked(self, item: Any) -> dict[str, Any]:
        requested, key = self.requested, self.key
        return dict(
            requested=requested(item) if callable(requested) else requested,
            key=key(item) if callable(key) else key,
            timeout=self.timeout,
            priority=self.priority,
            ttl=self.ttl,
            keep_alive=True,
        )


class _Failed(Exception):
    """Tells an acquisition that its call has failed."""


class Attempts:
    """Runs items: ``call`` does one of them, as what it was granted allows."""

    def __init__(self, plan: Plan, call: Callable[[Any, Granted], Awaitable[Called]]) -> None:
        self._plan, self._call = plan, call
        self._workers = asyncio.Semaphore(plan.max_workers)

    async def run(self, item: Any) -> Outcome:
        """What the function answers for ``item`` at last, or how it failed in its last attempt."""
        for attempt in itertools.count():
            try:
                async with self._workers:
                    outcome = await self._attempt(item)
            except ENDS as error:  # Of the limits, or of what says what is asked of them.
                return Outcome(error=error)
            if outcome.error is None or isinstance(outcome.error, futures.CancelledError):
                return outcome
            delay = self._plan.retry.delay(attempt, outcome.error)
            if delay is None:
                return outcome
            # A worker and what the limits granted are others' meanwhile.
            await asyncio.sleep(delay)
        raise AssertionError("attempts are counted without end")

    async def _attempt(self, item: Any) -> Outcome:
        acquired = await self._plan.limits.async_acquire(**self._plan.asked(item))
        outcome = Outcome()
        try:
            async with acquired:
                granted = Granted(acquired.config, acquired.member)
                outcome, usage = await self._call(item, granted)
                if usage:
                    acquired.update(usage)
                if outcome.error is not None:
                    raise _Failed
        except _Failed:
            pass
        return outcome
