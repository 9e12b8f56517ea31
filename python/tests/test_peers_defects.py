"""What other limiters for Python were seen to do, and this one must not: each defect with its tests.

What is not here is

- eight threads on one slot: ``test_sets.py``, ``test_threads_are_served_in_order_of_arrival``;
- Ray's mode: ``test_workers_ray.py``, ``test_ray_mode_counts_as_the_algorithm_says_and_gives_back_what_was_not_used``;
- a client's amounts below 0 and NaN: ``test_client.py``, ``test_amounts_are_whole_numbers_or_decimals`` and
  ``test_checks_that_make_no_sense_are_not_sent``; a semaphore's: ``test_locks.py``,
  ``test_slots_and_places_in_a_queue_are_whole_numbers``.
"""

from __future__ import annotations

import asyncio
import math
import os
import pathlib
import random
import resource
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from decimal import Decimal
from urllib.parse import urlsplit

import pytest
from databases import installed

from tidegate import (
    AcquireTimeout,
    ImpossibleRequest,
    InvalidRequest,
    LimitPool,
    LimitSet,
    LoadBalancing,
    Mutex,
    RateLimit,
    RateLimitAlgorithm,
    ResourceLimit,
)
from tidegate.testing import ManualClock

#: A day refills so slowly that nothing comes back while a test runs.
DAY = "per_day"
ALGORITHMS = list(RateLimitAlgorithm)


def one_slot():
    return LimitSet([ResourceLimit("slots", 1)])


def until_waiting(limits, number):
    while limits.stats()["waiting"] < number:
        time.sleep(0.001)


# ---- Waiting ----


def test_a_thread_that_waits_sleeps_until_its_slot_is_released():
    limits, switches = one_slot(), []
    held = limits.acquire()

    def waits():
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        with limits.acquire():
            switches.append(resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before)

    thread = threading.Thread(target=waits)
    thread.start()
    until_waiting(limits, 1)
    # Long enough for a hundred looks of one that looks every 10 ms.
    time.sleep(1)
    held.release()
    thread.join()
    # One for the slot; some for the interpreter's lock.
    assert switches[0] < 20


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


def test_a_task_that_waits_is_woken_once():
    async def main():
        limits, waits = one_slot(), []

        async def work():
            waits.append(Steps(limits.async_acquire()))
            async with await waits[-1]:
                await asyncio.sleep(0)

        held = await limits.async_acquire()
        tasks = [asyncio.create_task(work()) for _ in range(1_000)]
        await asyncio.sleep(0)
        await held.async_release()
        await asyncio.gather(*tasks)
        # It began to wait, and was woken.
        assert {waited.count for waited in waits} == {2}

    asyncio.run(main())


def test_a_timeout_of_a_millisecond_looks_once_and_no_more():
    limits = one_slot()
    with limits.acquire():
        with pytest.raises(TimeoutError):
            limits.acquire(timeout=0.001)
    stats = limits.stats()
    assert stats["timed_out"] == 1 and stats["refused"] <= 1


def test_a_timeout_of_a_millisecond_ends_with_that_millisecond():
    clock, ended = ManualClock(), []
    limits = LimitSet([ResourceLimit("slots", 1)], clock=clock)

    def waits():
        with pytest.raises(TimeoutError):
            limits.acquire(timeout=0.001)
        ended.append(clock.now())

    with limits.acquire():
        begin = clock.now()
        thread = threading.Thread(target=waits)
        thread.start()
        until_waiting(limits, 1)
        clock.advance(0.0009)
        assert limits.stats()["waiting"] == 1
        clock.advance(0.0001)
        thread.join()
    assert ended[0] - begin == pytest.approx(0.001, abs=1e-6)


def test_eight_tasks_on_one_slot_take_turns():
    async def main():
        limits, order = one_slot(), []

        async def work(number):
            for _ in range(100):
                async with await limits.async_acquire():
                    order.append(number)
                    await asyncio.sleep(0)

        await asyncio.gather(*(work(number) for number in range(8)))
        assert order == list(range(8)) * 100

    asyncio.run(main())


