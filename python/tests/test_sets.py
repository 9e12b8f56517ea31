"""Sets in memory: threads, asyncio, partial acquisition, ends."""

import asyncio
import math
import pickle
import threading
import time
import uuid
from datetime import timedelta
from decimal import Decimal

import pytest

from tidegate import (
    AcquireTimeout,
    Balancer,
    Budget,
    CallLimit,
    ImpossibleRequest,
    InvalidRequest,
    LeaseEnded,
    LimitPool,
    LimitSet,
    LoadBalancing,
    QueueFull,
    RateLimit,
    RateLimitAlgorithm,
    ResourceLimit,
    Semaphore,
    UnreportedUsage,
)


def tokens_and_slots(tokens=1_000, slots=2, **more):
    return LimitSet([RateLimit("tokens", tokens, "per_minute"), ResourceLimit("slots", slots)], **more)


def remaining(limits, name="tokens"):
    with limits.try_acquire({name: 0} if name != "tokens" else {}) as looked:
        return looked.remaining[name]


def test_an_unreported_rate_was_used_as_taken_and_a_reported_one_comes_back():
    limits = tokens_and_slots()
    with limits.acquire({"tokens": 400}):
        pass
    with limits.acquire({"tokens": 400}) as acquired:
        acquired.update(usage={"tokens": 100})
    assert acquired.reclaimed == {"tokens": 300}
    assert limits.try_acquire({"tokens": 500})
    assert not limits.try_acquire({"tokens": 5})


def test_more_than_was_taken_is_debt():
    limits = tokens_and_slots(tokens=100)
    with limits.acquire({"tokens": 50}) as acquired:
        acquired.update(usage={"tokens": 150})
    refused = limits.try_acquire({"tokens": 1})
    assert not refused and refused.limit == "tokens"
    assert 30 < refused.retry_after < 31


def test_partial_acquisition():
    limits = LimitSet([RateLimit("in", 10, 60), RateLimit("out", 10, 60), CallLimit(5, 60), ResourceLimit("slots", 1)])
    with pytest.raises(InvalidRequest):
        limits.acquire()
    with limits.acquire({"in": 4}) as acquired:
        assert acquired.remaining == {"in": 6, "out": 10, "calls": 4, "slots": 0}
    with limits.acquire({"in": 1, "slots": 0}) as acquired:
        assert acquired.remaining["slots"] == 1
        # Nested: it holds no slot.
        with limits.acquire({"out": 1}) as inner:
            assert inner.remaining["slots"] == 0


def test_what_no_limit_could_grant_is_an_error_at_once():
    limits = tokens_and_slots()
    with pytest.raises(ImpossibleRequest) as raised:
        limits.acquire({"tokens": 1_001}, timeout=None)
    assert raised.value.limit == "tokens" and raised.value.capacity == 1_000
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("number", [-1, -0.5, math.nan, math.inf, 2**60, 1.5, True, "x", None])
def test_an_amount_that_is_none_is_refused(number):
    limits = tokens_and_slots()
    with pytest.raises(InvalidRequest):
        limits.acquire({"tokens": number})
    assert limits.try_acquire({"tokens": 1_000})


def test_unknown_names_are_refused_with_those_that_there_are():
    with pytest.raises(InvalidRequest, match="tokens, slots"):
        tokens_and_slots().try_acquire({"token": 1})


def test_the_bodys_own_exception_passes_through_and_slots_come_back():
    limits = tokens_and_slots(slots=1, strict_updates=True)
    for _ in range(3):
        with pytest.raises(KeyError, match="mine"):
            with limits.acquire({"tokens": 10}):
                raise KeyError("mine")
    assert limits.stats()["dropped"] == 3
    assert limits.try_acquire({"tokens": 970})


def test_a_strict_set_asks_for_every_rate():
    limits = tokens_and_slots(slots=1, strict_updates=True)
    with pytest.raises(UnreportedUsage, match="tokens"):
        with limits.acquire({"tokens": 10}):
            pass
    with limits.acquire({"tokens": 10}, timeout=0) as acquired:
        acquired.update(usage={"tokens": 10})


def test_a_refusal_holds_nothing():
    limits = LimitSet([ResourceLimit("slots", 1)])
    held = limits.acquire()
    for _ in range(3):
        with limits.try_acquire() as refused:
            assert not refused.successful
    assert not limits.try_acquire()
    with pytest.raises(LeaseEnded):
        refused.update(usage={})
    held.release()
    assert limits.try_acquire()


