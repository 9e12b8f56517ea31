"""Calls within limits: what is taken for one, and how it is settled, once."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional, Union

from .. import _core
from ..errors import AcquireTimeout, ImpossibleRequest, LeaseEnded, StoreUnavailable
from ..frameworks._gate import REFUSED
from ..frameworks._leaving import async_leave, leave
from ..frameworks._outgoing import Outgoing
from ..sets import LimitPool, LimitSet
from . import Price, TokenWeight

_Lines = Iterable[tuple[str, str]]

#: When to come again for a slot, in seconds: its holder alone knows when it comes back.
_SOON = 1.0


@dataclass(frozen=True)
class Refused:
    """What is answered in place of the provider."""

    status: int
    headers: dict[str, str]
    body: bytes


class Held:
    """What a call holds until it is settled. Whatever is said first of its end counts."""

    def __init__(self, call: _core.LlmCall, acquired: Optional[_core.Acquisition]) -> None:
        self._call = call
        self._acquired = acquired

    def read(self, data: bytes) -> None:
        """Reads on in its answer."""
        self._call.read(data)

    def end(self, complete: bool) -> None:
        """Its answer has ended, whole if it is ``complete``: what it has used is charged."""
        acquired = self._used(complete)
        if acquired is not None:
            leave(acquired)

    async def async_end(self, complete: bool) -> None:
        """The same in an event loop."""
        acquired = self._used(complete)
        if acquired is not None:
            await async_leave(acquired)

    def cancel(self) -> None:
        """It was not served: everything comes back."""
        acquired = self._used(False)
        if acquired is not None:
            with contextlib.suppress(StoreUnavailable, LeaseEnded):
                acquired.cancel()

    async def async_cancel(self) -> None:
        """The same in an event loop."""
        acquired = self._used(False)
        if acquired is not None:
            with contextlib.suppress(StoreUnavailable, LeaseEnded):
                await acquired.async_cancel()

    def _used(self, complete: bool) -> Optional[_core.Acquisition]:
        """Reports what it has used; nothing the second time."""
        used = self._call.used(complete)
        if used is None or self._acquired is None:
            return None
        with contextlib.suppress(LeaseEnded):
            self._acquired.update(used)
        return self._acquired


class Calls:
    """Limits, what they count of calls, and how long a provider can stop all."""

    def __init__(
        self,
        limits: Union[LimitSet, LimitPool],
        *,
        timeout: Optional[float],
        counts: Optional[Mapping[str, str]],
        prices: Optional[Mapping[str, Price]],
        weights: Optional[Mapping[str, TokenWeight]],
        provider: Optional[str],
        max_pause: float,
        ttl: Optional[float],
    ) -> None:
        self._outgoing: Outgoing[_core.LlmCall] = Outgoing(
            limits,
            key=lambda call: call.key,
            requested=lambda call: call.requested() or {},
            timeout=timeout,
            max_pause=max_pause,
            ttl=ttl,
        )
        members = [[limit for limit in member.limits if not limit.is_infinite] for member in self._outgoing.members()]
        written = {
            model: (price.input, price.cached_input, price.cache_write, price.output)
            for model, price in (prices or {}).items()
        }
        weighed = {
            model: (weight.input, weight.cached_input, weight.cache_write, weight.output)
            for model, weight in (weights or {}).items()
        }
        self._meter = _core.LlmMeter(members, dict(counts or {}), written, weighed, provider)

    def uses_tokens(self, method: str, path: str, headers: _Lines) -> bool:
        """Whether a request uses tokens: then its body is to be read."""
        return self._meter.uses_tokens(method, path, list(headers))

    def call(self, method: str, path: str, headers: _Lines, body: Optional[bytes], key: str) -> _core.LlmCall:
        """A request as a call."""
        return self._meter.call(method, path, list(headers), body, key)

    def enter(self, call: _core.LlmCall) -> Union[Held, Refused]:
        """Takes what is estimated for a call; waits for it if need be."""
        if call.refusal is not None:
            return _refused(call, *call.refusal)
        if call.requested() is None:
            return Held(call, None)
        try:
            return Held(call, self._outgoing.acquire(call))
        except REFUSED as error:
            return _in_place(call, error)

    async def async_enter(self, call: _core.LlmCall) -> Union[Held, Refused]:
        """The same in an event loop."""
        if call.refusal is not None:
            return _refused(call, *call.refusal)
        if call.requested() is None:
            return Held(call, None)
        try:
            return Held(call, await self._outgoing.async_acquire(call))
        except REFUSED as error:
            return _in_place(call, error)

    def served(self, held: Held, status: int, headers: _Lines) -> Optional[bool]:
        """An answer has begun: whether the call is served; ``None`` if nobody knows what it used."""
        how, pause = held._call.answered(status, list(headers))
        if pause and held._acquired is not None:
            self._outgoing.pause(held._acquired, pause)
        return None if how == "lost" else how == "served"


def _refused(call: _core.LlmCall, status: int, message: str, retry_after: Optional[float] = None) -> Refused:
    headers = {"Content-Type": "application/json"}
    if retry_after is not None:
        millis = math.ceil(retry_after * 1_000)
        headers.update({"Retry-After": str(math.ceil(millis / 1_000)), "retry-after-ms": str(millis)})
    return Refused(status, headers, call.error(status, message, retry_after))


def _in_place(call: _core.LlmCall, error: Any) -> Refused:
    """What an error of the limits is to the caller of a provider."""
    if isinstance(error, AcquireTimeout):
        limit = "a limit" if error.limit is None else f"limit `{error.limit}`"
        if error.retry_after is None:
            return _refused(call, 429, f"{limit} is reached; try again when a call has ended", _SOON)
        later = f"try again in {error.retry_after:.3f} s"
        return _refused(call, 429, f"{limit} has not as much left; {later}", error.retry_after)
    if isinstance(error, ImpossibleRequest):
        return _refused(call, 400, f"{error}: shorten the prompt, or raise the limit")
    return _refused(call, 503, str(error), _SOON)