def test_a_request_for_all_slots_is_not_passed_by_small_ones_for_ever():
    async def main():
        limits, grants, is_over = LimitSet([ResourceLimit("slots", 4)]), [0], [False]

        async def small():
            while not is_over[0]:
                async with await limits.async_acquire():
                    grants[0] += 1
                    await asyncio.sleep(0)

        tasks = [asyncio.create_task(small()) for _ in range(8)]
        while grants[0] < 100:
            await asyncio.sleep(0)
        before = grants[0]
        async with await limits.async_acquire({"slots": 4}):
            # Those that waited already, and none that came later.
            assert grants[0] - before <= 8
        is_over[0] = True
        await asyncio.gather(*tasks)

    asyncio.run(main())


# ---- What reading and failing leave ----


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_refusal_moves_nothing(algorithm):
    limits = LimitSet([RateLimit("tokens", 10, DAY, algorithm)])
    assert limits.try_acquire({"tokens": 10})
    due = [limits.try_acquire({"tokens": 1}).retry_after for _ in range(1_000)]
    assert due == sorted(due, reverse=True) and due[-1] > 0


def test_an_exception_before_update_passes_through_and_the_slot_comes_back():
    limits = LimitSet([RateLimit("tokens", 100, DAY), ResourceLimit("slots", 1)], strict_updates=True)

    async def fails():
        async with await limits.async_acquire({"tokens": 10}):
            raise KeyError("the body's own")

    for _ in range(3):
        with pytest.raises(KeyError, match="the body's own"):
            with limits.acquire({"tokens": 10}, timeout=0):
                raise KeyError("the body's own")
        with pytest.raises(KeyError, match="the body's own"):
            asyncio.run(fails())
    with limits.acquire({"tokens": 1}, timeout=0) as acquired:
        # What nobody reported was used.
        assert acquired.remaining == {"tokens": 39, "slots": 0}
        acquired.update({"tokens": 1})


def test_a_failed_try_acquire_that_is_entered_releases_nothing():
    limits = one_slot()
    held = limits.acquire()

    async def enters():
        async with await limits.async_try_acquire() as refused:
            assert not refused

    for _ in range(3):
        with limits.try_acquire() as refused:
            assert not refused
        asyncio.run(enters())
        refused.release()
    assert not limits.try_acquire()
    held.release()
    assert limits.try_acquire()


@pytest.mark.parametrize("is_shared", [False, True])
def test_more_used_than_taken_is_charged(is_shared, shm):
    limit = RateLimit("tokens", 100, DAY)
    limits = in_process_mode(shm, limit) if is_shared else LimitSet([limit])
    with limits.acquire({"tokens": 10}) as acquired:
        acquired.update({"tokens": 90})
    assert not limits.try_acquire({"tokens": 20})
    with limits.acquire({"tokens": 10}) as acquired:
        acquired.update({"tokens": 60})
    # 50 in debt: they are paid before anything is granted.
    assert limits.try_acquire({"tokens": 1}).retry_after > 50 * 864


# ---- Numbers ----


NONE = [-1, -0.5, math.nan, math.inf, -math.inf]
NONE += [Decimal(number) for number in ("-1", "NaN", "Infinity", "-Infinity")]


@pytest.mark.parametrize("number", NONE)
def test_no_number_below_zero_and_none_that_is_none_is_an_amount(number):
    limits = LimitSet([RateLimit("tokens", 100, DAY, places=2), ResourceLimit("slots", 1)])
    for amounts in ({"tokens": number}, {"tokens": 1, "slots": number}):
        for verb in (limits.acquire, limits.try_acquire, limits.async_acquire, limits.async_try_acquire):
            with pytest.raises(InvalidRequest):
                verb(amounts)
    with limits.acquire({"tokens": 100}) as acquired:
        for verb in (acquired.update, acquired.adjust, acquired.async_adjust):
            with pytest.raises(InvalidRequest):
                verb({"tokens": number})
        with pytest.raises(ValueError):
            LimitSet([ResourceLimit("slots", number if number != math.inf else -1)])
    assert not limits.try_acquire({"tokens": 1})


def test_more_than_a_limit_holds_is_an_error_and_no_wait():
    with pytest.raises(ImpossibleRequest):
        LimitSet([RateLimit("tokens", 1_000, "per_hour")]).acquire({"tokens": 1_001})


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_idle_limit_grants_its_whole_capacity(algorithm):
    limits = LimitSet([RateLimit("tokens", 1_000, "per_hour", algorithm)])
    assert limits.try_acquire({"tokens": 1_000})
    assert not limits.try_acquire({"tokens": 1_000})


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_limit_of_ten_million_a_second_and_more_limits(algorithm):
    # 11.6 M/s.
    limits = LimitSet([RateLimit("tokens", 10**12, DAY, algorithm)])
    assert limits.try_acquire({"tokens": 10**12 - 1})
    assert not limits.try_acquire({"tokens": 10**12})


