"""How long it takes until one that waits in another process has its turn."""

from __future__ import annotations

import time

import ours
from measure import FORK, Each, Options, Row, percentiles


def of_another_process(make) -> Each:
    """From the call of a release until the other has what was released.

    :param make: called in each process; makes what takes the one slot, waits for it if need be, and answers what
        gives it back.
    """
    here, there = FORK.Pipe()
    FORK.Process(target=_wait, args=(there, here, make), daemon=True).start()
    there.close()
    hold = make()

    def each(count):
        times = []
        for _ in range(count):
            release = hold()
            here.send("wait")
            here.recv()
            # It is asleep by then.
            time.sleep(0.001)
            # The clock is the machine's.
            before = time.perf_counter()
            release()
            times.append(here.recv() - before)
        return times

    return each


def _wait(pipe, others, make) -> None:
    # Else it would never read that this was closed.
    others.close()
    hold = make()
    while True:
        try:
            pipe.recv()
        except EOFError:
            return
        pipe.send("waits")
        release = hold()
        at = time.perf_counter()
        release()
        pipe.send(at)


def rows(name: str, options: Options) -> list[Row]:
    store, semaphore = ours.shm("woken"), FORK.Semaphore(1)

    def ours_holds():
        limits = ours.slots("woken", store, capacity=1)
        return lambda: limits.acquire(timeout=60).release

    def theirs_holds():
        def hold():
            semaphore.acquire()
            return semaphore.release

        return hold

    each = {"": of_another_process(ours_holds)}
    return percentiles(name, options, each, {"multiprocessing.Semaphore": of_another_process(theirs_holds)})
