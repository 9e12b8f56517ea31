"""Workers: their limits, their handle, their ends, in all modes but Ray."""

import asyncio
import gc
import multiprocessing
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import CancelledError, Future

import pytest

from tidegate import (
    CallLimit,
    LimitPool,
    LimitSet,
    QueueFull,
    RateLimit,
    ResourceLimit,
    WorkerDied,
    workers,
)

STARTS = ["fork", "spawn", "forkserver"]


class Counter(workers.Worker):
    def __init__(self, start=0, step=1):
        self.value, self.step = start, step

    def add(self, number=1, name=None):
        self.value += self.step * number
        return self.value

    def index(self):
        return self.worker_index

    def first_member(self):
        """Which set granted its first acquisition."""
        if not hasattr(self, "first"):
            with self.limits.acquire() as acquired:
                self.first = acquired.config
        time.sleep(0.01)
        return self.worker_index, self.first

    def admitted(self, tries=15):
        """How many of some calls its limits admit."""
        return sum(bool(self.limits.try_acquire()) for _ in range(tries))

    def fails(self, words):
        raise KeyError(words)

    def waits(self, event=None):
        time.sleep(600) if event is None else event.wait()
        return self.worker_index

    def goes_on(self, path):
        open(path, "w").close()
        while True:
            try:
                time.sleep(600)
            except BaseException:
                pass

    def unpicklable(self):
        return threading.Lock()


class AsyncCounter(workers.Worker):
    async def hold(self, seen):
        async with await self.limits.async_acquire() as acquired:
            seen.append(self.worker_index)
            await asyncio.sleep(0.001)
            return acquired.config

    async def waits(self):
        await asyncio.sleep(600)

    def plain(self):
        return 1


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_methods_are_called_through_a_handle_and_give_futures(mode):
    with workers.start(Counter, (10,), {"step": 2}, mode=mode, max_workers=1) as counters:
        futures = [counters.add(), counters.add(number=5, name="any")]
        assert all(isinstance(future, Future) for future in futures)
        assert [future.result(60) for future in futures] == [12, 22]
        with pytest.raises(KeyError, match="mine"):
            counters.fails("mine").result(60)
        with pytest.raises(AttributeError, match="no method"):
            counters.subtract
        with pytest.raises(AttributeError):
            counters._private
    with pytest.raises(RuntimeError, match="stopped"):
        counters.add()
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_leaving_the_with_waits_for_all_calls(mode):
    with workers.start(Counter, mode=mode, max_workers=1) as counters:
        futures = [counters.add() for _ in range(20)]
    assert [future.result(0) for future in futures] == list(range(1, 21))


def test_an_error_in_the_with_cancels_the_calls_that_wait():
    event = threading.Event()
    with pytest.raises(KeyError, match="body"):
        with workers.start(Counter, max_workers=1) as counters:
            runs, waiting = counters.waits(event), counters.add()
            while not runs.running():
                time.sleep(0.001)
            waiting.add_done_callback(lambda _: event.set())
            raise KeyError("body")
    assert runs.result(0) == 0 and waiting.cancelled()


def test_a_call_that_runs_in_a_process_is_ended():
    counters = workers.start(Counter, mode="process", max_workers=1)
    runs, waiting = counters.waits(), counters.add()
    while not runs.running():
        time.sleep(0.001)
    counters.stop(cancel_futures=True)
    with pytest.raises(WorkerDied):
        runs.result(0)
    with pytest.raises(CancelledError):
        waiting.result(0)
    assert multiprocessing.active_children() == []


def test_a_process_that_goes_on_is_killed(tmp_path):
    path = tmp_path / "runs"
    counters = workers.start(Counter, mode="process", max_workers=1)
    runs = counters.goes_on(str(path))
    while not path.exists():
        time.sleep(0.01)
    counters.stop(cancel_futures=True)
    with pytest.raises(WorkerDied, match="-9"):
        runs.result(0)
    assert multiprocessing.active_children() == []


def test_a_handle_that_nobody_has_finishes_its_calls():
    before = threading.active_count()
    future = workers.start(Counter, max_workers=2).add()
    gc.collect()
    assert future.result(60) == 1
    while threading.active_count() > before:
        time.sleep(0.001)


