"""Semaphores, mutexes and decorators in one process."""

import asyncio
import contextlib
import threading
import uuid

import pytest

from tidegate import (
    AcquireTimeout,
    CallLimit,
    ImpossibleRequest,
    InvalidRequest,
    LimitSet,
    Lock,
    Mutex,
    ResourceLimit,
    Semaphore,
    limited,
)


def test_a_semaphore_has_so_many_slots_and_its_fences_grow():
    gpus = Semaphore("two gpus", 2)
    first, second = gpus.acquire(), gpus.acquire()
    assert first.fence < second.fence and first.is_held
    assert gpus.available() == 0
    assert gpus.try_acquire() is None
    with pytest.raises(AcquireTimeout):
        gpus.acquire(timeout=0.01)
    with pytest.raises(ImpossibleRequest):
        gpus.acquire(slots=3)
    first.release()
    first.release()
    assert not first.is_held and gpus.available() == 1
    second.release()
    with gpus.acquire(slots=2):
        assert gpus.available() == 0


def test_a_semaphore_tells_what_was_counted():
    gpus = Semaphore("counted gpus", 1)
    with gpus:
        assert gpus.try_acquire() is None
        with pytest.raises(AcquireTimeout):
            gpus.acquire(timeout=0.01)
    stats = Semaphore("counted gpus", 1).stats()
    assert (stats["admitted"], stats["refused"], stats["timed_out"], stats["waiting"]) == (1, 2, 1, 0)
    assert stats.keys() == LimitSet("1/day").stats().keys() - {"refusals"}
    assert Mutex("counted mutex").stats()["admitted"] == 0


def test_slots_and_places_in_a_queue_are_whole_numbers():
    for wrong in (-1, 0, 2**53, 2**64):
        with pytest.raises(InvalidRequest):
            Semaphore("gpu of a wrong number", wrong)
    for wrong in (-1, 2**64):
        with pytest.raises(InvalidRequest, match="max_waiting"):
            Semaphore("gpu of a wrong queue", 1, max_waiting=wrong)
        with pytest.raises(InvalidRequest, match="max_waiting"):
            LimitSet("1/day", max_waiting=wrong)
    gpus = Semaphore("gpu of wrong requests", 2)
    for wrong in (-1, 0, 2**64):
        for verb in (gpus.acquire, gpus.try_acquire):
            with pytest.raises(InvalidRequest):
                verb(slots=wrong)

    async def main():
        for wrong in (-1, 0, 2**64):
            for verb in (gpus.async_acquire, gpus.async_try_acquire):
                with pytest.raises(InvalidRequest):
                    await verb(slots=wrong)

    asyncio.run(main())
    assert gpus.available() == 2
    with pytest.raises(TypeError):
        gpus.acquire(slots="two")


def test_a_mutex_lets_in_one_thread_at_a_time():
    mutex, counted = Mutex("accounts"), [0]

    def work():
        for _ in range(200):
            with mutex:
                before = counted[0]
                counted[0] = before + 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted == [800]


def test_a_mutex_is_a_lock_under_the_name_of_other_libraries():
    assert Lock is Mutex
    with Lock("one of two names"):
        assert Mutex("one of two names").try_acquire() is None


def test_an_exception_passes_through_and_gives_the_slot_back():
    mutex = Mutex("accounts")
    with pytest.raises(KeyError), mutex:
        raise KeyError
    assert mutex.available() == 1


def test_a_mutex_is_awaited():
    async def main():
        mutex, counted = Mutex("accounts"), [0]

        async def work():
            async with mutex:
                before = counted[0]
                await asyncio.sleep(0)
                counted[0] = before + 1

        await asyncio.gather(*(work() for _ in range(100)))
        assert counted == [100]

    asyncio.run(main())


def test_who_has_a_larger_priority_gets_the_slot_before_who_came_earlier():
    async def main():
        gpus, order = Semaphore("urgent first", 1), []

        async def work(name, priority):
            async with await gpus.async_acquire(priority=priority):
                order.append(name)

        async with gpus:
            waiting = []
            for name, priority in (("early", 0), ("urgent", 255)):
                waiting.append(asyncio.create_task(work(name, priority)))
                await asyncio.sleep(0)  # It stands in the queue.
        await asyncio.gather(*waiting)
        assert order == ["urgent", "early"]

    asyncio.run(main())


