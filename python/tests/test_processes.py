"""The same limits from several processes."""

import asyncio
import concurrent.futures
import contextlib
import ctypes
import mmap
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
from forked import in_child

from tidegate import CallLimit, LimitPool, LimitSet, Mutex, ResourceLimit, Semaphore, StoreUnavailable


def calls(store, name):
    return LimitSet([CallLimit(20, "per_day"), ResourceLimit("slots", 2)], name=name, store=store)


def admitted(limits):
    count = 0
    for _ in range(15):
        with limits.try_acquire() as acquired:
            count += bool(acquired)
    return count


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_processes_share_a_limit_that_was_pickled(store_url, start):
    limits = calls(store_url, f"pickled-{start}")
    context = multiprocessing.get_context(start)
    with concurrent.futures.ProcessPoolExecutor(3, mp_context=context) as pool:
        counts = list(pool.map(admitted, [limits] * 3))
    counts.append(admitted(limits))
    # Two slots for three processes: a call may have met none, and was not counted.
    assert sum(counts) <= 20 and not all(count == 15 for count in counts)
    assert sum(counts) + admitted(limits) == 20


def test_a_forked_child_uses_the_sets_of_its_parent(store_url):
    limits = calls(store_url, "forked")
    pool = LimitPool([limits])
    semaphore = Semaphore("forked-semaphore", 1, store=store_url)
    assert admitted(limits) == 15
    assert in_child(lambda: admitted(limits)) == "5"
    assert in_child(lambda: pool.try_acquire().limit) == "calls"
    with semaphore:
        assert in_child(lambda: semaphore.try_acquire()) == "None"
    assert in_child(lambda: bool(semaphore.try_acquire())) == "True"


def test_children_have_lease_ids_of_their_own(store_url):
    limits = LimitSet([ResourceLimit("slots", 100)], name="ids", store=store_url)
    memory = LimitSet([ResourceLimit("slots", 100)])
    held = [limits.acquire(), memory.acquire()]
    assert [in_child(lambda: bool(limits.try_acquire())) for _ in range(4)] == ["True"] * 4
    # In memory it begins anew.
    assert in_child(lambda: memory.try_acquire().remaining["slots"]) == "99"
    assert all(held)


