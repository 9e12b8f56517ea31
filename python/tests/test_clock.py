"""Time that a test moves."""

import asyncio
import math
import threading
import time

import pytest

from tidegate import (
    AcquireTimeout,
    Budget,
    InvalidRequest,
    LimitPool,
    LimitSet,
    Mutex,
    RateLimit,
    ResourceLimit,
    Semaphore,
)
from tidegate.testing import ManualClock


def test_time_stands_still_until_it_is_advanced(tidegate_clock):
    before = tidegate_clock.now()
    limits = LimitSet([RateLimit("tokens", 60, "per_minute")], clock=tidegate_clock)
    assert limits.try_acquire({"tokens": 60})
    assert limits.try_acquire({"tokens": 10}).retry_after == 10
    tidegate_clock.advance(9.999999)
    assert not limits.try_acquire({"tokens": 10})
    tidegate_clock.advance(0.000001)
    assert limits.try_acquire({"tokens": 10})
    assert tidegate_clock.now() == before + 10
    assert "2026-01-01" in repr(tidegate_clock)


def test_threads_that_wait_are_served_in_order_each_at_its_instant(tidegate_clock):
    limits = LimitSet("1/minute", clock=tidegate_clock)
    limits.acquire()
    served, threads = [], []

    def work(number):
        limits.acquire()
        served.append(number)

    for number in range(3):
        threads.append(threading.Thread(target=work, args=(number,)))
        threads[-1].start()
        while limits.stats()["waiting"] <= number:
            time.sleep(0.001)
    for number in range(3):
        tidegate_clock.advance(59)
        assert len(served) == number
        tidegate_clock.advance(1)
        threads[number].join()
    assert served == [0, 1, 2]
    assert limits.stats()["longest_wait"] == 180


def test_tasks_wait_and_time_out_by_it(tidegate_clock):
    async def main():
        limits = LimitSet([ResourceLimit("slots", 1)], clock=tidegate_clock)
        held = await limits.async_acquire()
        waits = asyncio.ensure_future(limits.async_acquire(timeout=3_600))
        await asyncio.sleep(0)
        tidegate_clock.advance(3_599)
        await asyncio.sleep(0.01)
        assert not waits.done()
        tidegate_clock.advance(1)
        with pytest.raises(AcquireTimeout):
            await waits
        await held.async_release()

    asyncio.run(main())


def test_pools_and_calendars_go_by_it():
    # 23:59:50 of 31 January 2026, UTC.
    clock = ManualClock(1_769_903_990)
    sets = [LimitSet([Budget("usd", 1, "calendar month")], clock=clock) for _ in range(2)]
    pool = LimitPool(sets)
    assert pool.try_acquire({"usd": 1}) and pool.try_acquire({"usd": 1})
    assert pool.try_acquire({"usd": 1}).retry_after == 10
    clock.advance(10)
    pool.cool_down("0", 30)
    assert pool.try_acquire({"usd": 1}).member == "1"
    assert not pool.try_acquire({"usd": 1})
    clock.advance(30)
    assert pool.try_acquire({"usd": 1}).member == "0"


def test_semaphores_go_by_it_and_have_names_of_their_own(tidegate_clock):
    gpus = Semaphore("by a clock", 1, clock=tidegate_clock)
    with gpus.acquire() as permit:
        tidegate_clock.advance(86_400 * 100)
        assert permit.is_held
        assert Semaphore("by a clock", 1, clock=tidegate_clock).try_acquire() is None
        assert Semaphore("by a clock", 2).available() == 2
        assert Mutex("by a clock", clock=ManualClock()).available() == 1


def test_a_store_keeps_its_own_time(tidegate_clock):
    with pytest.raises(InvalidRequest, match="clock"):
        LimitSet("1/minute", name="x", store="shm:x", clock=tidegate_clock)
    with pytest.raises(InvalidRequest, match="clock"):
        Mutex("x", store="shm:x", clock=tidegate_clock)
    with pytest.raises(TypeError):
        LimitSet("1/minute", clock=time)


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, 1e12])
def test_what_is_no_time_is_refused(tidegate_clock, seconds):
    with pytest.raises(InvalidRequest):
        tidegate_clock.advance(seconds)
    with pytest.raises(InvalidRequest):
        ManualClock(seconds)