def in_memory():
    """How many bytes of this process are in memory now."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_kept_does_not_grow_with_the_amount(algorithm, is_shared, shm):
    """A list with an entry for each token would be larger than any memory, and than shared memory of 8 MiB."""
    limit = RateLimit("tokens", 10**12, DAY, algorithm)
    limits = in_process_mode(shm, limit) if is_shared else LimitSet([limit])
    limits.try_acquire({"tokens": 1}).cancel()
    before = in_memory()
    with limits.acquire({"tokens": 10**11}) as acquired:
        assert in_memory() - before < 16 * 1_024**2
        acquired.update({"tokens": 10**10})
    assert in_memory() - before < 16 * 1_024**2
    assert acquired.reclaimed == {"tokens": 9 * 10**10}


# ---- Clocks ----


@pytest.fixture(scope="module")
def moved_clock(tmp_path_factory):
    """Runs a script that may `move(seconds)` its wall clock, and `stop()` it."""
    compiler = installed("cc", "TOOLS")
    library = tmp_path_factory.mktemp("clock") / "clock.so"
    source = pathlib.Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    begin = """
        import ctypes, time
        from tidegate import *
        move, stop = ctypes.CDLL(None).move_the_clock, ctypes.CDLL(None).stop_the_clock
        move.argtypes = [ctypes.c_double]
        before = time.time()
        move(-3_600)
        assert time.time() < before - 3_500
        move(3_600)
    """

    def run(script):
        environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(sys.path)}
        program = textwrap.dedent(begin) + textwrap.dedent(script)
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return run


@pytest.fixture
def shm():
    name = f"defects-{uuid.uuid4()}"
    yield f"shm:{name}?size=8&deadline=10s"
    pathlib.Path(f"/dev/shm/tidegate-{os.getuid()}-{name}").unlink(missing_ok=True)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_wall_clock_that_steps_back_is_not_noticed_in_memory(algorithm, moved_clock):
    moved_clock(
        f"""
        limits = LimitSet([RateLimit("tokens", 1_000, "per_hour", "{algorithm.value}")])
        assert limits.try_acquire({{"tokens": 1_000}})
        before = limits.try_acquire({{"tokens": 1}}).retry_after
        move(-3_600)
        assert 0 < limits.try_acquire({{"tokens": 1}}).retry_after <= before
        """
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("back", [3_600, 8_000, 86_400])
def test_a_clock_of_processes_that_steps_back_admits_nothing_more_and_locks_nobody_up(
    algorithm, back, moved_clock, shm
):
    """All is back within a refill of the clock's coming back; where that is too far, within a refill."""
    moved_clock(
        f"""
        limits = LimitSet([RateLimit("tokens", 1_000, "per_hour", "{algorithm.value}")], name="stepped", store={shm!r})
        assert limits.try_acquire({{"tokens": 1_000}})
        move(-{back})
        # A sliding window may have a sub-window more.
        refused = limits.try_acquire({{"tokens": 1_000}})
        assert not refused and refused.retry_after <= 1.1 * 3_600 * (2 if {back} < 7_200 else 1), refused
        move(refused.retry_after + 0.001)
        assert limits.try_acquire({{"tokens": 1_000}})
        """
    )


def test_a_leaky_bucket_that_is_asked_all_the_time_leaks_all_the_same(moved_clock, shm):
    moved_clock(
        f"""
        limits = LimitSet([RateLimit("tokens", 10, 1, RateLimitAlgorithm.LEAKY_BUCKET)], name="leaks", store={shm!r})
        assert limits.try_acquire({{"tokens": 10}})
        admitted = 0
        for _ in range(1_000):
            move(0.001)
            admitted += bool(limits.try_acquire({{"tokens": 1}}))
        assert admitted >= 10, admitted
        """
    )


