"""A function over many items, within limits."""

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent import futures

import pytest

from tidegate import (
    AcquireTimeout,
    InvalidRequest,
    LimitPool,
    LimitSet,
    RateLimit,
    ResourceLimit,
    UnreportedUsage,
    WorkerDied,
    workers,
)

MODES = ["thread", "asyncio", "process"]


def results(fn, items, mode, **more):
    """As a list, whatever the mode."""
    if mode != "asyncio":
        return list(workers.map(fn, items, mode=mode, **more))

    async def coroutine(item):
        return fn(item)

    async def collect():
        return [answer async for answer in workers.map(coroutine, items, mode="asyncio", **more)]

    return asyncio.run(collect())


def square(number):
    return number * number


def numbered_once_full(item):
    path, number = item
    while not os.path.exists(path):
        time.sleep(0.001)
    return number


def fails_at_three(number):
    if number == 3:
        raise KeyError(number)
    return number


def region(_):
    return workers.acquired().config


def uses_one(number):
    workers.acquired().update({"tokens": 1})
    if number == 3:
        raise KeyError(number)


def kills_itself_once(path):
    if not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def pid(_):
    time.sleep(0.02)
    return os.getpid()


@pytest.mark.parametrize("mode", MODES)
def test_results_come_in_the_order_of_the_items(mode):
    limits = LimitSet([ResourceLimit("slots", 2)])
    assert results(square, range(20), mode, max_workers=3, limits=limits) == [n * n for n in range(20)]
    assert limits.stats()["admitted"] == limits.stats()["succeeded"] == 20
    assert limits.try_acquire({"slots": 2})


@pytest.mark.parametrize("mode", MODES)
def test_an_error_raises_at_its_turn_or_is_returned_in_its_place(mode):
    limits = LimitSet([ResourceLimit("slots", 2)])
    seen = results(fails_at_three, range(6), mode, max_workers=2, limits=limits, on_error="return")
    assert [type(answer) for answer in seen] == [int, int, int, KeyError, int, int]
    assert limits.stats()["dropped"] == 1
    with pytest.raises(KeyError, match="3"):
        results(fails_at_three, range(6), mode, max_workers=2, limits=limits)
    assert limits.try_acquire({"slots": 2})


def test_what_came_before_an_error_is_yielded_and_nothing_is_begun_after_it():
    begun = []

    def work(number):
        begun.append(number)
        return fails_at_three(number)

    answers = workers.map(work, itertools.count(), max_workers=1, max_in_flight=2)
    assert list(itertools.islice(answers, 3)) == [0, 1, 2]
    with pytest.raises(KeyError):
        next(answers)
    assert max(begun) <= 4
    with pytest.raises(StopIteration):
        next(answers)


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_an_endless_iterator_is_taken_no_further_than_what_is_in_flight(mode, tmp_path):
    taken, full = [], tmp_path / "full"

    def items():
        for number in itertools.count():
            taken.append(threading.current_thread())
            if len(taken) == 5:
                full.touch()
            yield str(full), number

    # Nothing has a result before as many are in flight as may be, however slow the machine is.
    with contextlib.closing(
        workers.map(numbered_once_full, items(), mode=mode, max_workers=2, max_in_flight=5)
    ) as answers:
        assert taken == []
        assert next(answers) == 0 and len(taken) == 5
        assert next(answers) == 1 and len(taken) == 6
        assert set(taken) == {threading.current_thread()}
    assert len(taken) == 6


def test_an_endless_async_iterator_is_bounded_too():
    taken = []

    async def numbers():
        for number in itertools.count():
            taken.append(number)
            yield number

    async def work(number):
        await asyncio.sleep(0)
        return number

    async def main():
        answers = workers.map(work, numbers(), mode="asyncio", max_workers=2, max_in_flight=5)
        assert [await answers.__anext__() for _ in range(3)] == [0, 1, 2]
        assert len(taken) == 7
        await answers.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["thread", "asyncio"])
def test_no_more_run_at_once_than_the_limits_admit(mode):
    now, most, lock = [0], [0], threading.Lock()

    def enter():
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])

    def leave():
        with lock:
            now[0] -= 1

    def work(_):
        enter()
        time.sleep(0.002)
        leave()

    async def work_async(_):
        enter()
        await asyncio.sleep(0.002)
        leave()

    async def collect():
        words = dict(mode="asyncio", max_workers=8, limits=ResourceLimit("slots", 3))
        return [answer async for answer in workers.map(work_async, range(40), **words)]

    if mode == "asyncio":
        asyncio.run(collect())
    else:
        list(workers.map(work, range(40), max_workers=8, limits=ResourceLimit("slots", 3)))
    assert most[0] == 3