def test_decorated_functions_hold_their_limits_while_they_run():
    limits = LimitSet([ResourceLimit("slots", 1), CallLimit(3, "per_hour")])

    @limited(limits, timeout=0, key=lambda user: user)
    def name(user):
        """Its words stay."""
        assert not limits.try_acquire(key=user)
        return user

    assert name("alice") == "alice" and name.__doc__ == "Its words stay."
    name("alice"), name("alice"), name("bob")
    with pytest.raises(AcquireTimeout):
        name("alice")


def test_decorated_generators_hold_theirs_to_their_end():
    limits = LimitSet([ResourceLimit("slots", 1)])

    @limited(limits, timeout=0)
    def count(most):
        got = yield from range(most)
        return got

    running = count(2)
    assert limits.try_acquire()
    assert next(running) == 0
    assert not limits.try_acquire()
    running.close()
    assert list(count(2)) == [0, 1]
    assert limits.try_acquire()


def test_decorated_coroutines_and_async_generators():
    limits = LimitSet([ResourceLimit("slots", 1)])

    @limited(limits, {"slots": 1})
    async def double(number):
        assert not limits.try_acquire()
        await asyncio.sleep(0)
        return 2 * number

    @limited(limits, lambda most: {"slots": 1})
    async def count(most):
        for number in range(most):
            yield number

    async def main():
        assert await asyncio.gather(*(double(number) for number in range(5))) == [0, 2, 4, 6, 8]
        async for number in count(3):
            assert not limits.try_acquire()
            break
        assert [number async for number in count(3)] == [0, 1, 2]

    asyncio.run(main())
    assert limits.try_acquire()


def test_one_name_in_a_process_is_one_mutex():
    inside, most, lock = [0], [0], threading.Lock()

    def work():
        for _ in range(50):
            with Mutex("one name"):
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                with lock:
                    inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    with pytest.raises(InvalidRequest):
        Semaphore("one name", 2)


def test_decorated_async_generators_are_sent_to_and_thrown_into():
    @limited(LimitSet([ResourceLimit("slots", 1)]))
    async def echo():
        sent = yield "first"
        try:
            sent = yield sent
        except KeyError:
            sent = "caught"
        yield sent

    async def main():
        running = echo()
        assert await running.asend(None) == "first"
        assert await running.asend("second") == "second"
        assert await running.athrow(KeyError()) == "caught"
        with pytest.raises(StopAsyncIteration):
            await running.asend(None)

    asyncio.run(main())


def test_what_cannot_be_limited_is_said_at_once():
    for wrong in ("10/minute", lambda: None, None):
        with pytest.raises(TypeError):
            limited(wrong)
    with pytest.raises(TypeError):
        limited(LimitSet("1/minute"))(property(lambda self: 1))
    calls_async = limited(LimitSet("1/minute"))(lambda: asyncio.sleep(0))
    with pytest.raises(TypeError, match="async def"):
        calls_async()


def test_semaphores_and_mutexes_are_the_same_in_any_store(any_store):
    name = f"any-{uuid.uuid4()}"
    gpus = Semaphore(name, 2, store=any_store)
    first, second = gpus.acquire(), gpus.acquire()
    assert 0 < first.fence < second.fence and first.is_held
    assert gpus.available() == 0 and gpus.try_acquire() is None
    assert Semaphore(name, 2, store=any_store, key="other").available() == 2
    with pytest.raises(ImpossibleRequest):
        gpus.acquire(slots=3)
    served = []
    thread = threading.Thread(target=lambda: served.append(gpus.acquire(timeout=60, slots=2)))
    thread.start()
    first.release()
    second.release()
    thread.join()
    assert served[0].fence > second.fence
    served[0].release()

    async def main():
        async with Mutex(f"{name}-mutex", store=any_store) as permit:
            assert permit.is_held
            assert await Mutex(f"{name}-mutex", store=any_store).async_try_acquire() is None
        assert not permit.is_held

    asyncio.run(main())


def test_semaphores_and_permits_show_what_they_are_and_errors_say_which():
    gpus = Semaphore("shown", 2, key="eu")
    assert repr(gpus) == "<Semaphore shown of eu: 2 slots in memory>"
    with gpus.acquire(slots=2) as permit:
        assert repr(permit) == f"<Permit of shown: held, fence {permit.fence}>"
        with pytest.raises(AcquireTimeout) as raised:
            gpus.acquire(timeout=0)
        assert raised.value.limit == "shown"
    assert repr(permit).startswith("<Permit of shown: ended")
    with pytest.raises(ImpossibleRequest) as raised:
        gpus.acquire(slots=3)
    assert (raised.value.limit, raised.value.capacity) == ("shown", 2)
    assert repr(Mutex("shown-mutex")) == "<Mutex shown-mutex: 1 slots in memory>"