@pytest.mark.parametrize("algorithm", ["token_bucket", "gcra", "leaky_bucket"])
def test_a_bucket_of_twenty_million_a_second_gives_twenty_a_microsecond(algorithm, moved_clock, shm):
    moved_clock(
        f"""
        limits = LimitSet([RateLimit("tokens", 20_000_000, 1, "{algorithm}")], name="fast", store={shm!r})
        stop()
        assert limits.try_acquire({{"tokens": 20_000_000}})
        for _ in range(5):
            assert not limits.try_acquire({{"tokens": 1}})
            move(0.000001)
            assert sum(bool(limits.try_acquire({{"tokens": 1}})) for _ in range(100)) == 20
        """
    )


def test_an_idle_hour_gives_all_of_a_thousand_an_hour_back(moved_clock, shm):
    moved_clock(
        f"""
        for algorithm in RateLimitAlgorithm:
            limits = LimitSet([RateLimit("tokens", 1_000, "per_hour", algorithm)], name=algorithm.value, store={shm!r})
            for _ in range(24):
                assert limits.try_acquire({{"tokens": 1_000}}), algorithm
                # A sub-window more, where there are some.
                move(4_000)
        """
    )


# ---- Processes ----


def child_that(work):
    """A forked child that works until it is killed; it has begun when this returns."""
    began, begin = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(lambda: os.write(begin, b"x"))
        finally:
            os._exit(1)
    os.close(begin)
    with os.fdopen(began, "rb", buffering=0) as began_file:
        assert began_file.read(1) == b"x"
    return child


