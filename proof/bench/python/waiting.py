"""A thousand tasks that wait: how often each is woken, and in what order they are served."""

from __future__ import annotations

import asyncio
import bisect

import aiolimiter
import concurry
from measure import Options, Row

from tidegate import LimitSet, RateLimit, ResourceLimit

TASKS = 1_000


class Steps:
    """An awaitable that counts how often its task goes on with it."""

    def __init__(self, awaitable):
        self.awaitable, self.count = awaitable, 0

    def __await__(self):
        inner = self.awaitable.__await__()
        while True:
            self.count += 1
            try:
                waits_for = inner.send(None)
            except StopIteration as done:
                return done.value
            yield waits_for


async def crowd(acquire, release) -> tuple[float, int]:
    """How often a task was woken for each admission, and how many pairs were served out of order."""
    order, waits = [], []

    async def work(number):
        waits.append(Steps(acquire()))
        acquired = await waits[-1]
        order.append(number)
        await asyncio.sleep(0)
        await release(acquired)

    await asyncio.gather(*(work(number) for number in range(TASKS)))
    return sum(waited.count - 1 for waited in waits) / TASKS, pairs_out_of_order(order)


def pairs_out_of_order(order) -> int:
    served, pairs = [], 0
    for number in order:
        position = bisect.bisect(served, number)
        pairs += len(served) - position
        served.insert(position, number)
    return pairs


async def ends(acquired):
    await acquired.async_release()


async def ends_theirs(acquired):
    acquired.release()


async def nothing(_acquired):
    pass


async def our_slot():
    limits = LimitSet([ResourceLimit("slots", 1)])
    return await crowd(limits.async_acquire, ends)


async def our_rate():
    limits = LimitSet([RateLimit("tokens", TASKS, 1, burst=1)])
    return await crowd(lambda: limits.async_acquire({"tokens": 1}), ends)


async def the_semaphore():
    semaphore = asyncio.Semaphore(1)

    async def release(_acquired):
        semaphore.release()

    return await crowd(semaphore.acquire, release)


async def concurrys_slot():
    limits = concurry.LimitSet(
        limits=[concurry.ResourceLimit(key="slots", capacity=1)], shared=True, mode="asyncio"
    )
    return await crowd(limits.async_acquire, ends_theirs)


async def the_limiter():
    limiter = aiolimiter.AsyncLimiter(1, 1 / TASKS)
    return await crowd(limiter.acquire, nothing)


def for_a_slot(name: str, _options: Options) -> list[Row]:
    return counted(name, our_slot, {"asyncio.Semaphore": the_semaphore, "concurry, asyncio": concurrys_slot})


def for_a_rate(name: str, _options: Options) -> list[Row]:
    return counted(name, our_rate, {"aiolimiter": the_limiter})


def counted(name, ours, theirs) -> list[Row]:
    """Counts, not times: once is enough."""
    woken, pairs = asyncio.run(ours())
    rows = []
    for peer, run in theirs.items():
        others_woken, others_pairs = asyncio.run(run())
        ratio = f"{woken / others_woken:.2g}" if others_woken else ""
        rows.append(Row(f"{name}: wake-ups an admission / {peer}", f"{woken:.2f}", f"{others_woken:.2f}", ratio, ""))
        rows.append(Row(f"{name}: pairs out of order / {peer}", f"{pairs:,}", f"{others_pairs:,}", "", ""))
    return rows
