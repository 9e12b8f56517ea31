"""What concurry 0.13 does where `python/tests/test_peers_defects.py` tests ours, beside ours.

Runs under a wall clock that can be moved (`python/tests/clock.c`): it starts itself so.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import logging
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing import get_context

import concurry
import ours
from concurry import RateLimitAlgorithm as Algorithm

import tidegate

FORK = get_context("fork")
DAY, HOUR = 86_400, 3_600


def theirs(*limits, mode="thread"):
    more = {"mp_context": "fork"} if mode == "process" else {}
    return concurry.LimitSet(limits=list(limits), shared=True, mode=mode, **more)


def their_rate(capacity, window, algorithm=Algorithm.TokenBucket):
    return concurry.RateLimit(key="tokens", capacity=capacity, window=window, algorithm=algorithm)


def their_slots(capacity):
    return concurry.ResourceLimit(key="slots", capacity=capacity)


def our_slots(capacity, **more):
    return tidegate.LimitSet([tidegate.ResourceLimit("slots", capacity)], **more)


def our_rate(capacity, window, algorithm=None, **more):
    return tidegate.LimitSet([tidegate.RateLimit("tokens", capacity, window, algorithm)], **more)


def told(work) -> str:
    """What it answers, or how it fails."""
    try:
        return str(work())
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:60]}" if str(error) else type(error).__name__


def words(acquired) -> str:
    return "admitted" if acquired.successful else "refused"


def takes(limits, number) -> bool:
    acquired = limits.try_acquire({"tokens": number})
    if acquired.successful:
        acquired.update({"tokens": number})
        acquired.release()
    return acquired.successful


def waits_by_looking(limits):
    with limits.acquire():
        before = time.thread_time(), time.perf_counter()
        with contextlib.suppress(TimeoutError):
            limits.acquire(timeout=0.001)
    return f"a timeout of 1 ms ends after {(time.perf_counter() - before[1]) * 1e3:.1f} ms"


def fairness(limits):
    grants, is_over = collections.Counter(), threading.Event()

    def works(number):
        while not is_over.is_set():
            with limits.acquire():
                grants[number] += 1

    threads = [threading.Thread(target=works, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    is_over.set()
    for thread in threads:
        thread.join()
    counts = [grants[number] for number in range(8)]
    return f"8 threads on one slot: the least got {min(counts):,}, the most {max(counts):,}"


def starvation(limits, requested):
    is_over, grants = threading.Event(), [0]

    def small():
        while not is_over.is_set():
            with limits.acquire():
                grants[0] += 1
                time.sleep(0.0005)

    threads = [threading.Thread(target=small) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    before = grants[0]
    try:
        limits.acquire(requested, timeout=3).release()
        return f"4 of 4 slots after {grants[0] - before:,} small ones"
    except TimeoutError:
        return f"4 of 4 slots not within 3 s, {grants[0] - before:,} small ones meanwhile"
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def leaks(limits):
    takes(limits, 10)
    until, admitted = time.monotonic() + 3, 0
    while time.monotonic() < until:
        admitted += takes(limits, 1)
        time.sleep(0.01)
    return f"10/s, drained, asked every 10 ms for 3 s: {admitted} admitted"


def raises(limits):
    def body():
        with limits.acquire({"tokens": 1}, timeout=1):
            raise KeyError("the body's own")

    raised = told(body)
    return f"{raised}; then {told(lambda: words(limits.try_acquire({'tokens': 1})))}"


def enters_a_refusal(limits):
    _held = limits.acquire()
    refused = limits.try_acquire()
    assert not refused.successful
    told(lambda: refused.__enter__())
    told(lambda: refused.__exit__(None, None, None))
    return f"of one slot, held, another acquisition is {words(limits.try_acquire())}"


def whole_capacity(limits):
    return told(lambda: words(limits.try_acquire({"tokens": 1_000})))


def fast(limits):
    stop_the_clock()
    try:
        takes(limits, 20_000_000)
        admitted = sum(takes(limits, 1) for _ in range(1_000))
    finally:
        start_the_clock()
    return f"20 M/s, all taken, a stopped clock: {admitted:,} of 1,000 more admitted"


def steps_back(limits):
    takes(limits, 10)
    move_the_clock(-HOUR)
    try:
        takes(limits, 1)
        time.sleep(1.2)
        return f"10/s, wall clock back by an hour, 1.2 s later: {words(limits.try_acquire({'tokens': 1}))}"
    finally:
        move_the_clock(HOUR)


def amounts(limits):
    return ", ".join(
        f"{number}: {told(lambda: words(limits.try_acquire({'tokens': number})))}" for number in (-50, math.nan)
    )


def killed(limits):
    began, begin = FORK.Pipe()

    def holds():
        _held = limits.acquire()
        begin.send(True)
        time.sleep(600)

    child = FORK.Process(target=holds, daemon=True)
    child.start()
    began.recv()
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    return "the slot of a killed holder: " + told(lambda: words(limits.acquire(timeout=2)))


def refunds(limits):
    with limits.acquire({"tokens": 100}) as acquired:
        acquired.update({"tokens": 40})
    return f"100 taken, 40 used, 60 more: {words(limits.try_acquire({'tokens': 60}))}"


def algorithms(limits):
    """Ten a second, all at once; half a second later a window has nothing, a bucket has five."""
    takes(limits, 10)
    time.sleep(0.5)
    return f"token bucket of 10/s, used up, 4 more 0.5 s later: {words(limits.try_acquire({'tokens': 4}))}"


def memory(limits):
    before = time.perf_counter()
    takes(limits, 1_600_000)
    return f"one acquisition of 1.6 M tokens: {(time.perf_counter() - before) * 1e3:.3g} ms"


def over_use(limits):
    with limits.acquire({"tokens": 10}) as acquired:
        acquired.update({"tokens": 90})
    return f"100 a day, 10 taken, 90 used, 50 more: {words(limits.try_acquire({'tokens': 50}))}"


def passes_over(pool, sets):
    _held = [sets[number].acquire() for number in range(3)]
    admitted = 0
    for _ in range(8):
        with contextlib.suppress(TimeoutError):
            pool.acquire(timeout=0.05).release()
            admitted += 1
    return f"one of four sets is free: {admitted} of 8 admitted within 50 ms"


def their_pool(sets):
    balance = concurry.LoadBalancingAlgorithm.RoundRobin
    return concurry.LimitPool(limit_sets=sets, load_balancing=balance)


def their_members():
    return [theirs(their_slots(1)) for _ in range(4)]


def our_members():
    return [our_slots(1) for _ in range(4)]


def both(run, their, our):
    return told(lambda: run(their)), told(lambda: run(our))


DEFECTS = {
    "a wait": lambda: both(waits_by_looking, theirs(their_slots(1)), our_slots(1)),
    "fairness": lambda: both(fairness, theirs(their_slots(1)), our_slots(1)),
    "starvation": lambda: (
        told(lambda: starvation(theirs(their_slots(4)), {"slots": 4})),
        told(lambda: starvation(our_slots(4), {"slots": 4})),
    ),
    "a look changes nothing": lambda: both(
        leaks, theirs(their_rate(10, 1, Algorithm.LeakyBucket)), our_rate(10, 1, "leaky_bucket")
    ),
    "an exception before update": lambda: both(
        raises,
        theirs(their_rate(100, DAY), their_slots(1)),
        tidegate.LimitSet([tidegate.RateLimit("tokens", 100, DAY), tidegate.ResourceLimit("slots", 1)]),
    ),
    "a refusal as a scope": lambda: both(enters_a_refusal, theirs(their_slots(1)), our_slots(1)),
    "idle GCRA, all of 1,000 an hour": lambda: both(
        whole_capacity, theirs(their_rate(1_000, HOUR, Algorithm.GCRA)), our_rate(1_000, HOUR, "gcra")
    ),
    "more than 10 M a second": lambda: both(
        fast,
        theirs(their_rate(20_000_000, 1, Algorithm.GCRA)),
        # The store whose clock is the wall's.
        our_rate(20_000_000, 1, "gcra", name="fast", store=ours.shm("fast")),
    ),
    "a clock that steps back": lambda: both(steps_back, theirs(their_rate(10, 1)), our_rate(10, 1)),
    "amounts that are none": lambda: both(amounts, theirs(their_rate(100, DAY)), our_rate(100, DAY)),
    "a killed holder": lambda: both(
        killed, theirs(their_slots(1), mode="process"), our_slots(1, name="killed", store=ours.shm("killed"))
    ),
    "process mode refunds": lambda: both(
        refunds,
        theirs(their_rate(100, DAY), mode="process"),
        our_rate(100, DAY, name="refunds", store=ours.shm("refunds")),
    ),
    "process mode's algorithm": lambda: both(
        algorithms,
        theirs(their_rate(10, 1, Algorithm.TokenBucket), mode="process"),
        our_rate(10, 1, "token_bucket", name="bucket", store=ours.shm("bucket")),
    ),
    "a large amount": lambda: both(
        memory, theirs(their_rate(10**7, DAY, Algorithm.SlidingWindow)), our_rate(10**7, DAY, "sliding_window")
    ),
    "over-use": lambda: both(over_use, theirs(their_rate(100, DAY)), our_rate(100, DAY)),
    "a pool and a free set": lambda: (
        (lambda sets: told(lambda: passes_over(their_pool(sets), sets)))(their_members()),
        (lambda sets: told(lambda: passes_over(tidegate.LimitPool(sets), sets)))(our_members()),
    ),
}


def move_the_clock(seconds):
    ctypes.CDLL(None).move_the_clock(ctypes.c_double(seconds))


def stop_the_clock():
    ctypes.CDLL(None).stop_the_clock()


def start_the_clock():
    ctypes.CDLL(None).start_the_clock()


def main() -> int:
    if not hasattr(ctypes.CDLL(None), "move_the_clock"):
        return under_a_clock()
    logging.disable(logging.CRITICAL)
    print("| | concurry 0.13 | ours |\n|---|---|---|", flush=True)
    try:
        for name, run in DEFECTS.items():
            their, our = run()
            print(f"| {name} | {their} | {our} |", flush=True)
    finally:
        ours.tidy()
    return 0


def under_a_clock() -> int:
    source = pathlib.Path(__file__).parents[3] / "python/tests/clock.c"
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        return subprocess.run([sys.executable, *sys.argv], env={**os.environ, "LD_PRELOAD": library}).returncode
