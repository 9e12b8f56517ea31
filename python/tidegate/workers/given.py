"""What can be given as limits, made into a pool."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from .. import _opened, _ray
from ..limits import Limit, RateLimit
from ..sets import LimitPool, LimitSet

#: Nothing, a limit, limits, a set, sets, sets by name, or a pool.
Given = Union[None, Limit, str, LimitSet, LimitPool, Iterable[Union[Limit, str, LimitSet]], Mapping[str, LimitSet]]

MODES = ("thread", "asyncio", "process", "ray")
_LIMITS = (str, Limit)
_INSTEAD = {
    "process": "mode='process' (this machine) or store='redis://...'",
    "ray": "mode='ray' (one node) or store='redis://...'",
}


class Unlimited(LimitPool):
    """Grants whatever is asked of it, and counts nothing."""

    def __init__(self) -> None:
        super().__init__([LimitSet([])])

    def acquire(self, requested: Any = None, *arguments: Any, **named: Any) -> Any:
        return _infinite(frozenset(requested or ())).acquire(requested, *arguments, **named)

    def try_acquire(self, requested: Any = None, *arguments: Any, **named: Any) -> Any:
        return _infinite(frozenset(requested or ())).try_acquire(requested, *arguments, **named)

    def async_acquire(self, requested: Any = None, *arguments: Any, **named: Any) -> Any:
        return _infinite(frozenset(requested or ())).async_acquire(requested, *arguments, **named)

    def async_try_acquire(self, requested: Any = None, *arguments: Any, **named: Any) -> Any:
        return _infinite(frozenset(requested or ())).async_try_acquire(requested, *arguments, **named)

    def _turned(self, turns: int) -> LimitPool:
        return self

    def __reduce__(self) -> Any:
        return Unlimited, ()

    def __repr__(self) -> str:
        return "<unlimited>"


@functools.lru_cache(maxsize=64)
def _infinite(names: frozenset[str]) -> LimitSet:
    return LimitSet([RateLimit(name, float("inf"), "per_second") for name in names])


def pool(limits: Given) -> LimitPool:
    """``limits`` as a pool; an unlimited one of nothing.

    :raises TypeError: it is none of what can be given.
    """
    return _pool(limits, None)


def shared_pool(limits: Given, mode: str) -> LimitPool:
    """``limits`` as a pool that workers of ``mode`` share. Limits that are in no set become one of
    their own, in a store that these workers share.

    :raises ValueError: a set that is in the memory of one process, for several processes.
    :raises TypeError: it is none of what can be given.
    """
    if mode not in _INSTEAD:
        return _pool(limits, None)
    made = _pool(limits, mode)
    for member in made._sets.values() if not isinstance(made, Unlimited) else ():
        _check(member, mode)
    return made


def _pool(limits: Any, mode: Optional[str]) -> LimitPool:
    if limits is None:
        return Unlimited()
    if isinstance(limits, LimitPool):
        return limits
    if isinstance(limits, LimitSet):
        return LimitPool([limits])
    if isinstance(limits, Mapping):
        return LimitPool(limits)
    given: list[Any] = [limits] if isinstance(limits, _LIMITS) else list(limits)
    if not given:
        return Unlimited()
    if all(isinstance(one, LimitSet) for one in given):
        return LimitPool(given)
    if all(isinstance(one, _LIMITS) for one in given):
        name = None if mode is None else f"workers-{uuid.uuid4()}"
        return LimitPool([LimitSet(given, name=name, mode=mode)])
    raise TypeError(f"limits are limits, sets or a pool, not {limits!r}")


def _check(member: LimitSet, mode: str) -> None:
    if _opened.is_of_one_process(member.store):
        raise ValueError(
            f"{member!r} is of one process ({_opened.scheme(member.store)}), and each worker's would admit as much again: "
            f"give it a name and {_INSTEAD[mode]}"
        )
    if mode == "ray":
        _ray.store(member.store)
