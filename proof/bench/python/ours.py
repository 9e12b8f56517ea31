"""Tidegate's side of each row."""

from __future__ import annotations

import os
import pathlib

from tidegate import CallLimit, LimitPool, LimitSet, RateLimit, ResourceLimit

#: More than any run takes: no row waits for a refill.
MUCH = 10**12

_made: list[pathlib.Path] = []


def shm(name: str) -> str:
    """Shared memory of this run alone."""
    name = f"bench-{os.getpid()}-{name}"
    _made.append(pathlib.Path(f"/dev/shm/tidegate-{os.getuid()}-{name}"))
    return f"shm:{name}?size=256&deadline=60s"


def tidy() -> None:
    for path in _made:
        path.unlink(missing_ok=True)


def one(name=None, store=None) -> LimitSet:
    return LimitSet([CallLimit(MUCH, "per_day")], name=name, store=store)


def three(name=None, store=None) -> LimitSet:
    limits = [CallLimit(MUCH, "per_day"), RateLimit("tokens", MUCH, "per_day"), ResourceLimit("slots", 8)]
    return LimitSet(limits, name=name, store=store)


def slots(name, store, *, capacity=8, **more) -> LimitSet:
    return LimitSet([ResourceLimit("slots", capacity)], name=name, store=store, **more)


def acquires(limits):
    def work(count):
        for _ in range(count):
            with limits.acquire():
                pass

    return work


def acquires_three(limits):
    def work(count):
        for _ in range(count):
            with limits.acquire({"tokens": 5}) as acquired:
                acquired.update({"tokens": 3})

    return work


def tries(limits):
    def work(count):
        for _ in range(count):
            assert limits.try_acquire()

    return work


def acquires_async(limits):
    async def work(count):
        for _ in range(count):
            async with await limits.async_acquire():
                pass

    return work


def enters(semaphore):
    def work(count):
        for _ in range(count):
            with semaphore:
                pass

    return work


def enters_async(semaphore):
    async def work(count):
        for _ in range(count):
            async with semaphore:
                pass

    return work


def pool(members, store, worker):
    sets = [LimitSet([ResourceLimit("slots", 2)], name=f"member {number}", store=store) for number in range(members)]
    return LimitPool(sets, offset=worker)