def test_a_timeout_is_a_timeout_error_with_the_limit():
    limits = LimitSet([ResourceLimit("slots", 1)])
    with limits.acquire():
        before = time.monotonic()
        with pytest.raises(TimeoutError) as raised:
            limits.acquire(timeout=0.05)
        assert time.monotonic() - before >= 0.05
    assert raised.value.limit == "slots"


def test_a_rate_that_cannot_come_in_time_is_told_at_once():
    limits = LimitSet("1/minute")
    assert limits.try_acquire()
    with pytest.raises(AcquireTimeout) as raised:
        limits.acquire(timeout=30)
    assert 59 < raised.value.retry_after <= 60


def test_threads_are_served_in_order_of_arrival():
    limits = LimitSet([ResourceLimit("slots", 1)])
    held = limits.acquire()
    order, threads = [], []

    def work(number):
        with limits.acquire():
            order.append(number)

    for number in range(8):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        threads.append(thread)
        while limits.stats()["waiting"] <= number:
            time.sleep(0.001)
    held.release()
    for thread in threads:
        thread.join()
    assert order == list(range(8))


def test_who_has_a_larger_priority_is_served_before_who_came_earlier():
    async def main():
        limits = LimitSet([ResourceLimit("slots", 1)])
        order = []

        async def work(name, priority):
            async with await limits.async_acquire(priority=priority):
                order.append(name)

        async with await limits.async_acquire():
            waiting = []
            for number, (name, priority) in enumerate([("early", 0), ("urgent", 1)]):
                waiting.append(asyncio.create_task(work(name, priority)))
                await asyncio.sleep(0)
                assert limits.stats()["waiting"] == number + 1
        await asyncio.gather(*waiting)
        assert order == ["urgent", "early"]

    asyncio.run(main())


def test_the_queue_has_a_bound():
    limits = LimitSet([ResourceLimit("slots", 1)], max_waiting=1)
    held = limits.acquire()
    thread = threading.Thread(target=lambda: limits.acquire().release())
    thread.start()
    while limits.stats()["waiting"] < 1:
        time.sleep(0.001)
    with pytest.raises(QueueFull):
        limits.acquire(timeout=5)
    held.release()
    thread.join()


def test_tasks_are_served_in_order_of_arrival():
    async def main():
        limits = LimitSet([ResourceLimit("slots", 1)])
        order = []

        async def work(number):
            async with await limits.async_acquire():
                order.append(number)
                await asyncio.sleep(0)

        async with await limits.async_acquire():
            tasks = [asyncio.create_task(work(number)) for number in range(1_000)]
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        assert order == list(range(1_000))
        assert limits.stats()["waiting"] == 0

    asyncio.run(main())


def test_a_cancelled_task_leaves_its_place():
    async def main():
        limits = LimitSet([ResourceLimit("slots", 1)])
        held = await limits.async_acquire()
        first = asyncio.ensure_future(limits.async_acquire())
        second = asyncio.ensure_future(limits.async_acquire())
        await asyncio.sleep(0.01)
        assert limits.stats()["waiting"] == 2
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await held.async_release()
        acquired = await asyncio.wait_for(second, 5)
        assert acquired.successful
        await acquired.async_release()
        assert limits.try_acquire()

    asyncio.run(main())


def test_a_wait_that_is_cut_off_by_asyncio_takes_nothing():
    async def main():
        limits = LimitSet([ResourceLimit("slots", 1)])
        async with await limits.async_acquire():
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(limits.async_acquire(), 0.02)
        assert limits.try_acquire()

    asyncio.run(main())


