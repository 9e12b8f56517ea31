"""Semaphores and mutexes over any store."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Optional

from . import _core, _opened
from ._core import ManualClock, Permit


class _Entry:
    """A permit that a ``with`` has taken, and the frame of that ``with``."""

    def __init__(self, semaphore: "Semaphore", permit: Permit, frame: int) -> None:
        self.semaphore, self.permit, self.frame, self.is_left = semaphore, permit, frame, False


#: What this task or thread has entered by ``with``, the last at the end.
_entered: ContextVar[tuple[_Entry, ...]] = ContextVar("_entered", default=())


class Semaphore(_core.Slots):
    """``slots`` things that may be held at once, by threads, tasks and processes.

    Requests that wait are served in order of arrival. A permit is renewed in the background until
    it is released; a holder whose process dies gives its slot back within ``ttl`` seconds.

    >>> from tidegate import Semaphore
    >>> gpus = Semaphore("gpu", 2)
    >>> with gpus.acquire(timeout=5) as permit:
    ...     permit.is_held
    True

    :param name: what it is called in its store: the same name at the same store is the same
        semaphore.
    :param store: as of a ``LimitSet``; ``None`` for this process's memory, where the same name
        is the same semaphore, too.
    :param key: which of many semaphores of this name.
    :param ttl: seconds after which a holder that was not heard of has lost its slots: 30 unless
        said, in memory never.
    :param max_waiting: how many may wait at once in this process; 10,000 unless said.
    :param clock: in memory: what it takes the time from, for tests.
    :raises InvalidRequest: no slots; in this process the name has another number of them.
    :raises StoreUnavailable: the store cannot be reached.
    """

    name: str
    slots: int
    key: str
    store: Optional[str]
    _words: dict[str, Any]
    #: What was entered by any thread or task, and not left.
    _inside: list[_Entry]

    def __init__(
        self,
        name: str,
        slots: int,
        *,
        store: Optional[str] = None,
        key: str = "default",
        ttl: Optional[float] = None,
        max_waiting: Optional[int] = None,
        clock: Optional[ManualClock] = None,
    ) -> None:
        _opened.check_clock(clock, store)
        super().__init__(name, slots, key=key, store=store, ttl=ttl, max_waiting=max_waiting, clock=clock)
        self.name, self.slots, self.key, self.store = name, slots, key, store
        self._words = dict(store=store, key=key, ttl=ttl, max_waiting=max_waiting)
        self._inside = []

    def __enter__(self) -> Permit:
        return self._enter(self.acquire(), id(sys._getframe(1)))

    def _enter(self, permit: Permit, frame: int) -> Permit:
        entry = _Entry(self, permit, frame)
        self._inside.append(entry)
        _entered.set((*(entry for entry in _entered.get() if not entry.is_left), entry))
        return permit

    def _left(self, frame: int) -> Permit:
        """The permit that the ``with`` of this frame took.

        A generator or a coroutine may be ended by another thread or task than entered it. An
        ``ExitStack`` enters by a frame of its own: of that it is what the thread entered last.
        """
        while True:
            entry = self._last(frame)
            try:
                self._inside.remove(entry)
            except ValueError:  # Another thread was faster.
                continue
            entry.is_left = True
            _entered.set(tuple(entry for entry in _entered.get() if not entry.is_left))
            return entry.permit

    def _last(self, frame: int) -> _Entry:
        inside = list(reversed(self._inside))
        own = [entry for entry in reversed(_entered.get()) if entry.semaphore is self and not entry.is_left]
        # A frame that is gone may lend its number to a later one: the newest entry is of that.
        here = [entry for entry in inside if entry.frame == frame]
        for entry in [*here, *own, *inside]:
            return entry
        raise RuntimeError("it was not entered")

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._left(id(sys._getframe(1))).__exit__(kind, error, traceback)

    def __aenter__(self) -> Coroutine[Any, Any, Permit]:
        return self._async_enter(id(sys._getframe(1)))

    async def _async_enter(self, frame: int) -> Permit:
        return self._enter(await self.async_acquire(), frame)

    def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> Coroutine[Any, Any, None]:
        return self._async_leave(id(sys._getframe(1)), kind, error, traceback)

    async def _async_leave(self, frame: int, *how: Any) -> None:
        await self._left(frame).__aexit__(*how)

    def __reduce__(self) -> Any:
        if _opened.is_of_one_process(self.store):
            raise TypeError("a semaphore in memory is of one process; give it a store that processes share")
        state = {name: value for name, value in self.__dict__.items() if name != "_inside"}
        return _opened.unopened, (type(self),), state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        Semaphore.__init__(self, self.name, self.slots, **self._words)

    def __repr__(self) -> str:
        key = "" if self.key == "default" else f" of {self.key}"
        return f"<{type(self).__name__} {self.name}{key}: {self.slots} slots in {_opened.scheme(self.store)}>"


class Mutex(Semaphore):
    """One holder at a time: a ``Semaphore`` of one slot.

    :param name: as of a ``Semaphore``, and so are the others.
    """

    def __init__(
        self,
        name: str,
        *,
        store: Optional[str] = None,
        key: str = "default",
        ttl: Optional[float] = None,
        max_waiting: Optional[int] = None,
        clock: Optional[ManualClock] = None,
    ) -> None:
        super().__init__(name, 1, store=store, key=key, ttl=ttl, max_waiting=max_waiting, clock=clock)