@pytest.mark.parametrize("mode", MODES)
def test_a_call_knows_which_set_granted_it_and_reports_what_it_used(mode):
    pool = LimitPool([LimitSet([ResourceLimit("slots", 9)], config=name) for name in ("eu", "us")])
    assert sorted(results(region, range(4), mode, max_workers=2, limits=pool)) == ["eu", "eu", "us", "us"]
    limits = LimitSet([RateLimit("tokens", 100, "per_day")])
    # The one that failed has reported, too.
    words = dict(max_workers=2, limits=limits, requested={"tokens": 10}, on_error="return")
    results(uses_one, range(5), mode, **words)
    assert not limits.try_acquire({"tokens": 96}) and limits.try_acquire({"tokens": 95})
    with pytest.raises(RuntimeError):
        workers.acquired()


def test_what_is_asked_may_depend_on_the_item():
    limits = LimitSet([RateLimit("tokens", 100, "per_day")])
    words = dict(limits=limits, requested=lambda item: {"tokens": item}, key=lambda item: f"user{item % 2}")
    list(workers.map(square, [1, 2, 3, 4], **words))
    left = {key: limits.try_acquire({"tokens": 1}, key=key).remaining["tokens"] for key in ("user0", "user1")}
    assert left == {"user0": 93, "user1": 95}


def test_what_the_limits_say_is_the_items_error_and_is_not_tried_again():
    asked = []

    def requested(item):
        asked.append(item)
        return {"tokens": item}

    limits = LimitSet([RateLimit("tokens", 5, "per_day")])
    words = dict(max_workers=1, limits=limits, requested=requested, retries=3, timeout=0, on_error="return")
    seen = list(workers.map(square, [5, 1, 6, -1], **words))
    assert [type(answer) for answer in seen[1:2]] == [AcquireTimeout]
    assert seen[0] == 25 and all(isinstance(answer, InvalidRequest) for answer in seen[2:])
    assert asked == [5, 1, 6, -1]
    strict = LimitSet([RateLimit("tokens", 5, "per_day")], strict_updates=True)
    with pytest.raises(UnreportedUsage):
        list(workers.map(square, [1], limits=strict, requested={"tokens": 1}))


def fails_until_another_has_passed(item):
    notes, name = item
    with open(notes, "a+") as file:
        file.seek(0)
        has_passed = "passes" in file.read()
        file.write(f"{name}\n")
    if name == "fails" and not has_passed:
        raise OSError("not yet")
    return name


@pytest.mark.parametrize("mode", MODES)
def test_a_back_off_holds_neither_a_slot_nor_a_worker(mode, tmp_path):
    """It fails for as long as the other cannot have the only worker and the only slot."""
    items = [(str(tmp_path / "notes"), name) for name in ("fails", "passes")]
    limits = LimitSet([ResourceLimit("slots", 1)])
    words = dict(max_workers=1, limits=limits, retries=workers.Retry(2_000, first=0.02, factor=1))
    assert results(fails_until_another_has_passed, items, mode, **words) == ["fails", "passes"]
    order = (tmp_path / "notes").read_text().split()
    assert order[0] == order[-1] == "fails" and order.count("passes") == 1
    assert limits.stats()["dropped"] == len(order) - 2 and limits.stats()["succeeded"] == 2


def test_retries_end_and_are_of_the_errors_that_were_named():
    attempts = []

    def work(item):
        attempts.append(item)
        raise item("always")

    words = dict(max_workers=1, on_error="return")
    seen = list(workers.map(work, [OSError, KeyError], retries=workers.Retry(2, first=0, on=OSError), **words))
    assert [type(error) for error in seen] == [OSError, KeyError]
    assert sorted(error.__name__ for error in attempts) == ["KeyError", "OSError", "OSError", "OSError"]
    with pytest.raises(OSError):
        list(workers.map(work, [OSError], retries=0))


def test_back_offs_grow_to_the_longest_and_are_jittered():
    retry = workers.Retry(5, first=1, factor=3, longest=10)
    for attempt, whole in enumerate([1, 3, 9, 10, 10]):
        delays = {retry.delay(attempt, OSError()) for _ in range(50)}
        assert all(whole / 2 <= delay <= whole for delay in delays) and len(delays) > 1
    assert retry.delay(5, OSError()) is None
    assert workers.Retry(10**6, factor=1e300).delay(10**5, OSError()) <= 30
    for wrong in (dict(times=-1), dict(times=1, factor=0.5), dict(times=1, first=-1)):
        with pytest.raises(ValueError):
            workers.Retry(**wrong)


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_processes_are_started_in_any_way(start):
    context = multiprocessing.get_context(start)
    words = dict(mode="process", max_workers=2, mp_context=context, limits=ResourceLimit("slots", 2))
    seen = set(workers.map(pid, range(8), **words))
    assert len(seen) == 2 and os.getpid() not in seen


