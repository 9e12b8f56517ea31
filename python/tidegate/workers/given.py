"""What can be given as limits, made into a pool."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

from .. import _opened, _ray
from ..errors import TidegateError
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
    return _pool(limits)


#: The numbers of the sets of their own that workers have, of this process (by its own number: a forked
#: child has none of its parent's).
_numbers: set[tuple[int, int]] = set()
_numbering = threading.RLock()


class _OwnName:
    """The name of a set of their own: what ends gives it back. So there are as many as workers had sets
    at once, and what a process that was killed has left goes when another has its number."""

    def __init__(self) -> None:
        process = os.getpid()
        with _numbering:
            free = (number for number in itertools.count() if (process, number) not in _numbers)
            self._of = process, next(free)
            _numbers.add(self._of)

    def __str__(self) -> str:
        return "workers-%d-%d" % self._of

    def give_back(self) -> None:
        with _numbering:
            _numbers.discard(self._of)


def shared_pool(limits: Given, mode: str) -> tuple[LimitPool, Callable[[], None]]:
    """``limits`` as a pool that workers of ``mode`` share, and what is called when they have ended.
    Limits that are in no set become one of their own, in a store that these workers share.

    :raises ValueError: a set that is in the memory of one process, for several processes.
    :raises TypeError: it is none of what can be given.
    """
    if mode not in _INSTEAD:
        return _pool(limits), _nothing
    if limits is not None and not isinstance(limits, (LimitPool, LimitSet, Mapping)):
        limits = [limits] if isinstance(limits, _LIMITS) else list(limits)
        if limits and all(isinstance(one, _LIMITS) for one in limits):
            return _own(limits, mode)
    made = _pool(limits)
    for member in made._sets.values() if not isinstance(made, Unlimited) else ():
        _check(member, mode)
    return made, _nothing


def _nothing() -> None:
    """Their sets are somebody's."""


def _own(limits: list[Any], mode: str) -> tuple[LimitPool, Callable[[], None]]:
    """A set of their own, of which nothing stays when they have ended."""
    name = _OwnName()
    try:
        # What a process of the same number has left, which was killed.
        LimitSet(limits, name=str(name), mode=mode)._forget()
        own = LimitSet(limits, name=str(name), mode=mode)
    except BaseException:
        name.give_back()
        raise

    def ended() -> None:
        # A store that cannot be reached keeps it.
        with contextlib.suppress(TidegateError):
            own._forget()
        name.give_back()

    return LimitPool([own]), ended


def _pool(limits: Any) -> LimitPool:
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
        return LimitPool([LimitSet(given)])
    raise TypeError(f"limits are limits, sets or a pool, not {limits!r}")


def _check(member: LimitSet, mode: str) -> None:
    if _opened.is_of_one_process(member.store):
        raise ValueError(
            f"{member!r} is of one process ({_opened.scheme(member.store)}), and each worker's would admit as much again: "
            f"give it a name and {_INSTEAD[mode]}"
        )
    if mode == "ray":
        _ray.store(member.store)
