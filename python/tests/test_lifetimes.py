"""What lives how long: garbage, subclasses, pickles, forks, ends that are interrupted."""

import asyncio
import contextlib
import gc
import os
import pickle
import re
import signal
import socket
import threading
import time
import weakref

import pytest
from forked import in_child

from tidegate import (
    InvalidRequest,
    LeaseEnded,
    LimitPool,
    LimitSet,
    Mutex,
    RateLimit,
    ResourceLimit,
    Semaphore,
    UnreportedUsage,
    limited,
)


def one_slot(**more):
    return LimitSet([ResourceLimit("slots", 1)], **more)


def left(limits):
    return {name: standing["remaining"] for name, standing in limits.peek().items()}


def is_collected(make):
    """Whether what `make` answers goes once nobody has it."""
    seen = weakref.ref(make())
    gc.collect()
    return seen() is None


def test_a_config_may_refer_back_to_its_set():
    def make():
        config = {}
        limits = config["limits"] = one_slot(config=config)
        config["held"] = limits.acquire()
        return limits

    assert is_collected(make)

    class Holder:
        pass

    def make_by_a_tuple():
        holder = Holder()
        holder.limits = one_slot(config=(holder,))
        return holder

    assert is_collected(make_by_a_tuple)


def test_a_balancer_may_refer_back_to_its_pool():
    class Balancer:
        def __call__(self, loads, turn):
            return [0]

    def make():
        balancer = Balancer()
        balancer.pool = LimitPool([one_slot(config=balancer)], balancer=balancer)
        assert balancer.pool.acquire().config is balancer
        return balancer

    assert is_collected(make)


def test_what_was_acquired_keeps_its_sets_config():
    class Config(dict):
        pass

    config = Config(region="eu")
    config["limits"] = one_slot(config=config)
    acquired = config["limits"].acquire()
    del config
    gc.collect()
    assert acquired.config["region"] == "eu"


class Tokens(LimitSet):
    def __init__(self, most, store=None):
        self.most = most
        super().__init__([RateLimit("tokens", most, "per_hour")], name="tokens", store=store)


class Gpus(Semaphore):
    def __init__(self, store=None):
        super().__init__("gpus", 2, store=store)


def test_subclasses_take_arguments_of_their_own():
    assert Tokens(10).try_acquire({"tokens": 10})
    assert Gpus().available() == 2

    class Forgetful(LimitSet):
        def __init__(self):
            pass

    with pytest.raises(RuntimeError, match="__init__"):
        Forgetful().acquire()
    with pytest.raises(RuntimeError, match="before"):
        Tokens(10).__init__(20)


def test_subclasses_and_pools_are_pickled(shm_name):
    def again(made):
        return pickle.loads(pickle.dumps(made))

    tokens = Tokens(10, store=f"shm:{shm_name}?size=8")
    assert tokens.try_acquire({"tokens": 6})
    assert again(tokens).most == 10 and not again(tokens).try_acquire({"tokens": 6})
    pool = LimitPool({"one": tokens}, weights=[2], load_balancing="weighted", offset=1)
    assert not again(pool).try_acquire({"tokens": 6}) and again(pool).try_acquire({"tokens": 1}).member == "one"
    gpus = Gpus(store=f"shm:{shm_name}?size=8")
    with gpus:
        assert again(gpus).available() == 1
    with pytest.raises(TypeError, match="redis"):
        pickle.dumps(LimitPool([one_slot()]))


@pytest.mark.parametrize("store", ["memory:", "file:{}/tidegate.redb"])
def test_sets_of_one_name_in_a_store_of_this_process_share_it(store, tmp_path):
    store = store.format(tmp_path)
    name = f"shared-{tmp_path.name}"
    with one_slot(name=name, store=store).acquire():
        assert not one_slot(name=name, store=store).try_acquire()
        # The limits that were said last hold.
        assert LimitSet([ResourceLimit("slots", 2)], name=name, store=store).try_acquire()