def test_an_error_of_another_process_tells_where_it_was_raised():
    with pytest.raises(KeyError) as raised:
        results(fails_at_three, [3], "process", max_workers=1)
    assert "fails_at_three" in str(raised.value.__cause__)


def test_a_process_that_dies_is_an_error_gives_its_slot_back_and_is_replaced(tmp_path):
    limits = LimitSet([ResourceLimit("slots", 1)])
    words = dict(mode="process", max_workers=1, limits=limits)
    with pytest.raises(WorkerDied, match="-9"):
        list(workers.map(kills_itself_once, [str(tmp_path / "one")], **words))
    assert limits.try_acquire()
    limits = LimitSet([ResourceLimit("slots", 1)])
    words.update(limits=limits, retries=workers.Retry(1, first=0))
    assert list(workers.map(kills_itself_once, [str(tmp_path / "two")], **words)) == ["alive"]


def test_on_demand_starts_no_more_workers_than_are_needed():
    before = threading.active_count()
    answers = workers.map(square, range(9), max_workers=30, max_in_flight=1, on_demand=True)
    assert next(answers) == 0
    # One worker, and the thread of the event loop.
    assert threading.active_count() <= before + 3
    assert list(answers) == [n * n for n in range(1, 9)]
    assert threading.active_count() == before


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_a_loop_that_is_left_leaves_nothing_behind(mode):
    before = threading.active_count()
    limits = LimitSet([ResourceLimit("slots", 2)])
    for answer in workers.map(square, itertools.count(), mode=mode, max_workers=2, limits=limits):
        if answer > 20:
            break
    assert threading.active_count() == before
    assert multiprocessing.active_children() == []
    assert limits.try_acquire({"slots": 2})


def test_an_error_ends_the_others_waits():
    limits = LimitSet([ResourceLimit("slots", 1)])
    first = threading.Event()

    def fails(_):
        first.wait()
        raise KeyError("mine")

    def waits_for_both():
        while limits.stats()["waiting"] < 1:
            time.sleep(0.001)
        first.set()

    thread = threading.Thread(target=waits_for_both)
    thread.start()
    with limits.acquire(key="held"):
        with pytest.raises(KeyError, match="mine"):
            list(workers.map(fails, ["free", "held"], limits=limits, key=str, max_workers=2))
        assert limits.stats()["waiting"] == 0
    thread.join()
    assert limits.try_acquire(key="held") and limits.try_acquire(key="free")


SCRIPT = """
import itertools, multiprocessing, os, signal, sys, threading, time
from tidegate import LimitSet, ResourceLimit, workers

def work(path):
    try:
        open(path, "w").close()
        time.sleep(600)
    finally:
        os.remove(path)

def waits(_):
    pass

if __name__ == "__main__":
    # Whoever starts the tests in the background has them ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kind, path = sys.argv[1:]
    limits = LimitSet([ResourceLimit("slots", 1)])
    try:
        if kind == "process":
            list(workers.map(work, [path + "1", path + "2"], mode="process", max_workers=2, limits=None))
        else:
            held = limits.acquire()
            open(path + "1", "w").close(); open(path + "2", "w").close()
            list(workers.map(waits, itertools.count(), max_workers=2, limits=limits))
    except KeyboardInterrupt:
        assert threading.active_count() == 1, threading.enumerate()
        assert multiprocessing.active_children() == []
        print("interrupted", limits.stats()["waiting"])
"""


