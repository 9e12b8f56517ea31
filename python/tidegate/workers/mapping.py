"""A function over items, within limits."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections import deque
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sized,
)
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from typing import Any, Literal, Optional, TypeVar, Union, overload

from ..limits import Number
from .crew import Crew
from .given import Given, Unlimited, pool
from .granted import Called, Caller, Granted
from .handle import workers_of
from .outcome import Outcome
from .plan import Attempts, Plan
from .retry import Retry
from .seats import Seat, seat

_T = TypeVar("_T")
_Requested = Union[Mapping[str, Number], Callable[[Any], Mapping[str, Number]], None]
_Key = Union[str, Callable[[Any], str]]


@overload
def map(
    fn: Callable[[_T], Awaitable[Any]],
    items: Union[Iterable[_T], AsyncIterable[_T]],
    *,
    mode: Literal["asyncio"],
    max_workers: Optional[int] = None,
    limits: Given = None,
    requested: _Requested = None,
    key: _Key = "default",
    timeout: Optional[float] = None,
    priority: int = 0,
    ttl: Optional[float] = None,
    retries: Union[int, Retry] = 0,
    on_error: Literal["raise", "return"] = "raise",
    max_in_flight: Optional[int] = None,
    progress: bool = False,
    on_demand: Literal[True] = True,
) -> AsyncIterator[Any]: ...


@overload
def map(
    fn: Callable[[_T], Any],
    items: Iterable[_T],
    *,
    mode: Literal["thread", "process", "ray"] = "thread",
    max_workers: Optional[int] = None,
    limits: Given = None,
    requested: _Requested = None,
    key: _Key = "default",
    timeout: Optional[float] = None,
    priority: int = 0,
    ttl: Optional[float] = None,
    retries: Union[int, Retry] = 0,
    on_error: Literal["raise", "return"] = "raise",
    max_in_flight: Optional[int] = None,
    progress: bool = False,
    on_demand: bool = False,
    mp_context: Optional[BaseContext] = None,
    ray_options: Optional[Mapping[str, Any]] = None,
) -> Iterator[Any]: ...


def map(
    fn: Callable[[Any], Any],
    items: Any,
    *,
    mode: str = "thread",
    max_workers: Optional[int] = None,
    limits: Given = None,
    requested: _Requested = None,
    key: _Key = "default",
    timeout: Optional[float] = None,
    priority: int = 0,
    ttl: Optional[float] = None,
    retries: Union[int, Retry] = 0,
    on_error: str = "raise",
    max_in_flight: Optional[int] = None,
    progress: bool = False,
    on_demand: bool = False,
    mp_context: Optional[BaseContext] = None,
    ray_options: Optional[Mapping[str, Any]] = None,
) -> Any:
    """``fn(item)`` for each item, within ``limits``; yields what it answers in the order of the items.

    >>> from tidegate import workers
    >>> list(workers.map(len, ["a", "bb", "ccc"], max_workers=2, limits="100/minute"))
    [1, 2, 3]

    The limits are taken in this process, whatever the mode, before each attempt, and given back
    at its end. Work begins with the first ``next``; items are taken from ``items`` by the caller's
    thread, and never more than ``max_in_flight`` are begun and not yet yielded. While that thread
    waits for the next item, results wait, too; in an event loop they do not. If ``items`` raises, what
    came before is yielded first.

    A loop that ends early (by an error, ``break`` or Ctrl-C) begins no further item; attempts that
    run are cancelled (asyncio), ended (processes, Ray) or waited for (threads, which nobody can end).

    :param fn: a function; a coroutine function for ``mode="asyncio"``, which gives an async iterator.
    :param mode: ``"thread"``, ``"asyncio"``, ``"process"`` or ``"ray"``, as of ``workers.start``, as
        are ``max_workers``, ``limits``, ``on_demand`` (in an event loop, where an item is a task, it
        is always so), ``mp_context`` and ``ray_options``.
    :param requested: amounts by limit, or a function of the item that says them.
    :param key: whose limits, or a function of the item.
    :param timeout: seconds that an attempt waits for its limits; ``None``: as long as it takes.
    :param priority: 0 to 255; an item counts as having come so many seconds earlier.
    :param ttl: seconds within which what an attempt holds comes back if this process is killed, as of
        ``acquire``. It is renewed until the attempt ends.
    :param retries: how many more attempts an item has whose ``fn`` raised, or a ``Retry``. What the
        limits say is not tried again.
    :param on_error: ``"raise"``: an item that failed raises when its turn comes. ``"return"``: its
        error is yielded in its place.
    :param max_in_flight: how many items are begun and not yet yielded, 1 or more; default: twice
        ``max_workers``.
    :param progress: a bar on standard error, by ``tqdm``.
    :raises ModuleNotFoundError: ``progress`` without ``tqdm``.
    """
    number = workers_of(mode, max_workers, mp_context, ray_options)
    if on_error not in ("raise", "return"):
        raise ValueError(f"on_error is 'raise' or 'return', not {on_error!r}")
    if max_in_flight is not None and max_in_flight < 1:
        raise ValueError(f"max_in_flight is at least 1, not {max_in_flight}")
    made = pool(limits)
    plan = Plan(
        limits=made,
        requested=requested,
        key=key,
        timeout=timeout,
        priority=priority,
        ttl=ttl,
        retry=retries if isinstance(retries, Retry) else Retry(retries),
        max_workers=number,
    )
    bars = _bars(items) if progress else _NoBar
    shown = _Shown(max_in_flight or 2 * number, on_error == "return", bars)
    if mode == "asyncio":
        return _map_async(plan, fn, _each(items), shown)

    def sit(index: int) -> Seat:
        return seat(mode, (Caller, (fn,), {}, Unlimited(), index), mp_context, ray_options)

    return _map(plan, Crew(sit, number, 2 * number), on_demand, iter(items), shown)


class _NoBar:
    def update(self) -> Any: ...
    def close(self) -> Any: ...


def _bars(items: Any) -> Callable[[], Any]:
    """What makes a progress bar."""
    try:
        tqdm = importlib.import_module("tqdm")
    except ModuleNotFoundError:
        raise ModuleNotFoundError("progress=True draws its bar by tqdm: pip install tqdm") from None
    total = len(items) if isinstance(items, Sized) else None
    return lambda: tqdm.tqdm(total=total)


@dataclass(frozen=True)
class _Shown:
    """How results come out."""

    max_in_flight: int
    is_returned: bool
    bars: Callable[[], Any]

    def told(self, outcome: Outcome) -> Any:
        if self.is_returned and isinstance(outcome.error, Exception):
            return outcome.told()
        return outcome.get()


def _map(plan: Plan, crew: Crew, on_demand: bool, items: Iterator[Any], shown: _Shown) -> Iterator[Any]:
    bar, is_done, is_more = shown.bars(), False, True
    failure: Optional[Exception] = None
    driver = _Driver(plan, crew, on_demand)
    flying: deque[Future[Outcome]] = deque()
    try:
        while True:
            while is_more and len(flying) < shown.max_in_flight:
                try:
                    item = next(items)
                except StopIteration:
                    is_more = False
                    break
                except Exception as error:  # What came before it has a result.
                    is_more, failure = False, error
                    break
                flying.append(driver.begin(item))
                if flying[0].done():
                    break
            if not flying:
                break
            outcome = flying.popleft().result()
            bar.update()
            yield shown.told(outcome)
        if failure is not None:
            raise failure
        is_done = True
    finally:
        bar.close()
        driver.close(is_early=not is_done)


class _Driver:
    """An event loop in a thread, in which items wait for limits and for workers."""

    def __init__(self, plan: Plan, crew: Crew, on_demand: bool) -> None:
        self._crew = crew
        if not on_demand:
            crew.begin_all()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tidegate-map", daemon=True)
        self._thread.start()
        self._attempts = asyncio.run_coroutine_threadsafe(self._begin(plan), self._loop).result()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    async def _begin(self, plan: Plan) -> Attempts:
        return Attempts(plan, self._call)

    def begin(self, item: Any) -> "Future[Outcome]":
        return asyncio.run_coroutine_threadsafe(self._attempts.run(item), self._loop)

    async def _call(self, item: Any, granted: Granted) -> Called:
        try:
            future = asyncio.wrap_future(self._crew.submit("run", (item, granted), {}))
        except RuntimeError as error:  # It ends.
            return Outcome(error=error), {}
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            # Until it has ended, it holds what it was granted.
            await asyncio.wait([future])
            future.exception()
            raise
        failure = future.exception()
        if failure is not None:
            return Outcome(error=failure), {}
        called: Called = future.result()
        return called

    def close(self, is_early: bool) -> None:
        ended = asyncio.run_coroutine_threadsafe(self._cancel(), self._loop)
        self._crew.stop(is_early)
        ended.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _cancel(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _each(items: Any) -> AsyncIterator[Any]:
    """Items of either kind of iterable."""
    if hasattr(items, "__aiter__"):
        each: AsyncIterator[Any] = items.__aiter__()
        return each
    return _each_of(iter(items))


async def _each_of(items: Iterator[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


async def _map_async(
    plan: Plan, fn: Callable[[Any], Any], items: AsyncIterator[Any], shown: _Shown
) -> AsyncIterator[Any]:
    bar, caller = shown.bars(), Caller(fn)
    attempts = Attempts(plan, caller.run_here)
    reader = _Reader(items, attempts.run, shown.max_in_flight)
    reading = asyncio.ensure_future(reader.run())
    try:
        while True:
            task = await reader.begun.get()
            if task is None:
                break
            # A cancellation is of the map, and not of the item that it waits for.
            await asyncio.wait([task])
            reader.took(task)
            bar.update()
            yield shown.told(task.result())
        await reading
    finally:
        bar.close()
        caller.is_ended = True
        tasks: list[asyncio.Task[Any]] = [reading, *reader.flying]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Reader:
    """Takes items, in one task, and begins them."""

    def __init__(
        self, items: AsyncIterator[Any], run: Callable[[Any], Coroutine[Any, Any, Outcome]], most: int
    ) -> None:
        self._items, self._run, self._room = items, run, asyncio.Semaphore(most)
        #: In the order of the items; ``None`` at the end. Never more than there is room for.
        self.begun: asyncio.Queue[Optional[asyncio.Task[Outcome]]] = asyncio.Queue()
        self.flying: set[asyncio.Task[Outcome]] = set()

    async def run(self) -> None:
        """Ends with the items.

        :raises BaseException: what they raise.
        """
        try:
            while True:
                await self._room.acquire()
                try:
                    item = await self._items.__anext__()
                except StopAsyncIteration:
                    return
                task = asyncio.ensure_future(self._run(item))
                self.flying.add(task)
                self.begun.put_nowait(task)
        finally:
            self.begun.put_nowait(None)

    def took(self, task: "asyncio.Task[Outcome]") -> None:
        self.flying.discard(task)
        self._room.release()
