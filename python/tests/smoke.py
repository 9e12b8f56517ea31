"""What a first user would try with a wheel: standard library alone, on any CPython from 3.9."""

import asyncio
import concurrent.futures
import os
import sys

from tidegate import AcquireTimeout, LimitPool, LimitSet, Mutex, RateLimit, ResourceLimit, limited


def takes(store):
    shared = LimitSet([ResourceLimit("slots", 2), RateLimit("tokens", 10, "per_day")], name="smoke", store=store)
    with shared.try_acquire({"tokens": 4}) as acquired:
        return bool(acquired)


async def in_tasks(limits):
    async def work():
        async with await limits.async_acquire({"tokens": 1}):
            await asyncio.sleep(0)

    await asyncio.gather(*(work() for _ in range(100)))


def main():
    limits = LimitSet([RateLimit("tokens", 1_000, "per_day"), ResourceLimit("slots", 1)])
    with limits.acquire({"tokens": 400}, timeout=1) as acquired:
        acquired.update({"tokens": 300})
        try:
            limits.acquire({"tokens": 1}, timeout=0)
        except AcquireTimeout as refused:
            assert refused.limit == "slots"
        else:
            raise AssertionError("two hold one slot")
    assert acquired.reclaimed == {"tokens": 100}
    asyncio.run(in_tasks(limits))
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: limits.acquire({"tokens": 1}).release(), range(100)))
    assert limits.try_acquire({"tokens": 500}) and limits.stats()["admitted"] == 202
    pool = LimitPool([LimitSet("1/day", config={"of": number}) for number in range(2)])
    assert {pool.acquire().config["of"] for _ in range(2)} == {0, 1} and not pool.try_acquire()
    with Mutex("smoke"):
        assert Mutex("smoke").try_acquire() is None
    assert limited(LimitSet("1/day"))(len)("four") == 4
    name = "smoke-{}".format(os.getpid())
    with concurrent.futures.ProcessPoolExecutor(2) as processes:
        assert sum(processes.map(takes, ["shm:{}?size=8".format(name)] * 4)) == 2
    os.unlink("/dev/shm/tidegate-{}-{}".format(os.getuid(), name))
    print("CPython {}.{}.{}: works".format(*sys.version_info[:3]))


if __name__ == "__main__":
    main()