@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.parametrize("whom", ["driver", "group"])
def test_ctrl_c_ends_it_and_leaves_nothing_behind(tmp_path, kind, whom):
    script, path = tmp_path / "script.py", tmp_path / "runs"
    script.write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, str(script), kind, str(path)]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    driver = subprocess.Popen(command, start_new_session=True, **pipes)
    while not all(os.path.exists(f"{path}{number}") for number in (1, 2)):
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.01)
    if kind == "thread":
        time.sleep(0.2)
    if whom == "group":
        os.killpg(driver.pid, signal.SIGINT)
    else:
        os.kill(driver.pid, signal.SIGINT)
    told, errors = driver.communicate(timeout=60)
    assert told == "interrupted 0\n", errors
    assert errors == ""
    if kind == "process":
        # Their `finally` has run.
        assert not any(os.path.exists(f"{path}{number}") for number in (1, 2))


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_workers_end_with_a_driver_that_is_killed(tmp_path, start):
    script, path = tmp_path / "script.py", tmp_path / "runs"
    source = """
    import multiprocessing, os, sys, time
    from tidegate import workers

    def work(path):
        with open(path + ".part", "w") as file:
            file.write(str(os.getpid()))
        os.rename(path + ".part", path)
        time.sleep(600)

    if __name__ == "__main__":
        context = multiprocessing.get_context(sys.argv[2])
        path = sys.argv[1]
        list(workers.map(work, [path + "1", path + "2"], mode="process", max_workers=2, mp_context=context))
    """
    script.write_text(textwrap.dedent(source))
    driver = subprocess.Popen([sys.executable, str(script), str(path), start], start_new_session=True)
    while not all(os.path.exists(f"{path}{number}") for number in (1, 2)):
        assert driver.poll() is None
        time.sleep(0.01)
    children = [int(open(f"{path}{number}").read()) for number in (1, 2)]
    driver.kill()
    driver.wait()
    deadline = time.monotonic() + 60
    while any(runs(child) for child in children):
        assert time.monotonic() < deadline, children
        time.sleep(0.01)


def runs(child):
    """Whether a process is there and has not ended."""
    try:
        with open(f"/proc/{child}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_task_that_is_cancelled_cancels_its_items():
    cancelled = []

    async def work(number):
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    async def main():
        limits = LimitSet([ResourceLimit("slots", 2)])

        async def consume():
            async for _ in workers.map(work, itertools.count(), mode="asyncio", max_workers=4, limits=limits):
                pass

        task = asyncio.create_task(consume())
        while limits.stats()["waiting"] < 2:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert limits.stats()["waiting"] == 0 and limits.try_acquire({"slots": 2})
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert sorted(cancelled) == [0, 1]


@pytest.mark.parametrize("mode", ["thread", "asyncio"])
def test_what_an_attempt_holds_is_renewed_until_it_ends(mode):
    limits = LimitSet([ResourceLimit("slots", 1, ttl=6)])
    seen = []

    def looks():
        seen.append(bool(limits.try_acquire()))

    def work(_):
        for _ in range(7):
            time.sleep(1)
            looks()

    async def work_async(_):
        for _ in range(7):
            await asyncio.sleep(1)
            looks()

    async def main():
        return [answer async for answer in workers.map(work_async, [1], mode="asyncio", limits=limits)]

    assert (asyncio.run(main()) if mode == "asyncio" else list(workers.map(work, [1], limits=limits))) == [None]
    assert seen == [False] * 7 and limits.try_acquire()


def test_what_a_thread_still_does_when_the_loop_is_left_is_held_until_it_ends():
    limits = LimitSet([ResourceLimit("slots", 2)])
    begun, seen = threading.Event(), []

    def work(number):
        if number == 0:
            begun.wait()
            return
        begun.set()
        # Long enough that nothing is held any more if it is not renewed.
        for _ in range(8):
            time.sleep(1)
        seen.append(limits.peek()["slots"]["remaining"])

    for _ in workers.map(work, [0, 1], max_workers=2, limits=limits, ttl=6):
        break
    assert seen == [1] and limits.peek()["slots"]["remaining"] == 2


class Raises:
    """Is loaded by the ``FileNotFoundError`` that it raises."""

    def __reduce__(self):
        return open, ("/no such file",)


def makes_what_raises(_):
    return Raises()


def test_a_value_that_cannot_be_loaded_is_its_items_error():
    answers = list(workers.map(makes_what_raises, [1, 2], mode="process", max_workers=1, on_error="return"))
    assert [type(answer) for answer in answers] == [FileNotFoundError] * 2
    answers = list(workers.map(square, [Raises(), 3], mode="process", max_workers=1, on_error="return"))
    assert type(answers[0]) is FileNotFoundError and answers[1] == 9


def test_items_that_raise_end_it():
    def items():
        yield 1
        raise KeyError("items")

    before = threading.active_count()
    answers = workers.map(square, items(), max_workers=1, max_in_flight=1)
    assert next(answers) == 1
    with pytest.raises(KeyError, match="items"):
        next(answers)
    assert threading.active_count() == before


def test_what_is_asked_may_raise():
    def exits(item):
        raise SystemExit(item)

    with pytest.raises(SystemExit):
        list(workers.map(square, [3], requested=exits))


def test_a_map_is_called_where_an_event_loop_runs():
    async def main():
        return list(workers.map(square, range(3), max_workers=2))

    assert asyncio.run(main()) == [0, 1, 4]


def test_a_function_of_the_wrong_kind_is_told_what_to_write():
    async def coroutine(item):
        return item

    with pytest.raises(TypeError, match="asyncio"):
        list(workers.map(coroutine, [1]))

    async def main():
        return [answer async for answer in workers.map(square, [1], mode="asyncio")]

    with pytest.raises(TypeError, match="no coroutine"):
        asyncio.run(main())


def exits(_):
    sys.exit(3)


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_a_function_that_exits_is_an_error_of_its_item(mode):
    with pytest.raises(SystemExit):
        results(exits, [1], mode, max_workers=1)


@pytest.mark.parametrize(
    "words",
    [dict(mode="gevent"), dict(max_workers=0), dict(on_error="ignore"), dict(max_in_flight=0), dict(retries=-1)],
)
def test_what_makes_no_sense_is_refused_at_once(words):
    with pytest.raises(ValueError):
        workers.map(square, [1], **words)
    with pytest.raises(TypeError):
        workers.map(square, 1)


def test_a_bar_is_tqdms(monkeypatch, capsys):
    pytest.importorskip("tqdm")
    assert list(workers.map(square, range(3), progress=True)) == [0, 1, 4]
    assert "3/3" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ModuleNotFoundError, match="pip install tqdm"):
        workers.map(square, range(3), progress=True)