def test_two_event_loops_share_a_limit():
    limits = LimitSet([ResourceLimit("slots", 1)])
    most, now, lock = [0], [0], threading.Lock()

    async def work():
        for _ in range(50):
            async with await limits.async_acquire():
                with lock:
                    now[0] += 1
                    most[0] = max(most[0], now[0])
                await asyncio.sleep(0)
                with lock:
                    now[0] -= 1

    async def crowd():
        await asyncio.gather(work(), work())

    threads = [threading.Thread(target=asyncio.run, args=(crowd(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] and limits.try_acquire()


def test_an_exception_in_an_async_body_passes_through():
    async def main():
        limits = LimitSet([ResourceLimit("slots", 1)])
        with pytest.raises(KeyError):
            async with await limits.async_acquire():
                raise KeyError("mine")
        assert limits.try_acquire()

    asyncio.run(main())


def test_adjusting_takes_more_or_nothing():
    limits = tokens_and_slots(tokens=100)
    with limits.acquire({"tokens": 50}) as acquired:
        assert acquired.adjust({"tokens": 90})
        assert not acquired.adjust({"tokens": 101})
        assert acquired.adjust({"tokens": 120}, overdraw=True)
        assert acquired.adjust({"tokens": 10})
        acquired.update(usage={"tokens": 10})
    assert limits.try_acquire({"tokens": 90})


def test_cancelling_gives_everything_back():
    limits = tokens_and_slots(tokens=100)
    acquired = limits.acquire({"tokens": 100})
    acquired.cancel()
    assert limits.try_acquire({"tokens": 100})
    acquired.release()


def test_fractions_and_infinity():
    limits = LimitSet([Budget("usd", 0.5, "per_hour"), RateLimit("tokens", math.inf, 1)])
    with limits.acquire({"usd": 0.2, "tokens": 10**12}) as acquired:
        assert acquired.remaining == {"usd": 0.3, "tokens": math.inf}
        acquired.update(usage={"usd": Decimal("0.1"), "tokens": 5})
    assert acquired.reclaimed == {"usd": 0.1}


@pytest.mark.parametrize("window", [60, 60.0, timedelta(minutes=1), "per_minute", "minute", "1 minute", "60 seconds"])
def test_windows_are_written_in_many_ways(window):
    limits = LimitSet([CallLimit(1, window, RateLimitAlgorithm.SLIDING_LOG)])
    assert limits.try_acquire()
    assert 59 < limits.try_acquire().retry_after <= 60


@pytest.mark.parametrize("window", [0, -1, math.nan, math.inf, "fortnight", "", "0 minutes", "x minutes", True])
def test_no_other_window_is_one(window):
    with pytest.raises(ValueError):
        CallLimit(1, window)


def test_calendars():
    limits = LimitSet([Budget("usd", 5, "calendar month Europe/Berlin")])
    assert limits.try_acquire({"usd": 5})
    with pytest.raises(InvalidRequest):
        LimitSet([Budget("usd", 5, "calendar month Europe/Nowhere")])


def test_keys_have_limits_of_their_own():
    limits = LimitSet("1/minute")
    assert limits.try_acquire(key="alice") and limits.try_acquire(key="bob")
    assert not limits.try_acquire(key="alice")


def test_pools_pass_over_a_full_set():
    pool = LimitPool(
        {region: LimitSet([ResourceLimit("slots", 1)], config={"region": region}) for region in ("eu", "us")}
    )
    first, second = pool.acquire(), pool.acquire()
    assert {first.config["region"], second.config["region"]} == {"eu", "us"}
    assert not pool.try_acquire()
    second.release()
    assert pool.try_acquire().member == second.member
    assert pool[0].config == {"region": "eu"} and len(pool) == 2


def test_a_balancer_in_python():
    sets = [LimitSet([ResourceLimit("slots", 1)], config=number) for number in range(3)]
    pool = LimitPool(sets, balancer=lambda loads, turn: [2, 0])
    assert [pool.acquire().config, pool.acquire().config] == [2, 2]
    held = [pool.acquire() for _ in range(3)]
    assert [acquired.config for acquired in held] == [2, 0, 1]


def test_a_balancer_is_any_callable_of_its_shape():
    class Last:
        def __call__(self, loads, turn):
            return range(len(loads))[::-1]

    balancer: Balancer = Last()
    pool = LimitPool([LimitSet([ResourceLimit("slots", 9)], config=number) for number in range(3)], balancer=balancer)
    assert pool.acquire().config == 2


@pytest.mark.parametrize(
    "limit", [CallLimit(1.5, "per_day"), ResourceLimit("calls", 1.5), CallLimit(1, "per_day", burst=1.5)]
)
def test_calls_and_things_are_whole_numbers(limit):
    with pytest.raises(InvalidRequest, match="limit 'calls' is of whole numbers, not 1.5; a RateLimit takes fractions"):
        LimitSet(limit)


@pytest.mark.parametrize("store", ["memory:", "file:{}/tidegate.redb"])
def test_sets_and_semaphores_in_a_store_of_one_process_are_not_pickled(store, tmp_path):
    store = store.format(tmp_path)
    limits = LimitSet("1/minute", name="of one process", store=store)
    for made in (limits, LimitPool([limits]), Semaphore("slots of one process", 1, store=store)):
        with pytest.raises(TypeError, match="of one process"):
            pickle.dumps(made)


def test_a_budget_counts_by_windows():
    for more in ({"algorithm": "token_bucket"}, {"algorithm": RateLimitAlgorithm.GCRA}, {"burst": 5}):
        with pytest.raises(ValueError, match="RateLimit"):
            Budget("usd", 50, "per_hour", **more)
    assert LimitSet(Budget("usd", 50, "per_hour", "first_use_window")).try_acquire({"usd": 50})


def test_decimal_places_are_none_to_nine():
    for kind in (RateLimit, Budget):
        assert kind("usd", 5, "per_hour", places=9).places == 9
        for wrong in (-1, 10, 20, 1.5):
            with pytest.raises(InvalidRequest, match="places"):
                kind("usd", 5, "per_hour", places=wrong)


def test_a_rate_says_its_window():
    for kind in (RateLimit, Budget):
        with pytest.raises(TypeError, match="window"):
            kind("tokens", 50)
    with pytest.raises(TypeError, match="window"):
        CallLimit(50)


def test_weights_are_numbers_that_the_pool_goes_by():
    sets = {name: LimitSet(f"{number}/day") for name, number in (("one", 100), ("three", 100))}
    pool = LimitPool(sets, weights=[1, 3])
    members = [pool.try_acquire().member for _ in range(8)]
    assert members.count("three") == 6
    again = LimitPool(sets, weights=[1, 3], load_balancing=LoadBalancing.LEAST_LOADED)
    assert again.try_acquire()
    for wrong in ([0, 1], [-1, 1], [1, 2**32], [1.5, 1], [1]):
        with pytest.raises(InvalidRequest, match="weights"):
            LimitPool(sets, weights=wrong)
    for balancing in ("round_robin", "random", "first_available"):
        with pytest.raises(ValueError, match="weights"):
            LimitPool(sets, weights=[1, 3], load_balancing=balancing)
    with pytest.raises(TypeError, match="weights is a list"):
        LimitPool(sets, weights={"eu": 1, "us": 3})
    with pytest.raises(ValueError, match="weights"):
        LimitPool(sets, weights=[1, 3], balancer=lambda loads, turn: [0, 1])
    with pytest.raises(ValueError, match="balancer"):
        LimitPool(sets, load_balancing="random", balancer=lambda loads, turn: [0, 1])
    for wrong in (-1, 2**64):
        with pytest.raises(InvalidRequest, match="offset"):
            LimitPool(sets, offset=wrong)


def test_the_sets_of_a_pool_end_in_one_way():
    lax, strict = (LimitSet(RateLimit("tokens", 5, "per_day"), strict_updates=is_strict) for is_strict in (False, True))
    with pytest.raises(InvalidRequest, match="strict_updates"):
        LimitPool([lax, strict])
    refunded = LimitSet(RateLimit("tokens", 5, "per_day", refund_on_failure=True))
    with pytest.raises(InvalidRequest, match="refund_on_failure"):
        LimitPool([lax, refunded])


def test_a_pool_has_its_sets_by_position_and_its_members_by_name():
    eu, us = LimitSet("1/day"), LimitSet("2/day")
    pool = LimitPool({"eu": eu, "us": us})
    assert pool[0] is eu and pool[-1] is us and list(pool) == [eu, us]
    assert pool.member("us") is us and LimitPool([eu, us]).member("1") is us
    for name in ("us", "asia", "0"):
        with pytest.raises(TypeError, match="member"):
            pool[name]
    with pytest.raises(InvalidRequest, match="no member 'asia'; there are eu, us"):
        pool.member("asia")
    with pytest.raises(IndexError):
        pool[2]


def test_sets_of_one_process_are_not_pickled():
    with pytest.raises(TypeError, match="redis"):
        pickle.dumps(LimitSet("1/minute"))


def test_ctrl_c_interrupts_a_wait():
    import os
    import signal

    limits = LimitSet([ResourceLimit("slots", 1)])
    held = limits.acquire()
    # Whoever starts the tests in the background has them ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt():
        while limits.stats()["waiting"] < 1:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            limits.acquire(timeout=60)
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    held.release()
    assert limits.try_acquire()


def test_money_that_was_added_up_is_what_it_means():
    limits = LimitSet([Budget("usd", 50, "calendar month America/New_York")])
    for number in range(1, 201):
        with limits.acquire({"usd": 0.1 + 0.2}) as acquired:
            acquired.update(usage={"usd": number * 0.000003})
    with limits.acquire({"usd": 1e-6}) as acquired:
        assert acquired.remaining["usd"] == pytest.approx(50 - 0.000003 * 20_100 - 1e-6)


def test_a_pool_is_of_limits_in_the_same_units():
    whole = LimitSet([RateLimit("credits", 100, "per_hour")])
    part = LimitSet([RateLimit("credits", 2.5, "per_hour")])
    none = LimitSet([RateLimit("credits", math.inf, "per_hour"), ResourceLimit("slots", 1)])
    for other in (part, none):
        with pytest.raises(InvalidRequest, match="credits"):
            LimitPool([whole, other])


def test_a_holder_in_memory_holds_for_as_long_as_it_lives():
    limits = LimitSet([ResourceLimit("slots", 1)])
    with limits.acquire():
        refused = limits.try_acquire()
        assert refused.limit == "slots" and refused.retry_after is None
    short = LimitSet([ResourceLimit("slots", 1, ttl=0.05)])
    held = short.acquire()
    with short.acquire(timeout=30):
        with pytest.raises(LeaseEnded):
            held.adjust({"slots": 1})


def test_verbs_of_one_acquisition_come_one_after_the_other():
    limits = tokens_and_slots(tokens=10_000)
    acquired = limits.acquire({"tokens": 10})
    done = threading.Event()

    def renews():
        while not done.is_set():
            acquired.renew(60)

    thread = threading.Thread(target=renews)
    thread.start()
    for number in range(200):
        acquired.update({"tokens": number})
        acquired.adjust({"tokens": 10 + number})
    done.set()
    thread.join()
    acquired.release()
    with pytest.raises(LeaseEnded):
        acquired.renew(60)
    assert limits.try_acquire({"tokens": 9_000})


def test_an_awaitable_is_awaited_once():
    async def main():
        limits = LimitSet([ResourceLimit("slots", 1)])
        held = await limits.async_acquire()
        waits = limits.async_acquire()

        async def awaits():
            return await waits

        first = asyncio.create_task(awaits())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError):
            await awaits()
        await held.async_release()
        acquired = await asyncio.wait_for(first, 30)
        assert await acquired.async_adjust({"slots": 1})
        await acquired.async_renew(60)
        await acquired.async_release()

    asyncio.run(main())


def test_a_loop_that_was_closed_leaves_its_places():
    import gc

    limits = LimitSet([ResourceLimit("slots", 1)])
    held = limits.acquire()

    async def begin():
        asyncio.get_running_loop().kept = asyncio.create_task(wait())
        await asyncio.sleep(0.01)

    async def wait():
        async with await limits.async_acquire():
            pass

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    assert limits.stats()["waiting"] == 1
    loop.close()
    del loop
    gc.collect()
    held.release()
    with limits.acquire(timeout=30):
        pass


def test_any_mapping_is_one_and_nothing_else():
    from types import MappingProxyType

    limits = tokens_and_slots()
    assert limits.try_acquire(MappingProxyType({"tokens": 5}))
    with pytest.raises(InvalidRequest, match="tokens"):
        limits.try_acquire(4_000)
    with pytest.raises(InvalidRequest):
        limits.try_acquire({"tokens": 1}, priority=256)
    with LimitSet([ResourceLimit("slots", 1)]).acquire():
        pass
    full = LimitSet([ResourceLimit("slots", 1)])
    with full.acquire(), pytest.raises(AcquireTimeout):
        full.acquire(timeout=-1)


def test_a_set_in_a_store_has_a_name():
    with pytest.raises(InvalidRequest, match="name"):
        LimitSet("1/minute", store="redis://127.0.0.1:1")


def test_several_lines_are_limits_of_names_of_their_own():
    limits = LimitSet(["2/hour", "3 per day"])
    assert [bool(limits.try_acquire()) for _ in range(3)] == [True, True, False]
    assert limits.try_acquire().remaining == {"calls/hour": 0, "calls/day": 1}
    assert [limit.name for limit in LimitSet(iter(["2/hour"])).limits] == ["calls"]
    with pytest.raises(InvalidRequest, match="twice"):
        LimitSet(["2/hour", "3/hour"])


def test_peeking_says_where_limits_stand_and_takes_nothing():
    limits = LimitSet([RateLimit("tokens", 100, "per_hour"), Budget("usd", 0.5, "per_hour"), RateLimit("free", math.inf, 1)])
    with limits.acquire({"tokens": 60, "usd": 0.1}) as acquired:
        acquired.adjust({"tokens": 110}, overdraw=True)
        acquired.update({"tokens": 110})
    stands = {
        "tokens": {"capacity": 100, "remaining": 0, "debt": 10},
        "usd": {"capacity": 0.5, "remaining": 0.4, "debt": 0},
        "free": {"capacity": math.inf, "remaining": math.inf, "debt": 0},
    }
    assert limits.peek() == stands == limits.peek()
    assert limits.peek(key="alice")["tokens"] == {"capacity": 100, "remaining": 100, "debt": 0}

    async def main():
        assert await limits.async_peek() == stands

    asyncio.run(main())


def test_sets_are_the_same_in_any_store(any_store):
    described = [RateLimit("tokens", 1_000, "per_day"), ResourceLimit("slots", 1)]
    limits = LimitSet(described, name=f"any-{uuid.uuid4()}", store=any_store)
    with limits.acquire({"tokens": 400}, timeout=60, key="alice") as acquired:
        assert acquired.remaining["slots"] == 0 and acquired.fence > 0
        refused = limits.try_acquire({"tokens": 1}, key="alice")
        assert not refused and refused.limit == "slots"
        assert limits.try_acquire({"tokens": 1_000}, key="bob")
        assert acquired.adjust({"tokens": 600}) and not acquired.adjust({"tokens": 1_001})
        acquired.renew(60)
        acquired.update({"tokens": 100})
        served = []
        waits = threading.Thread(target=lambda: served.append(limits.acquire({"tokens": 5}, timeout=60, key="alice")))
        waits.start()
        while limits.stats()["waiting"] < 1 and waits.is_alive():
            time.sleep(0.001)
    waits.join()
    assert acquired.reclaimed == {"tokens": 500} and served[0].fence > acquired.fence
    served[0].cancel()
    assert limits.peek(key="alice")["slots"] == {"capacity": 1, "remaining": 1, "debt": 0}
    with pytest.raises(ImpossibleRequest):
        limits.acquire({"tokens": 1_001}, key="alice")

    async def main():
        async with await limits.async_acquire({"tokens": 10}, timeout=60, key="carol"):
            with pytest.raises(AcquireTimeout):
                await limits.async_acquire({"tokens": 10}, timeout=0.05, key="carol")
        return await limits.async_peek(key="carol")

    assert asyncio.run(main())["slots"]["remaining"] == 1


def test_what_was_counted_is_told_by_limit():
    limits = LimitSet([CallLimit(1, "per_hour"), ResourceLimit("slots", 5)])
    with limits.acquire():
        assert not limits.try_acquire() and not limits.try_acquire()
    stats = limits.stats()
    assert stats["refusals"] == {"calls": 2, "slots": 0}
    assert (stats["admitted"], stats["refused"], stats["succeeded"]) == (1, 2, 1)
    pool = LimitPool([limits])
    assert not pool.try_acquire() and pool.stats()["refusals"] == {"calls": 1, "slots": 0}


def test_what_things_are_is_shown():
    limits = LimitSet([RateLimit("tokens", 1.5, 60), ResourceLimit("slots", 1)], config={})
    assert repr(limits) == "<LimitSet (unnamed) in memory: tokens, slots>"
    with LimitPool({"eu": limits}).acquire({"tokens": 0.5}) as acquired:
        assert repr(acquired) == f"<Acquisition: held, tokens 0.5, from eu, fence {acquired.fence}>"
        assert repr(limits.try_acquire({"tokens": 0.5})) == "<Acquisition: refused, tokens 0.5, by limit slots>"
    assert repr(acquired).startswith("<Acquisition: ended")
    assert repr(LimitPool({"eu": limits, "us": limits})) == "<LimitPool of eu, us>"


def test_what_a_rate_gives_back_if_the_work_fails_comes_back():
    limits = LimitSet(
        [
            RateLimit("refunds", 100, "per_hour", refund_on_failure=True),
            RateLimit("charges", 100, "per_hour"),
        ]
    )

    def left():
        return {name: limit["remaining"] for name, limit in limits.peek().items()}

    with pytest.raises(KeyError), limits.acquire({"refunds": 10, "charges": 10}) as acquired:
        raise KeyError
    assert left() == {"refunds": 100, "charges": 90} and acquired.reclaimed == {"refunds": 10}
    with pytest.raises(KeyError), limits.acquire({"refunds": 10, "charges": 10}) as acquired:
        acquired.update({"refunds": 3})
        raise KeyError
    assert left() == {"refunds": 97, "charges": 80}
    with limits.acquire({"refunds": 10}):
        pass
    assert left() == {"refunds": 87, "charges": 80}
