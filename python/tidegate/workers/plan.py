"""What ``map`` is to do with each item, and how it does it: once for all modes, in an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Mapping
from concurrent import futures
from dataclasses import dataclass
from typing import Any, Optional, Union

from .._core import Acquisition
from ..errors import TidegateError
from ..limits import Number, ResourceLimit
from ..sets import LimitPool
from .given import is_server
from .granted import Called, Granted
from .outcome import ENDS, Outcome
from .retry import Retry

#: Seconds that a server's store keeps what is not renewed.
_SERVERS_TTL = 120.0


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
        )


class _Failed(Exception):
    """Tells an acquisition that its call has failed."""


class Attempts:
    """Runs items: ``call`` does one of them, as what it was granted allows."""

    def __init__(self, plan: Plan, call: Callable[[Any, Granted], Awaitable[Called]]) -> None:
        self._plan, self._call = plan, call
        self._workers = asyncio.Semaphore(plan.max_workers)
        #: What goes on until a call has ended, also if its item was cancelled.
        self.renewals: set[asyncio.Task[None]] = set()

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
                outcome, usage = await self._held(acquired, self._call(item, granted))
                if usage:
                    acquired.update(usage)
                if outcome.error is not None:
                    raise _Failed
        except _Failed:
            pass
        return outcome

    async def _held(self, acquired: Acquisition, call: Awaitable[Called]) -> Called:
        """Renews what is held until the call has ended."""
        if self._plan.ttl is None:
            return await call
        renewal = asyncio.ensure_future(_renew(acquired, self._plan.ttl))
        self.renewals.add(renewal)
        try:
            return await call
        finally:
            self.renewals.discard(renewal)
            renewal.cancel()


async def _renew(acquired: Acquisition, ttl: float) -> None:
    while True:
        await asyncio.sleep(ttl / 3)
        # A store that is away may be back in time; of what has ended nothing is left to hold.
        with contextlib.suppress(TidegateError):
            await acquired.async_renew(ttl)


def term(limits: LimitPool, ttl: Optional[float]) -> Optional[float]:
    """For how long what ``limits`` grant is held unless it is renewed; ``None``: until it ends."""
    resources = [(member, limit) for member in limits._sets.values() for limit in member.limits]
    resources = [(member, limit) for member, limit in resources if isinstance(limit, ResourceLimit)]
    if ttl is not None or not resources:
        return ttl
    said = [limit.ttl for _, limit in resources if isinstance(limit, ResourceLimit) and limit.ttl is not None]
    if any(is_server(member.store) for member, _ in resources):
        said.append(_SERVERS_TTL)
    return min(said, default=None)