def test_a_generator_that_another_thread_ends_gives_its_slot_back():
    gpus = Semaphore("gpu-of-generators", 2)
    permits = []

    def holds():
        with gpus as permit:
            permits.append(permit)
            yield

    first = holds()
    next(first)
    ends = threading.Thread(target=first.close)
    ends.start()
    ends.join()
    assert gpus.available() == 2 and not permits[0].is_held

    # Each gives back its own, also where the thread that ends one is within it itself.
    second = holds()
    thread = threading.Thread(target=next, args=(second,))
    thread.start()
    thread.join()
    with gpus as own:
        second.close()
        assert own.is_held and not permits[1].is_held
    assert gpus.available() == 2
    with contextlib.ExitStack() as stack:
        stack.enter_context(gpus)
    assert gpus.available() == 2
    with pytest.raises(RuntimeError, match="not entered"):
        gpus.__exit__(None, None, None)


def test_a_frame_that_has_the_number_of_one_that_is_gone_gives_back_its_own_slot():
    gpus = Semaphore("gpu-of-frames", 2)
    own, late = gpus.acquire(), gpus.acquire()
    # By the stack's frame, which is gone, and by a generator's that has its number.
    gpus._enter(own, (7, None))
    thread = threading.Thread(target=gpus._enter, args=(late, (7, None)))
    thread.start()
    thread.join()
    assert gpus._left((7, None)) is late
    assert gpus._left((7, None)) is own


def test_a_stack_that_a_third_thread_closes_ends_its_own_permit_and_no_other():
    gpus, permits = Semaphore("gpu-of-stacks", 3), []

    def in_a_thread(act):
        thread = threading.Thread(target=act)
        thread.start()
        thread.join()

    for is_moved in (False, True):
        stack = contextlib.ExitStack()
        in_a_thread(lambda: permits.append(stack.enter_context(gpus)))
        if is_moved:
            stack = stack.pop_all()
        with gpus as own:
            in_a_thread(stack.close)
            assert own.is_held and not permits[-1].is_held
        assert gpus.available() == 3


def test_an_object_that_enters_and_leaves_in_its_methods_ends_its_own_permit():
    gpus = Semaphore("gpu-of-objects", 3)

    class Device:
        def __enter__(self):
            self.permit = gpus.__enter__()

        def __exit__(self, *how):
            gpus.__exit__(*how)

        def open(self):
            self.permit = gpus.__enter__()

        def close(self):
            gpus.__exit__(None, None, None)

    first, second = Device(), Device()
    with first, second, gpus as own:
        first.__exit__(None, None, None)
        assert own.is_held and second.permit.is_held and not first.permit.is_held
        first.__enter__()
    first.open()
    with gpus as own:
        first.close()
        assert own.is_held and not first.permit.is_held
    assert gpus.available() == 3


def test_an_async_generator_that_another_task_ends_gives_its_slot_back():
    async def main():
        mutex = Mutex("of-async-generators")

        async def holds():
            async with mutex:
                yield

        held = holds()
        await asyncio.ensure_future(held.__anext__())
        assert mutex.available() == 0
        await asyncio.ensure_future(held.aclose())
        assert mutex.available() == 1

    asyncio.run(main())


def test_limited_stands_above_or_below_what_makes_a_method():
    limits = LimitSet(CallLimit(9, "per_hour", name="calls"))

    class Clock:
        @limited(limits, key=lambda number: "k")
        @staticmethod
        def twice(number):
            return 2 * number

        @limited(limits, key=lambda cls: "k")
        @classmethod
        def name(cls):
            return cls.__name__

        @staticmethod
        @limited(limits, key=lambda: "k")
        async def now():
            return 12

    assert (Clock.twice(2), Clock().twice(3), Clock.name(), Clock().name()) == (4, 6, "Clock", "Clock")
    assert asyncio.run(Clock.now()) == 12
    assert limits.peek(key="k")["calls"]["remaining"] == 4
    with pytest.raises(TypeError, match="@property above @limited"):
        limited(limits)(property(lambda self: 1))