def test_a_forked_child_has_no_place_of_those_who_wait_in_its_parent():
    limits = one_slot()
    held = limits.acquire()
    thread = threading.Thread(target=lambda: limits.acquire().release())
    thread.start()
    while limits.stats()["waiting"] < 1:
        time.sleep(0.001)

    def works():
        held.release()
        for _ in range(3):
            limits.acquire(timeout=0).release()
        return limits.stats()["waiting"]

    assert in_child(works) == "0"
    held.release()
    thread.join()


def test_a_forked_child_drops_nothing_of_what_its_parent_holds(store_url):
    limits, mutex = one_slot(name="dropped", store=store_url), Mutex("dropped-mutex", store=store_url)
    held = [limits.acquire(), mutex.acquire()]

    def drops():
        held.clear()
        gc.collect()
        return bool(limits.try_acquire()), mutex.try_acquire()

    assert in_child(drops) == "(False, None)"
    held.clear()
    assert limits.acquire(timeout=30) and mutex.acquire(timeout=30)


class Proxy:
    """Stands before a server, and calls `seen` with what is sent to it before it passes that on."""

    def __init__(self, url, seen):
        self.server = re.search(r":(\d+)\?", url)
        self.seen = seen
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(self.server[1], str(self.listening.getsockname()[1]))
        self.start(self.accept)

    def start(self, work, *arguments):
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listening.accept()[0]
                server = socket.create_connection(("127.0.0.1", int(self.server[1])))
                self.start(self.passes_on, client, server, self.seen)
                self.start(self.passes_on, server, client, lambda sent: None)

    def passes_on(self, one, other, seen):
        with contextlib.suppress(OSError):
            while sent := one.recv(65_536):
                seen(sent)
                other.sendall(sent)
        other.close()


def test_ctrl_c_amid_the_end_of_a_failed_body_loses_neither_its_exception_nor_the_slot(redis_url):
    ends = threading.Event()

    def seen(sent):
        if ends.is_set() and b"interrupted" in sent:
            ends.clear()
            os.kill(os.getpid(), signal.SIGINT)

    proxy = Proxy(redis_url, seen)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        limits = one_slot(name="ctrl-c", store=proxy.url)
        for body in (KeyError("mine"), None):
            with pytest.raises(KeyboardInterrupt) as raised:
                with limits.acquire(key="interrupted"):
                    ends.set()
                    if body is not None:
                        raise body
            assert raised.value.__context__ is body
            assert limits.try_acquire(key="interrupted")
        mutex = Mutex("ctrl-c-mutex", store=proxy.url, key="interrupted")
        with pytest.raises(KeyboardInterrupt), mutex:
            ends.set()
        assert mutex.available() == 1
    finally:
        signal.signal(signal.SIGINT, before)
        proxy.listening.close()


class Held:
    """Limits at a server to which nothing goes between `hold` and `go`: of this process, not of its parent."""

    def __init__(self, redis_url, name):
        self.is_free = threading.Event()
        self.go()
        self.limits = one_slot(name=name, store=Proxy(redis_url, lambda sent: self.is_free.wait()).url)

    def hold(self):
        self.is_free.clear()

    def go(self):
        self.is_free.set()

    def go_soon(self):
        threading.Timer(0.1, self.go).start()


@pytest.mark.parametrize("ends", ["release", "cancel", "leave"])
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_what_is_said_on_a_thread_waits_for_nothing_that_its_loop_awaits(redis_url, ends, is_cancelled):
    """Both waited for each other, for good."""

    async def main():
        held = Held(redis_url, f"in one loop-{ends}-{is_cancelled}")
        acquired = await held.limits.async_acquire()
        held.hold()
        renewal = asyncio.ensure_future(awaited(acquired.async_renew(60)))
        await asyncio.sleep(0)
        remaining = acquired.remaining
        with pytest.raises(RuntimeError, match="async_renew"):
            acquired.renew(60)
        with pytest.raises(RuntimeError, match="async_adjust"):
            acquired.adjust({"slots": 1})
        if is_cancelled:
            renewal.cancel()
        held.go_soon()
        if ends == "leave":
            acquired.__exit__(None, None, None)
        else:
            getattr(acquired, ends)()
        with contextlib.suppress(LeaseEnded, asyncio.CancelledError):
            await renewal
        with pytest.raises(LeaseEnded):
            acquired.renew(60)
        return remaining, bool(held.limits.try_acquire())

    assert in_child(lambda: asyncio.run(main())) == "({'slots': 0}, True)"


