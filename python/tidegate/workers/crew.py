"""Threads that take calls in order of arrival, each with a worker in its seat."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Optional

from ..errors import QueueFull
from .seats import Seat


class _Call:
    def __init__(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.future: Future[Any] = Future()
        self.name, self.arguments, self.named = name, arguments, named


class Crew:
    """What the threads and the handle share."""

    def __init__(self, sit: Callable[[int], Seat], max_workers: int, max_waiting: int) -> None:
        self._sit, self._max_workers, self._max_waiting = sit, max_workers, max_waiting
        self._changed = threading.Condition()
        self._waiting: deque[_Call] = deque()
        self._threads: list[threading.Thread] = []
        self._seats: dict[int, Seat] = {}
        self._idle = 0
        self._busy = 0
        self._working = 0
        self._is_stopped = False
        self._is_ended = False

    def begin_all(self) -> None:
        """Starts every worker now.

        :raises BaseException: what the first of them raised that could not begin.
        """
        begun: list[Future[None]] = [Future() for _ in range(self._max_workers)]
        try:
            with self._changed:
                for future in begun:
                    self._begin(future)
            for future in begun:
                future.result()
        except BaseException:
            self.stop(True)
            raise

    def _begin(self, begun: Optional[Future[None]] = None) -> None:
        index = len(self._threads)
        thread = threading.Thread(
            target=self._work, args=(index, begun), name=f"tidegate-worker-{index}", daemon=True
        )
        # It waits until `_changed` is free.
        thread.start()
        if not self._threads:
            # Runs before `multiprocessing` waits for its processes: that was registered earlier.
            atexit.register(self.stop)
        self._threads.append(thread)
        self._working += 1

    def submit(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Future[Any]:
        call = _Call(name, arguments, named)
        with self._changed:
            if self._is_stopped:
                raise RuntimeError("the workers were stopped")
            if len(self._waiting) + self._busy >= self._max_workers + self._max_waiting:
                raise QueueFull(f"{self._max_waiting} calls wait for a worker; wait for some, or say a larger max_waiting")
            self._waiting.append(call)
            if len(self._waiting) > self._idle and len(self._threads) < self._max_workers:
                try:
                    self._begin()
                except BaseException:  # No thread can be started: the caller is told.
                    self._waiting.remove(call)
                    raise
            self._changed.notify()
        return call.future

    def stop(self, at_once: bool = False) -> None:
        """Ends when all threads have. ``at_once``: calls that wait are cancelled, and those that
        run are ended where they can be."""
        self.take_no_more()
        threads = self._threads + (self._end() if at_once else [])
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def take_no_more(self) -> None:
        """The threads end when they have done what waits; nobody waits for them."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
            if not self._working:
                atexit.unregister(self.stop)

    def _end(self) -> list[threading.Thread]:
        with self._changed:
            self._is_ended = True
            dropped, seats = list(self._waiting), list(self._seats.values())
            self._waiting.clear()
        for call in dropped:
            call.future.cancel()
        threads = []
        for seat in seats:
            thread = threading.Thread(target=seat.end, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # No thread can be started: one after the other.
                seat.end()
            else:
                threads.append(thread)
        return threads

    def _take(self) -> Optional[_Call]:
        with self._changed:
            self._idle += 1
            try:
                while not self._waiting:
                    if self._is_stopped:
                        return None
                    self._changed.wait()
                self._busy += 1
                return self._waiting.popleft()
            finally:
                self._idle -= 1

    def _seat(self, index: int) -> Seat:
        seat = self._seats.get(index) or self._sit(index)
        with self._changed:
            self._seats[index] = seat
            is_ended = self._is_ended
        if is_ended:
            seat.end()
        return seat

    def _work(self, index: int, begun: Optional[Future[None]]) -> None:
        try:
            self._work_on(index, begun)
        finally:
            with self._changed:
                self._working -= 1
                if self._is_stopped and not self._working:
                    atexit.unregister(self.stop)

    def _work_on(self, index: int, begun: Optional[Future[None]]) -> None:
        if begun is not None:
            try:
                self._seat(index)
            except BaseException as error:
                begun.set_exception(error)
                return
            begun.set_result(None)
        call = self._take()
        while call is not None:
            if call.future.set_running_or_notify_cancel():
                self._do(index, call)
            else:
                self._done()
            call = self._take()
        seat = self._seats.get(index)
        if seat is not None:
            seat.close()

    def _do(self, index: int, call: _Call) -> None:
        seat = None
        try:
            seat = self._seat(index)
            answer = seat.call(call.name, call.arguments, call.named)
        except BaseException as error:
            if seat is not None and seat.is_gone:
                with self._changed:
                    self._seats.pop(index, None)
            self._done()
            call.future.set_exception(error)
        else:
            self._done()
            call.future.set_result(answer)

    def _done(self) -> None:
        """Before the caller is told: the next call that it submits then has room."""
        with self._changed:
            self._busy -= 1


class Workers:
    """The handle of workers on threads, in processes or in Ray: their methods, each of which
    gives a ``concurrent.futures.Future``.

    A ``with`` ends when all calls are done; if its body raises, calls that wait are cancelled, and
    those that run are ended where they can be.
    """

    def __init__(self, crew: Crew, worker: Any) -> None:
        self._crew, self._worker = crew, worker
        # A handle that nobody has takes no more calls.
        self._forgotten = weakref.finalize(self, crew.take_no_more)

    def __getattr__(self, name: str) -> Callable[..., Future[Any]]:
        if name.startswith("_") or not callable(getattr(self._worker, name, None)):
            raise AttributeError(f"{self._worker!r} has no method {name!r}")
        return lambda *arguments, **named: self._crew.submit(name, arguments, named)

    def stop(self, *, cancel_futures: bool = False) -> None:
        """Ends when all calls are done, and the workers with them. ``cancel_futures``: calls that
        wait are cancelled; those that run in a process or in Ray are ended, too."""
        self._forgotten.detach()
        self._crew.stop(cancel_futures)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.stop(cancel_futures=kind is not None)