class Broken(Exception):
    pass


def test_what_came_before_an_error_of_the_items_is_yielded_first():
    def items():
        yield from range(5)
        raise Broken

    seen = []
    with pytest.raises(Broken):
        for number in workers.map(abs, items(), max_workers=2):
            seen.append(number)
    assert seen == [0, 1, 2, 3, 4]

    async def main():
        async def double(number):
            return number

        async def items():
            for number in range(5):
                yield number
            raise Broken

        seen = []
        with pytest.raises(Broken):
            async for number in workers.map(double, items(), mode="asyncio", max_workers=2):
                seen.append(number)
        assert seen == [0, 1, 2, 3, 4]

    asyncio.run(main())


def test_in_an_event_loop_no_result_waits_for_the_next_item():
    async def main():
        seen = asyncio.Event()

        async def double(number):
            return 2 * number

        async def items():
            yield 1
            # An hour, say; here until the first result has come out.
            await seen.wait()
            yield 2

        results = []
        async for result in workers.map(double, items(), mode="asyncio", max_workers=4):
            results.append(result)
            seen.set()
        assert results == [2, 4]

    asyncio.run(asyncio.wait_for(main(), 20))


def test_a_result_that_is_there_comes_out_before_all_items_are_taken_that_may_be():
    def items():
        yield from range(1_000_000)
        raise Broken

    results = workers.map(abs, items(), max_workers=1, max_in_flight=10**9)
    assert next(results) == 0
    results.close()


def test_an_item_that_is_cancelled_ends_no_other():
    async def main():
        async def fails_second(number):
            if number == 1:
                raise asyncio.CancelledError("mine")
            return number

        said = dict(mode="asyncio", max_workers=2, on_error="return")
        results = [result async for result in workers.map(fails_second, range(3), **said)]
        assert results[0::2] == [0, 2]
        assert isinstance(results[1], futures.CancelledError) and results[1].args == ("mine",)

    asyncio.run(main())

    def fails_second(number):
        if number == 1:
            raise asyncio.CancelledError("mine")
        return number

    results = list(workers.map(fails_second, range(3), max_workers=2, on_error="return"))
    assert results[0::2] == [0, 2] and isinstance(results[1], futures.CancelledError)


def test_an_item_that_is_cancelled_is_not_tried_again():
    tries = []

    async def main():
        async def work(number):
            tries.append(number)
            raise asyncio.CancelledError

        said = dict(mode="asyncio", max_workers=2, retries=2, on_error="return")
        return [result async for result in workers.map(work, range(2), **said)]

    assert all(isinstance(result, futures.CancelledError) for result in asyncio.run(main()))
    assert sorted(tries) == [0, 1]


def test_a_map_whose_task_is_cancelled_ends_its_items():
    async def main():
        begun, ended = asyncio.Event(), []

        async def work(number):
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(number)

        async def consume():
            async for _ in workers.map(work, range(3), mode="asyncio", max_workers=3):
                pass

        task = asyncio.ensure_future(consume())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(10):
            await asyncio.sleep(0)
        assert ended

    asyncio.run(main())