def test_an_end_that_is_cancelled_before_it_begins_can_be_said_again(redis_url):
    """Its lease was held for as long as somebody had the acquisition, which had ended."""

    async def main():
        held = Held(redis_url, "an end that is cancelled")
        acquired = await held.limits.async_acquire()
        held.hold()
        renewal = asyncio.ensure_future(awaited(acquired.async_renew(60)))
        await asyncio.sleep(0)
        end = asyncio.ensure_future(awaited(acquired.async_release()))
        await asyncio.sleep(0)
        end.cancel()
        await asyncio.wait([end])
        held.go()
        await renewal
        is_held = not held.limits.try_acquire()
        await acquired.async_release()
        return is_held, bool(held.limits.try_acquire()), repr(acquired)

    assert in_child(lambda: asyncio.run(main())).startswith("(True, True, '<Acquisition: ended")


def test_threads_of_a_forked_child_have_one_set_of_its_own():
    """Each opened one, and each had a slot."""
    limits = one_slot()

    def tries():
        granted, together = [], threading.Barrier(8)

        def one():
            together.wait()
            granted.append(limits.try_acquire())

        threads = [threading.Thread(target=one) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(map(bool, granted))

    assert {in_child(tries) for _ in range(50)} == {"1"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_a_balancer_raises_that_is_no_error_ends_the_verb(error):
    """It was an exception that was ignored, and whoever waited went on waiting."""

    def interrupted(loads, turn):
        raise error

    limits = one_slot()
    pool = LimitPool([limits], balancer=interrupted)
    for verb in (pool.acquire, pool.try_acquire, lambda: asyncio.run(awaited(pool.async_acquire()))):
        with pytest.raises(error):
            verb()
    with limits.acquire(timeout=0), pytest.raises(error):
        pool.acquire(timeout=None)
    assert limits.try_acquire()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_was_granted_when_a_balancer_raised_is_given_back_whole(error):
    """Its rates stayed charged, and nobody had it."""

    def interrupted(loads, turn):
        raise error

    limits = LimitSet([RateLimit("tokens", 100, "400 days"), ResourceLimit("slots", 1)])
    pool = LimitPool([limits], balancer=interrupted)
    requested = {"tokens": 40, "slots": 1}
    for verb in (
        lambda: pool.acquire(requested),
        lambda: pool.try_acquire(requested),
        lambda: asyncio.run(awaited(pool.async_acquire(requested))),
        lambda: asyncio.run(awaited(pool.async_try_acquire(requested))),
    ):
        with pytest.raises(error):
            verb()
        assert left(limits) == {"tokens": 100, "slots": 1}
    counted = limits.stats()
    assert counted["succeeded"] == counted["dropped"] == 0


def test_what_is_granted_when_ctrl_c_comes_is_given_back_whole():
    """It came between the grant and its caller, and the rates stayed charged."""
    limits = LimitSet([RateLimit("tokens", 100, "400 days"), ResourceLimit("slots", 1)])
    held = limits.acquire({"slots": 1})

    def interrupts():
        while limits.stats()["waiting"] < 1:
            time.sleep(0.001)
        # Both before the thread that waits has the interpreter again.
        signal.raise_signal(signal.SIGINT)
        held.release()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupts)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            limits.acquire({"tokens": 40, "slots": 1}, timeout=60)
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert left(limits) == {"tokens": 100, "slots": 1}


@pytest.mark.parametrize("ends", ["release", "cancel"])
def test_a_change_that_is_given_up_lets_go_of_what_was_ended_meanwhile(redis_url, ends):
    """Its member's load stayed for as long as somebody had the acquisition."""

    async def main():
        held, seen = Held(redis_url, f"ended meanwhile-{ends}"), []

        def balancer(loads, turn):
            seen.append(loads)
            return [0]

        pool = LimitPool([held.limits], balancer=balancer)
        acquired = await pool.async_acquire()
        held.hold()
        renewal = acquired.async_renew(60)
        asked = asyncio.ensure_future(awaited(renewal))
        await asyncio.sleep(0)
        held.go_soon()
        getattr(acquired, ends)()
        # As a task does that is cancelled before it goes on.
        renewal.close()
        asked.cancel()
        await asyncio.wait([asked])
        again = await pool.async_try_acquire()
        return seen, bool(again)

    assert in_child(lambda: asyncio.run(main())) == "([[0], [0]], True)"


@pytest.mark.parametrize("ends", ["async_cancel", "async_release"])
def test_an_end_that_is_given_up_after_it_was_said_goes_on(redis_url, ends):
    async def main():
        held = Held(redis_url, "unused")
        limits = LimitSet(
            [RateLimit("tokens", 100, "400 days"), ResourceLimit("slots", 1)],
            name=f"an end that goes on-{ends}",
            store=held.limits.store,
        )
        acquired = await limits.async_acquire({"tokens": 40, "slots": 1})
        acquired.update({"tokens": 10})
        held.hold()
        end = asyncio.ensure_future(awaited(getattr(acquired, ends)()))
        await asyncio.sleep(0.05)
        end.cancel()
        await asyncio.wait([end])
        held.go()
        while True:
            standing = {name: there["remaining"] for name, there in (await limits.async_peek()).items()}
            if standing["slots"] == 1:
                return standing["tokens"]

    assert in_child(lambda: asyncio.run(main())) == ("100" if ends == "async_cancel" else "90")


def test_an_end_that_is_not_awaited_is_none():
    async def main():
        limits = one_slot()
        held = await limits.async_acquire()
        held.async_release().close()
        assert not limits.try_acquire()
        await held.async_release()
        assert limits.try_acquire()

    asyncio.run(main())


@pytest.mark.parametrize("number", [-1, -0.5, float("nan"), float("inf"), True, "x", None])
def test_an_amount_of_an_infinite_limit_is_checked(number):
    limits = LimitSet([RateLimit("tokens", float("inf"), 1), ResourceLimit("slots", 1)])
    with pytest.raises(InvalidRequest, match="tokens"):
        limits.acquire({"tokens": number})
    with limits.acquire({"tokens": 10**30}) as acquired:
        acquired.update(usage={"tokens": 0.5})


def test_what_remained_is_told_also_after_the_end():
    limits = LimitSet([RateLimit("tokens", 100, "per_hour"), ResourceLimit("slots", 1)])
    with limits.acquire({"tokens": 10}) as acquired:
        pass
    assert acquired.remaining == {"tokens": 90, "slots": 0}
    with pytest.raises(LeaseEnded, match="acquire again"):
        acquired.renew(60)


async def awaited(awaitable):
    return await awaitable


def test_what_is_kept_alive_is_held_until_it_ends_and_what_is_not_until_its_ttl(redis_url):
    sets = {name: one_slot(name=name, store=redis_url) for name in ("waits", "tries", "awaits", "tries async")}
    sets.update({"memory": one_slot(), "pool": LimitPool([one_slot(name="of a pool", store=redis_url)])})
    words = dict(ttl=4, keep_alive=True)
    held = [
        sets["waits"].acquire(**words),
        sets["tries"].try_acquire(**words),
        asyncio.run(awaited(sets["awaits"].async_acquire(**words))),
        asyncio.run(awaited(sets["tries async"].async_try_acquire(**words))),
        sets["memory"].acquire(**words),
        sets["pool"].acquire(**words),
    ]
    left = one_slot(name="left", store=redis_url)
    _held = left.acquire(ttl=4)
    time.sleep(6)
    assert left.try_acquire()
    assert not any(limits.try_acquire() for limits in sets.values())
    for acquired in held:
        acquired.release()
    assert all(limits.try_acquire() for limits in sets.values())


def test_what_a_function_within_limits_holds_is_renewed_at_a_servers_store(redis_url):
    """Its slot was somebody else's after its ttl."""
    limits = LimitSet([ResourceLimit("slots", 2, ttl=4)], name="limited", store=redis_url)

    @limited(limits)
    def works():
        time.sleep(6)
        return limits.peek()["slots"]["remaining"]

    @limited(limits)
    async def works_async():
        await asyncio.sleep(6)
        return (await limits.async_peek())["slots"]["remaining"]

    assert (works(), asyncio.run(works_async())) == (1, 1)


def resident():
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grown(work, number):
    """By how many bytes this process has grown since the first fourth."""
    work(number // 4)
    gc.collect()
    before = resident()
    work(number)
    gc.collect()
    return resident() - before


def growths(works):
    """By how many bytes each of these makes a process grow."""
    told = in_child(lambda: [grown(work, number) for work, number in works()])
    return [int(number) for number in told.strip("[]").split(",")]


def test_memory_is_flat_over_many_acquisitions():
    """`cargo xtask bench python` has a row of a million."""
    # A leak of 64 bytes each would be 1.3 MB.
    assert max(growths(works_in_memory)) < 1_000_000


def test_memory_is_flat_over_acquisitions_of_a_shared_store(store_url):
    def works():
        shared = one_slot(name="flat", store=store_url)

        def shares(number):
            for _ in range(number):
                with shared.acquire(keep_alive=True):
                    pass

        yield shares, 2_000

    assert max(growths(works)) < 1_000_000


def works_in_memory():
    """So many acquisitions, of one kind each."""
    limits = LimitSet([RateLimit("tokens", 10**9, 1), ResourceLimit("slots", 2)])
    full, semaphore = one_slot(), Semaphore("flat", 2)
    held = full.acquire()

    def takes(number):
        for _ in range(number):
            with limits.acquire({"tokens": 3}) as acquired:
                acquired.update({"tokens": 2})

    async def takes_async(number):
        for _ in range(number):
            async with await limits.async_acquire({"tokens": 3}):
                pass

    def is_refused(number):
        for _ in range(number):
            assert held and not full.try_acquire()

    def holds(number):
        for _ in range(number):
            with semaphore:
                pass

    yield takes, 20_000
    yield lambda number: asyncio.run(takes_async(number)), 20_000
    yield is_refused, 20_000
    yield holds, 20_000


def test_an_end_asks_for_what_was_taken_last():
    limits = LimitSet([RateLimit("tokens", 1_000, "per_hour"), ResourceLimit("slots", 1)], strict_updates=True)
    more = limits.acquire({"tokens": 0})
    assert more.adjust({"tokens": 500}) and "tokens 500" in repr(more)
    with pytest.raises(UnreportedUsage):
        more.release()
    none = limits.acquire({"tokens": 5})
    assert none.adjust({"tokens": 0}) and not none.adjust({"tokens": 600})
    none.release()


def tokens_of_a_job():
    return LimitSet([RateLimit("tokens", 100, "per_hour", refund_on_failure=True)], strict_updates=True)


def test_a_generator_that_is_left_early_has_not_failed():
    """What had been used came back, as if nothing had been done."""
    limits = tokens_of_a_job()

    @limited(limits, {"tokens": 60})
    def numbers():
        yield from range(10)

    for _ in numbers():
        break
    stats = limits.stats()
    assert (limits.peek()["tokens"]["remaining"], stats["succeeded"], stats["dropped"]) == (40, 1, 0)
    with pytest.raises(ZeroDivisionError), tokens_of_a_job().acquire({"tokens": 60}):
        1 / 0


def test_an_async_generator_that_is_left_early_has_not_failed():
    limits = tokens_of_a_job()

    @limited(limits, {"tokens": 60})
    async def numbers():
        yield 1
        yield 2

    async def main():
        left = numbers()
        assert await left.asend(None) == 1
        await left.aclose()

    asyncio.run(main())
    assert limits.peek()["tokens"]["remaining"] == 40