def kill(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_killed_holders_slot_is_granted_to_one_that_waits(store_url):
    limits = LimitSet([ResourceLimit("slots", 1)], name="killed holder", store=store_url)
    ttl = None if store_url.startswith("shm:") else 1

    def holds(begun):
        _held = limits.acquire(ttl=ttl)
        begun()
        time.sleep(600)

    child = child_that(holds)
    assert not limits.try_acquire()
    kill(child)
    with limits.acquire(timeout=60):
        pass


def test_one_that_waits_already_gets_a_killed_holders_slot(store_url):
    limits = LimitSet([ResourceLimit("slots", 1)], name="killed before one that waits", store=store_url)
    ttl = None if store_url.startswith("shm:") else 1

    def holds(begun):
        _held = limits.acquire(ttl=ttl, keep_alive=True)
        begun()
        time.sleep(600)

    child, granted = child_that(holds), []

    def waits():
        with limits.acquire(timeout=600) as acquired:
            granted.append(acquired.successful)

    thread = threading.Thread(target=waits)
    thread.start()
    until_waiting(limits, 1)
    assert granted == []
    kill(child)
    thread.join()
    assert granted == [True]


def test_a_killed_holder_of_a_mutex_keeps_nobody_beyond_their_timeout(redis_url):
    """Its ttl is an hour: one that hangs until then has not timed out."""
    mutex = Mutex("killed holder's", store=redis_url, ttl=3_600)

    def holds(begun):
        _permit = mutex.acquire()
        begun()
        time.sleep(600)

    child = child_that(holds)
    ended = []

    def waits():
        with pytest.raises(AcquireTimeout):
            mutex.acquire(timeout=3)
        ended.append(True)

    thread = threading.Thread(target=waits)
    thread.start()
    kill(child)
    with pytest.raises(AcquireTimeout):
        mutex.acquire(timeout=0.5)
    thread.join(timeout=1_800)
    assert ended == [True]


def commands(url):
    """How many scripts Redis was asked to run."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port)) as asked, asked.makefile("rb") as answer:
        asked.sendall(b"INFO commandstats\r\n")
        text = answer.read(int(answer.readline()[1:])).decode()
    calls = dict(line.split(":", 1) for line in text.splitlines() if line.startswith("cmdstat_"))
    return sum(int(stats.split(",")[0].partition("=")[2]) for name, stats in calls.items() if name in SCRIPTS)


SCRIPTS = ("cmdstat_eval", "cmdstat_evalsha", "cmdstat_fcall")


def test_an_acquisition_in_redis_is_one_command_and_its_end_another(mortal_redis):
    url, _ = mortal_redis
    limits = LimitSet([RateLimit("tokens", 10**6, DAY), ResourceLimit("slots", 4)], name="counted", store=url)
    with limits.acquire({"tokens": 1}):
        pass
    before = commands(url)
    for _ in range(100):
        with limits.acquire({"tokens": 2}) as acquired:
            acquired.update({"tokens": 1})
    assert commands(url) - before == 200


def test_processes_killed_at_any_moment_leave_nobody_hanging(shm):
    limits = LimitSet([RateLimit("tokens", 10**9, DAY), ResourceLimit("slots", 2)], name="hammered", store=shm)
    mutex = Mutex("hammered too", store=shm)
    random.seed(7)

    def hammers(begun):
        begun()
        while True:
            with limits.acquire({"tokens": 2}) as acquired:
                acquired.update({"tokens": 1})
            with mutex:
                pass

    for _ in range(20):
        children = [child_that(hammers) for _ in range(2)]
        time.sleep(random.random() / 50)
        for child in children:
            kill(child)
        with limits.acquire({"tokens": 1, "slots": 2}, timeout=60), mutex.acquire(timeout=60):
            pass


#: By algorithm: the least and the most that is left to wait for one of ten a day when all ten are gone.
WAITS = {
    RateLimitAlgorithm.TOKEN_BUCKET: (0, 8_640),
    RateLimitAlgorithm.GCRA: (0, 8_640),
    RateLimitAlgorithm.LEAKY_BUCKET: (0, 8_640),
    RateLimitAlgorithm.FIRST_USE_WINDOW: (70_000, 86_400),
    RateLimitAlgorithm.SLIDING_LOG: (70_000, 86_400),
    RateLimitAlgorithm.SLIDING_WINDOW: (70_000, 2 * 86_400),
    RateLimitAlgorithm.FIXED_WINDOW: (0, 86_400),
}


def in_process_mode(shm, *limits):
    """As `mode="process"` has it, in a file of its own."""
    return LimitSet(limits, name="process mode", store=shm)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_process_mode_counts_as_the_algorithm_says(algorithm, shm):
    limits = in_process_mode(shm, RateLimit("tokens", 10, DAY, algorithm))
    assert limits.try_acquire({"tokens": 10})
    least, most = WAITS[algorithm]
    waits = limits.try_acquire({"tokens": 1}).retry_after
    assert least < waits <= most
    if algorithm is RateLimitAlgorithm.FIXED_WINDOW:
        assert abs((time.time() + waits) % 86_400 - 43_200) > 43_000


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_process_mode_gives_back_what_was_not_used(algorithm, shm):
    limits = in_process_mode(shm, RateLimit("tokens", 100, DAY, algorithm))
    with limits.acquire({"tokens": 100}) as acquired:
        acquired.update({"tokens": 40})
    assert acquired.reclaimed == {"tokens": 60}
    assert limits.try_acquire({"tokens": 60}) and not limits.try_acquire({"tokens": 1})


def test_process_mode_asks_nobody_else(shm):
    """Each question to another process would give up the processor until it is answered."""
    limits = in_process_mode(shm, RateLimit("tokens", 10**9, DAY), ResourceLimit("slots", 2))
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    for _ in range(1_000):
        with limits.acquire({"tokens": 1}) as acquired:
            acquired.update({"tokens": 1})
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before < 100


# ---- Pools ----


@pytest.mark.parametrize("balancing", list(LoadBalancing))
def test_a_pool_finds_the_set_that_has_room(balancing):
    sets = [one_slot() for _ in range(4)]
    pool = LimitPool(sets, load_balancing=balancing)
    for free in range(4):
        held = [limits.acquire() for number, limits in enumerate(sets) if number != free]
        for _ in range(10):
            with pool.acquire(timeout=0) as acquired:
                assert acquired.member == str(free)
        for acquired in held:
            acquired.release()


def test_one_that_waits_at_a_pool_gets_the_first_slot_of_any_set():
    sets = [one_slot() for _ in range(4)]
    pool = LimitPool(sets)
    held = [limits.acquire() for limits in sets]
    members = []

    def waits():
        with pool.acquire() as acquired:
            members.append(acquired.member)

    thread = threading.Thread(target=waits)
    thread.start()
    for limits in sets:
        until_waiting(limits, 1)
    held[2].release()
    thread.join()
    assert members == ["2"]


def test_each_worker_of_a_pool_begins_at_a_set_of_its_own():
    first = []
    for worker in range(8):
        pool = LimitPool([LimitSet([ResourceLimit("slots", 9)]) for _ in range(4)], offset=worker)
        first.append([pool.acquire().member for _ in range(4)])
    assert [members[0] for members in first] == ["0", "1", "2", "3"] * 2
    assert all(sorted(members) == ["0", "1", "2", "3"] for members in first)
