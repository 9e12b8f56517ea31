"""Workers in an event loop: a call is a task."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, Optional

from ..errors import QueueFull
from .seats import Here


class AsyncWorkers:
    """The handle of workers in the event loop that runs: their coroutine methods, each of which
    gives a task. A task that is cancelled ends its call.

    As ``Workers`` otherwise, with ``async with`` and ``await stop()``.
    """

    def __init__(self, sit: Callable[[int], Here], worker: Any, max_workers: int, max_waiting: int) -> None:
        self._sit, self._worker, self._most = sit, worker, max_workers + max_waiting
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(max_workers)
        self._free = list(range(max_workers))
        self._seats: dict[int, Here] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_stopped = False

    def _begin_all(self) -> None:
        self._seats = {index: self._sit(index) for index in self._free}

    def __getattr__(self, name: str) -> Callable[..., "asyncio.Task[Any]"]:
        if name.startswith("_") or not callable(getattr(self._worker, name, None)):
            raise AttributeError(f"{self._worker!r} has no method {name!r}")
        return lambda *arguments, **named: self._submit(name, arguments, named)

    def _submit(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> "asyncio.Task[Any]":
        if self._is_stopped:
            raise RuntimeError("the workers were stopped")
        if len(self._tasks) >= self._most:
            raise QueueFull(f"{self._most} calls run or wait; await some, or say a larger max_waiting")
        task = self._loop.create_task(self._call(name, arguments, named))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _call(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        async with self._room:
            index = min(self._free)
            self._free.remove(index)
            try:
                if index not in self._seats:
                    self._seats[index] = self._sit(index)
                answer = self._seats[index].call(name, arguments, named)
                if not inspect.isawaitable(answer):
                    raise TypeError(f"{name} is no coroutine: mode='asyncio' runs async def; see mode='thread'")
                return await answer
            finally:
                self._free.append(index)

    async def stop(self, *, cancel_futures: bool = False) -> None:
        """Ends when all calls have; ``cancel_futures`` cancels them."""
        self._is_stopped = True
        tasks = list(self._tasks)
        if cancel_futures:
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def __aenter__(self) -> "AsyncWorkers":
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.stop(cancel_futures=kind is not None)