def test_a_program_that_does_not_stop_its_workers_ends(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from tidegate import workers\n"
        "class Echo(workers.Worker):\n"
        "    def echo(self, word):\n"
        "        return word\n"
        "if __name__ == '__main__':\n"
        "    kept = [workers.start(Echo, mode=mode, max_workers=2) for mode in ('thread', 'process')]\n"
        "    print([one.echo('here').result() for one in kept])\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr, done.returncode) == ("['here', 'here']\n", "", 0)


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_a_worker_that_cannot_begin_is_told_at_once(mode):
    with pytest.raises(TypeError, match="wrong"):
        workers.start(Counter, (), {"wrong": 1}, mode=mode, max_workers=2)
    # On demand, the call that would have needed it is told.
    with workers.start(Counter, (), {"wrong": 1}, mode=mode, max_workers=2, on_demand=True) as counters:
        with pytest.raises(TypeError, match="wrong"):
            counters.add().result(60)
    assert multiprocessing.active_children() == []


def test_workers_that_are_started_on_demand_have_their_own_index():
    event, before = threading.Event(), threading.active_count()
    with workers.start(Counter, max_workers=3, on_demand=True) as counters:
        assert threading.active_count() == before
        assert counters.index().result(60) == 0
        assert threading.active_count() == before + 1
        running = [counters.waits(event) for _ in range(4)]
        while sum(future.running() for future in running) < 3:
            time.sleep(0.001)
        assert threading.active_count() == before + 3
        event.set()
        assert sorted(future.result(60) for future in running[:3]) == [0, 1, 2]


@pytest.mark.parametrize("mode", ["thread", "process"])
@pytest.mark.parametrize("on_demand", [False, True])
def test_each_worker_begins_at_another_set_of_the_pool(mode, on_demand):
    store = f"shm:test-{uuid.uuid4()}?size=8"
    shared = {} if mode == "thread" else {"store": store}
    sets = [LimitSet([ResourceLimit("slots", 9)], config=n, name=f"set{n}", **shared) for n in range(3)]
    pool = LimitPool(sets, offset=1)
    try:
        with workers.start(Counter, mode=mode, max_workers=3, limits=pool, on_demand=on_demand) as counters:
            seen = {}
            while len(seen) < 3:
                seen.update(future.result(60) for future in [counters.first_member() for _ in range(3)])
        assert seen == {0: 1, 1: 2, 2: 0}
    finally:
        remove(store)


def remove(store):
    name = store.partition(":")[2].partition("?")[0]
    path = f"/dev/shm/tidegate-{os.getuid()}-{name}"
    if os.path.exists(path):
        os.remove(path)


def test_limits_are_always_there():
    alone = Counter()
    assert alone.worker_index == 0
    # Not started, or started with nothing, it is limited by nothing.
    with alone.limits.acquire({"tokens": 10**9, "whatever": 1}) as acquired:
        acquired.update(usage={"tokens": 5})
    assert alone.limits.try_acquire() and isinstance(alone.limits, LimitPool)
    assert pickle.loads(pickle.dumps(alone)).limits.try_acquire({"tokens": 1})

    class InInit(workers.Worker):
        def __init__(self):
            self.at_first = self.limits

        def length(self):
            return self.at_first is self.limits and len(self.limits)

    one = LimitSet("2/day")
    for given, length in [
        (None, 1),
        ([], 1),
        ("2/day", 1),
        (ResourceLimit("slots", 1), 1),
        ([ResourceLimit("slots", 1), "2/day"], 1),
        (one, 1),
        ([one, LimitSet("2/day")], 2),
        ({"eu": one, "us": LimitSet("2/day")}, 2),
        (LimitPool([one, one, one]), 3),
    ]:
        with workers.start(InInit, max_workers=1, limits=given) as made:
            assert made.length().result(60) == length
    for wrong in ([one, "2/day"], 5, [5]):
        with pytest.raises(TypeError):
            workers.start(InInit, limits=wrong)


def test_unlimited_limits_are_awaited_too():
    async def main():
        limits = Counter().limits
        async with await limits.async_acquire({"tokens": 5}) as acquired:
            assert acquired.successful
        assert await limits.async_try_acquire()

    asyncio.run(main())


def test_threads_share_a_set_in_memory():
    with workers.start(Counter, max_workers=4, limits=CallLimit(20, "per_day")) as counters:
        assert sum(future.result(60) for future in [counters.admitted() for _ in range(4)]) == 20


@pytest.mark.parametrize(
    "limits",
    [
        LimitSet("2/day"),
        [LimitSet("2/day")],
        LimitPool([LimitSet("2/day")]),
        LimitSet("2/day", name="named", store="memory:"),
    ],
)
@pytest.mark.parametrize("mode", ["process", "ray"])
def test_a_set_of_one_process_is_refused_for_several(limits, mode):
    with pytest.raises(ValueError, match=f"mode='{mode}'.*redis://"):
        workers.start(Counter, mode=mode, max_workers=2, limits=limits)


@pytest.mark.parametrize("start", STARTS)
def test_four_processes_admit_no_more_than_one_does(store_url, start):
    # Where each process counts for itself, as workers of a task queue do, four admit 80.
    alone = LimitSet([CallLimit(20, "per_day")], name=f"multiplied-{start}", store=store_url)
    words = dict(mode="process", max_workers=4, mp_context=multiprocessing.get_context(start))
    with workers.start(Counter, limits=alone, **words) as counters:
        counts = [future.result(60) for future in [counters.admitted(10) for _ in range(4)]]
    assert sum(counts) == 20 and not alone.try_acquire()


def test_limits_that_are_in_no_set_are_shared_by_the_processes_that_they_are_given_to():
    words = dict(mode="process", max_workers=4, limits=[CallLimit(20, "per_day")])
    for _ in range(2):  # The second ones have their own.
        with workers.start(Counter, **words) as counters:
            counts = [future.result(60) for future in [counters.admitted(10) for _ in range(4)]]
        assert sum(counts) == 20


def each_counts_for_itself(folder):
    # A second process takes part, however slow the machine is.
    pathlib.Path(folder, str(os.getpid())).touch()
    end = time.monotonic() + 60
    while len(os.listdir(folder)) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    return sum(bool(MINE.try_acquire()) for _ in range(15))


#: What a task queue's module has: made anew in each process that imports it.
MINE = LimitSet([CallLimit(20, "per_day")])


def test_a_set_of_a_module_is_multiplied_and_one_that_is_mapped_with_is_not(tmp_path):
    words = dict(mode="process", max_workers=3, mp_context=multiprocessing.get_context("spawn"))
    assert sum(workers.map(each_counts_for_itself, [str(tmp_path)] * 6, **words)) > 20
    limits = LimitSet([CallLimit(20, "per_day")])
    words.update(limits=limits, timeout=0, on_error="return")
    assert [type(answer) for answer in workers.map(abs, range(30), **words)].count(int) == 20


def test_a_killed_worker_gives_its_slot_back_and_another_takes_its_place():
    limits = LimitSet([ResourceLimit("slots", 1)], name=str(uuid.uuid4()), mode="process")

    with workers.start(Holder, mode="process", max_workers=1, limits=limits) as holders:
        with pytest.raises(WorkerDied, match="-9"):
            holders.takes_and_dies().result(60)
        with limits.acquire(timeout=60):
            pass
        assert holders.is_alive().result(60) == (0, True)


class Holder(workers.Worker):
    def dies(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def takes_and_dies(self):
        self.limits.acquire()
        os.kill(os.getpid(), signal.SIGKILL)

    def is_alive(self):
        return self.worker_index, bool(self.limits.try_acquire())


def test_what_cannot_be_pickled_is_an_error_of_its_call():
    with workers.start(Counter, mode="process", max_workers=1) as counters:
        with pytest.raises((TypeError, AttributeError)):
            counters.add(threading.Lock()).result(60)
        with pytest.raises(TypeError, match="pickle"):
            counters.unpicklable().result(60)
        with pytest.raises(RuntimeError, match="Odd"):
            counters_fail = workers.start(OddWorker, mode="process", max_workers=1)
            with counters_fail:
                counters_fail.odd().result(60)
        assert counters.add().result(60) == 1


class Odd(Exception):
    def __init__(self, one, two):
        super().__init__("odd")


class OddWorker(workers.Worker):
    def odd(self):
        raise Odd(1, 2)


def test_the_calls_that_wait_are_bounded():
    event = threading.Event()
    with workers.start(Counter, max_workers=1, max_waiting=2) as counters:
        runs = counters.waits(event)
        while not runs.running():
            time.sleep(0.001)
        waiting = [counters.add(), counters.add()]
        with pytest.raises(QueueFull, match="max_waiting"):
            counters.add()
        assert waiting[1].cancel()
        event.set()
    assert waiting[0].result(0) == 1
    # Nothing waits, whether its worker has begun or not.
    for on_demand in (False, True):
        with workers.start(Counter, max_workers=2, max_waiting=0, on_demand=on_demand) as counters:
            event = threading.Event()
            running = [counters.waits(event) for _ in range(2)]
            with pytest.raises(QueueFull):
                counters.add()
            event.set()
            assert all(future.result(60) in (0, 1) for future in running)


def test_who_is_told_of_an_answer_has_room_for_the_next_call():
    with workers.start(Counter, max_workers=1, max_waiting=0) as counters:
        told = threading.Event()
        next_one = []

        def submits(_):
            try:
                next_one.append(counters.add())
            finally:
                told.set()

        counters.add().add_done_callback(submits)
        assert told.wait(60)
        assert next_one[0].result(60) == 2


def test_what_is_no_worker_is_not_started():
    class Stops(workers.Worker):
        def stop(self):
            pass

    for wrong in (int, Counter(), Stops):
        with pytest.raises(TypeError):
            workers.start(wrong)
    context = multiprocessing.get_context("spawn")
    for words in (
        dict(mode="gevent"),
        dict(max_workers=0),
        dict(max_waiting=-1),
        dict(mp_context=context),
        dict(mode="process", ray_options={"num_cpus": 1}),
    ):
        with pytest.raises(ValueError):
            workers.start(Counter, **words)


def test_in_an_event_loop_calls_are_tasks():
    async def main():
        seen = []
        sets = [LimitSet([ResourceLimit("slots", 1)], config=number) for number in range(2)]
        async with workers.start(AsyncCounter, mode="asyncio", max_workers=2, limits=sets) as counters:
            both = [counters.hold(seen), counters.hold(seen)]
            assert [await task for task in both] == [0, 1]
            await asyncio.gather(*(counters.hold(seen) for _ in range(20)))
            assert sorted(set(seen)) == [0, 1]
            with pytest.raises(TypeError, match="async def"):
                await counters.plain()
            with pytest.raises(AttributeError):
                counters.subtract
        with pytest.raises(RuntimeError):
            counters.hold(seen)

    asyncio.run(main())


def test_a_task_that_is_cancelled_ends_its_call_and_frees_its_worker():
    async def main():
        words = dict(mode="asyncio", max_workers=1, max_waiting=1, on_demand=True)
        counters = workers.start(AsyncCounter, limits=ResourceLimit("slots", 1), **words)
        runs, waiting = counters.waits(), counters.hold([])
        with pytest.raises(QueueFull):
            counters.hold([])
        await asyncio.sleep(0)
        runs.cancel()
        await waiting
        runs = counters.waits()
        await asyncio.sleep(0)
        await counters.stop(cancel_futures=True)
        assert runs.cancelled() and asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_pool_is_pickled_with_its_words():
    sets = {name: LimitSet("5/day", name=f"{name}-{uuid.uuid4()}", mode="process") for name in ("eu", "us")}
    pool = LimitPool(sets, load_balancing="first_available", offset=7)
    again = pickle.loads(pickle.dumps(pool))
    assert [again.try_acquire().member for _ in range(6)] == ["eu"] * 5 + ["us"]
    assert pool.try_acquire().member == "us" and len(again) == 2
    with pytest.raises(TypeError, match="redis"):
        pickle.dumps(LimitPool([LimitSet("5/day")]))
    assert pickle.loads(pickle.dumps(workers.Worker())).limits.try_acquire({"rate": 3})


def test_a_rate_needs_its_amount_also_in_a_worker():
    with workers.start(Counter, max_workers=1, limits=RateLimit("tokens", 5, 60)) as counters:
        with pytest.raises(ValueError):
            counters.admitted(1).result(60)


class Outer(Counter):
    def asks_one_that_dies(self):
        self.add()
        with workers.start(Holder, mode="process", max_workers=1) as holders:
            holders.dies().result(60)


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_a_worker_that_hears_of_anothers_end_goes_on(mode):
    with workers.start(Outer, mode=mode, max_workers=1) as outer:
        with pytest.raises(WorkerDied):
            outer.asks_one_that_dies().result(60)
        assert outer.add().result(60) == 2


@pytest.fixture
def one_thread(monkeypatch):
    """From here on one thread more can be started."""
    starts, number = threading.Thread.start, iter(range(100))

    def start(thread):
        if next(number) > 0:
            raise RuntimeError("can't start new thread")
        starts(thread)

    monkeypatch.setattr(threading.Thread, "start", start)


def test_workers_whose_threads_cannot_be_started_can_be_stopped(one_thread):
    counters, gate = workers.start(Counter, max_workers=2, on_demand=True), threading.Event()
    first = counters.waits(gate)
    while not first.running():
        time.sleep(0.001)
    with pytest.raises(RuntimeError, match="thread"):
        counters.add()
    gate.set()
    counters.stop()
    assert first.result(60) == 0


def test_workers_of_which_some_cannot_be_started_leave_no_thread(one_thread):
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="thread"):
        workers.start(Counter, max_workers=3)
    assert threading.active_count() == before
