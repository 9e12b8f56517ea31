"""What is compared: each row names its contenders, ours first."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections.abc import Callable, Iterable

import actors
import growth
import mutex
import ours
import peers
import servers
import waiting
import wakeups
from measure import Compared, Options, Row, alone, by_the_clock, in_a_loop, in_processes, on_threads

from tidegate import Semaphore

NAMES = ("calls", "tokens", "slots")
MANY = (1, 2, 4, 8, 16)
SOME = (2, 4, 8)


def with_one(name, options):
    return compared(
        name,
        options,
        alone("ours", ours.acquires(ours.one())),
        alone("a guard in PyO3 that only counts", peers.guards()),
        alone("limits", peers.hits()),
        alone("pyrate-limiter", peers.pyrates()),
        alone("throttled-py", peers.throttles()),
        alone("concurry, thread", peers.concurry_acquires(peers.concurry_set("thread"))),
    )


def with_three(name, options):
    return compared(
        name,
        options,
        alone("ours", ours.acquires_three(ours.three())),
        alone("a guard in PyO3 that only counts", peers.guards()),
        alone("limits, three hits", peers.hits(NAMES)),
        alone("pyrate-limiter, three", peers.pyrates(3)),
        alone("throttled-py, three", peers.throttles(NAMES)),
        alone("concurry, thread", peers.concurry_acquires_three(peers.concurry_set("thread", three=True))),
    )


def tries(name, options):
    return compared(
        name,
        options,
        alone("ours", ours.tries(ours.one())),
        alone("limits", peers.hits()),
        alone("concurry, thread", peers.concurry_tries(peers.concurry_set("thread"))),
    )


def awaits(name, options):
    return compared(
        name,
        options,
        in_a_loop("ours", ours.acquires_async(ours.one())),
        in_a_loop("aiolimiter", peers.aio()),
        in_a_loop("concurry, asyncio", peers.concurry_acquires_async(peers.concurry_set("asyncio"))),
    )


def semaphore(name, options):
    made = Semaphore("bench", 2)
    return compared(
        name,
        options,
        alone("ours", ours.enters(made)),
        alone("threading.Semaphore", ours.enters(threading.Semaphore(2))),
    )


def semaphore_async(name, options):
    return compared(
        name,
        options,
        in_a_loop("ours", ours.enters_async(Semaphore("bench", 2))),
        in_a_loop("asyncio.Semaphore", ours.enters_async(asyncio.Semaphore(2))),
    )


def semaphore_of_processes(processes):
    def row(name, options):
        theirs = multiprocessing.get_context("fork").Semaphore(2)
        store = ours.shm(f"semaphore-{processes}")
        return compared(
            name,
            options,
            in_processes("ours", processes, lambda _: ours.enters(Semaphore("bench", 2, store=store))),
            in_processes("multiprocessing.Semaphore", processes, lambda _: ours.enters(theirs)),
        )

    return row


def of_processes(processes, three=False):
    def row(name, options):
        store = ours.shm(f"process-{processes}-{three}")
        theirs = peers.concurry_set("process", three=three)
        make, acquires = (ours.three, ours.acquires_three) if three else (ours.one, ours.acquires)
        acquires_theirs = peers.concurry_acquires_three if three else peers.concurry_acquires
        return compared(
            name,
            options,
            in_processes("ours", processes, lambda _: acquires(make("bench", store))),
            in_processes("concurry, process", processes, lambda _: acquires_theirs(theirs)),
        )

    return row


def threads(number):
    def row(name, options):
        return compared(
            name,
            options,
            on_threads("ours", number, ours.acquires(ours.one())),
            on_threads("limits", number, peers.hits()),
            on_threads("throttled-py", number, peers.throttles()),
            on_threads("concurry, thread", number, peers.concurry_acquires(peers.concurry_set("thread"))),
        )

    return row


def pools(members):
    def row(name, options):
        store, theirs = ours.shm(f"pool-{members}"), peers.concurry_members(members)
        return compared(
            name,
            options,
            in_processes("ours", 8, lambda worker: ours.acquires(ours.pool(members, store, worker))),
            in_processes(
                "concurry, process", 8, lambda worker: peers.concurry_acquires(peers.concurry_pool(theirs, worker))
            ),
        )

    return row


def shm_to_memory(name, options):
    return compared(
        name,
        options,
        alone("ours", ours.acquires_three(ours.three("bench", ours.shm("ratio")))),
        alone("memory", ours.acquires_three(ours.three())),
    )


def redis_to_memory(name, options):
    with servers.a_redis() as url:
        if url is None:
            return [Row.left_out(name, "no redis-server is installed")]
        return compared(
            name,
            options,
            by_the_clock("ours", ours.acquires_three(ours.three("bench", url))),
            by_the_clock("memory", ours.acquires_three(ours.three())),
        )


def ray_mode(name, options):
    with servers.a_ray() as ray:
        if ray is None:
            return [Row.left_out(name, "ray is not installed")]
        return compared(
            name,
            options,
            by_the_clock("ours, shm", ours.acquires(ours.one("bench", ours.shm("ray")))),
            by_the_clock("concurry, ray", peers.concurry_acquires(peers.concurry_set("ray"))),
        )


def beside_a_mutex(processes):
    def row(name, options):
        theirs, store = mutex.made(), ours.shm(f"mutex-{processes}")
        if theirs is None:
            return [Row.left_out(name, "no C compiler is installed")]
        return compared(
            name,
            options,
            in_processes("ours", processes, lambda _: ours.acquires(ours.slots("bench", store))),
            in_processes("robust mutex of processes, a call each", processes, lambda _: theirs.in_calls),
            in_processes("the same, all in C", processes, lambda _: theirs.in_c),
        )

    return row


def compared(name, options, *contenders) -> list[Row]:
    return Compared(list(contenders)).rows(name, options)


def processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


ROWS: dict[str, Callable[[str, Options], Iterable[Row]]] = {
    "`with limits.acquire()`, one limit": with_one,
    "`with limits.acquire({...})`, three limits, reported": with_three,
    "try_acquire, one limit": tries,
    "`async with await limits.async_acquire()`, one limit": awaits,
    "semaphore, `with`": semaphore,
    "semaphore, `async with`": semaphore_async,
    **{f"semaphore of 2, {processes(number)}": semaphore_of_processes(number) for number in (1, *SOME)},
    **{f"process mode, one limit, {processes(number)}": of_processes(number) for number in (1, *SOME)},
    "process mode, three limits, 1 process": of_processes(1, three=True),
    "process mode, three limits, 4 processes": of_processes(4, three=True),
    **{f"one limit, {number} thread{'s' if number > 1 else ''}": threads(number) for number in MANY},
    "1,000 tasks that wait for one slot": waiting.for_a_slot,
    "1,000 tasks that wait for a rate": waiting.for_a_rate,
    **{f"pool of {members} for 8 processes": pools(members) for members in (1, 4, 16)},
    **{f"acquire + release, shm, {processes(number)}": beside_a_mutex(number) for number in (1, 2)},
    "from a release to the turn of one that waits in another process, shm": wakeups.rows,
    "three limits, shm": shm_to_memory,
    "three limits, redis": redis_to_memory,
    "what a million acquisitions add to a process": growth.of_a_million,
    # Ray's threads stay in this process: what forks comes before.
    "Ray mode, one limit": ray_mode,
    "acquire + release from an actor of Ray": actors.pairs,
}