def test_a_killed_holder_gives_its_slot_back_within_its_ttl(store_url):
    # In shared memory at once.
    is_shm = store_url.startswith("shm:")
    mutex = Mutex("killed", store=store_url, ttl=3_600 if is_shm else 1)
    ready, held = os.pipe()
    child = os.fork()
    if child == 0:
        _permit = mutex.acquire()
        os.write(held, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    assert mutex.try_acquire() is None
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with mutex.acquire(timeout=60) as permit:
        assert permit.fence > 1


def test_sets_of_a_shared_store_are_pickled(store_url):
    limits = calls(store_url, "pickling")
    again = pickle.loads(pickle.dumps(limits))
    assert again.limits == limits.limits and again.name == limits.name
    assert admitted(limits) + admitted(again) == 20
    mutex = Mutex("pickled", store=store_url)
    with mutex:
        assert pickle.loads(pickle.dumps(mutex)).try_acquire() is None


def test_a_store_that_is_away_is_told_as_that():
    with pytest.raises(StoreUnavailable):
        LimitSet([CallLimit(1, "per_second")], name="away", store="redis://127.0.0.1:1")
    with pytest.raises(ValueError):
        LimitSet([CallLimit(1, "per_second")], name="odd", store="gopher://x")


@pytest.mark.parametrize("server", ["http://127.0.0.1:7400", "https://limits.example"])
def test_a_server_is_no_store_and_the_message_names_its_client(server):
    opens = [
        lambda: LimitSet("1/minute", name="chat", store=server),
        lambda: LimitSet("1/minute", name="chat", store=server, mode="ray"),
        lambda: Semaphore("gpu", 2, store=server),
    ]
    for opened in opens:
        with pytest.raises(ValueError, match="a server is no store.* tidegate.Client asks it"):
            opened()


def test_modes_are_short_names_of_stores():
    assert LimitSet("1/minute", mode="thread").store is None
    limits = LimitSet("1/minute", name=f"mode-{os.getpid()}", mode="process")
    assert limits.store == "shm:python" and pickle.loads(pickle.dumps(limits)).try_acquire()
    assert not limits.try_acquire()
    for mode in ("ray", "odd"):
        with pytest.raises(ValueError):
            LimitSet("1/minute", name="x", mode=mode)
    with pytest.raises(ValueError):
        LimitSet("1/minute", name="x", mode="process", store="shm:x")


def test_processes_that_wait_are_woken(store_url):
    mutex = Mutex("queue", store=store_url)
    held = mutex.acquire()
    read, write = os.pipe()
    children = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            try:
                os.write(write, b"waits")
                with mutex.acquire(timeout=60):
                    os.write(write, f"got{number} ".encode())
            finally:
                os._exit(0)
        assert os.read(read, 5) == b"waits"
        children.append(child)
    held.release()
    for child in children:
        os.waitpid(child, 0)
    assert sorted(os.read(read, 100).split()) == [b"got0", b"got1", b"got2"]


def test_a_forked_child_waits_although_its_parent_has_waited():
    limits = LimitSet("20/second")
    for _ in range(22):
        limits.acquire()

    def waits():
        for _ in range(22):
            limits.acquire(timeout=30)
        return "served"

    assert in_child(waits) == "served"


def test_a_forked_child_leaves_what_its_parent_holds(store_url):
    limits = LimitSet([ResourceLimit("slots", 1)], name="held", store=store_url)
    mutex = Mutex("held by the parent", store=store_url)

    def leaves():
        held.__exit__(None, None, None)
        permit.__exit__(None, None, None)
        return bool(limits.try_acquire()), mutex.try_acquire()

    with limits.acquire() as held, mutex.acquire() as permit:
        assert in_child(leaves) == "(False, None)"
    assert limits.try_acquire()


def test_a_process_that_runs_another_program_holds_nothing_of_before(shm_name):
    """As a server that reloads itself does."""
    opens = f"limits = LimitSet([ResourceLimit('slots', 1)], name='reloads', store='shm:{shm_name}?size=8')"
    first = f"import os, sys; from tidegate import *; {opens}; held = limits.acquire(); os.execv(sys.executable, {{}})"
    second = f"from tidegate import *; {opens}; print(bool(limits.try_acquire()))"
    first = first.format([sys.executable, "-c", second])
    done = subprocess.run([sys.executable, "-c", first], capture_output=True, text=True, timeout=120)
    assert done.stdout == "True\n", done.stderr


#: Where the locks of a segment are, of 64 shards of roots: `stores/shm/src/layout.rs`.
LOCKS = [69_632 + 12_544 * shard for shard in range(64)]


def keep_locks(path, told, until):
    """Holds the locks of all roots, as a process that is stopped amid a step does, until it is told."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        word = ctypes.c_char.from_buffer(mapped)
        locks = [ctypes.c_void_p(ctypes.addressof(word) + lock) for lock in LOCKS]
        libc = ctypes.CDLL(None)
        for lock in locks:
            assert libc.pthread_mutex_lock(lock) == 0
        os.write(told, b"x")
        os.read(until, 1)
        for lock in locks:
            libc.pthread_mutex_unlock(lock)
        del word


class Stopped:
    """A process that keeps all locks of a segment."""

    def __init__(self, name):
        path = f"/dev/shm/tidegate-{os.getuid()}-{name}"
        ready, told = os.pipe()
        until, self._go_on = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            try:
                keep_locks(path, told, until)
            finally:
                os._exit(0)
        assert os.read(ready, 1) == b"x"

    def goes_on(self):
        os.write(self._go_on, b"x")

    def ends(self):
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)


@pytest.fixture
def slots(shm_name):
    """Two slots in shared memory; a lock is waited for as long as a test may take."""
    limits = LimitSet([ResourceLimit("slots", 2)], name="slots", store=f"shm:{shm_name}?size=8&deadline=20s")
    with limits.acquire():
        pass
    return limits


@pytest.fixture
def stops(shm_name):
    """Begins a process that keeps all locks."""
    with contextlib.ExitStack() as ends:

        def stops():
            stopped = Stopped(shm_name)
            ends.callback(stopped.ends)
            return stopped

        yield stops


@pytest.fixture
def no_switches():
    """Another thread runs once this one gives the interpreter up, and not before."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1_000)
    yield
    sys.setswitchinterval(before)


def test_other_threads_go_on_while_a_process_holds_a_lock(slots, stops, no_switches):
    """They stood still for as long as the lock was waited for: nobody let it go, and the verb failed."""
    for verb in [slots.try_acquire, slots.acquire, slots.peek, slots.acquire().release]:
        stopped, begins = stops(), threading.Event()

        def says(verb=verb, begins=begins):
            begins.set()
            return verb()

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            said = pool.submit(says)
            begins.wait()
            stopped.goes_on()
            said.result()


def test_an_event_loop_goes_on_while_a_process_holds_a_lock(slots, stops):
    async def main():
        held = await slots.async_acquire()
        for verb in [slots.async_try_acquire, slots.async_acquire, slots.async_peek, held.async_release]:
            stopped = stops()

            async def says(verb=verb):
                told = await verb()
                if told and verb != slots.async_peek:
                    await told.async_release()

            said = asyncio.ensure_future(says())
            await asyncio.sleep(0)
            assert not said.done()
            stopped.goes_on()
            await said

    asyncio.run(main())


def test_a_lock_that_is_kept_too_long_is_told_and_nothing_was_done(shm_name, stops):
    limits = LimitSet([ResourceLimit("slots", 1)], name="slots", store=f"shm:{shm_name}?size=8&deadline=50ms")
    held = limits.acquire()
    stopped = stops()

    async def at_once():
        told = [limits.async_try_acquire(key=f"key-{number}") for number in range(100)]
        return await asyncio.gather(*told, return_exceptions=True)

    assert {type(told) for told in asyncio.run(at_once())} == {StoreUnavailable}
    with pytest.raises(StoreUnavailable, match="held a lock of the segment for 50 ms"):
        held.release()
    stopped.goes_on()
    with limits.acquire(timeout=60) as acquired:
        assert acquired.remaining == {"slots": 0}
    assert limits.peek()["slots"]["remaining"] == 1


def test_what_is_granted_after_its_task_was_cancelled_is_given_back(slots, stops):
    async def main():
        stopped = stops()
        tasks = [asyncio.ensure_future(slots.async_acquire()) for _ in range(2)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        stopped.goes_on()
        with await slots.async_acquire({"slots": 2}, timeout=60) as acquired:
            assert acquired

    asyncio.run(main())
