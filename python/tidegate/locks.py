"""Semaphores and mutexes over any store."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Coroutine
from types import CodeType, FrameType, TracebackType
from typing import Any, Optional

from . import _core, _opened
from ._core import ManualClock, Permit

#: Who calls from a function of one of these names holds on behalf of its object: an ``ExitStack``,
#: or a class that enters and leaves in its own methods of these names.
_OF_AN_OBJECT = frozenset(
    ("__enter__", "__exit__", "__aenter__", "__aexit__", "enter_context", "enter_async_context")
)

_SUSPENDED = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


class _Entry:
    """A permit that was entered, and by whom: a frame of this code, or an object (of no code)."""

    __slots__ = ("permit", "who", "code", "thread")

    def __init__(self, permit: Permit, who: int, code: Optional[CodeType]) -> None:
        self.permit, self.who, self.code, self.thread = permit, who, code, threading.get_ident()

    def may_be_left_elsewhere(self, here: set[tuple[int, Optional[CodeType]]]) -> bool:
        """Whether no function that is being run has a ``with`` for it."""
        return (self.who, self.code) not in here

    def rank(self) -> tuple[bool, bool]:
        """A generator or coroutine leaves by itself, most likely; others more likely in this thread."""
        is_suspended = self.code is not None and self.code.co_flags & _SUSPENDED != 0
        return is_suspended, self.thread != threading.get_ident()


def _caller(frame: FrameType, semaphore: Any) -> tuple[int, Optional[CodeType]]:
    """Who enters or leaves in a frame: itself, or the object whose method it is."""
    while (code := frame.f_code).co_name in _OF_AN_OBJECT and code.co_argcount:
        owner = frame.f_locals.get(code.co_varnames[0])
        if owner is not semaphore:
            return id(owner), None
        # A class that is derived from it calls it.
        if frame.f_back is None:
            break
        frame = frame.f_back
    return id(frame), code


def _running() -> set[tuple[int, Optional[CodeType]]]:
    """The frames of all functions that are being run."""
    running: set[tuple[int, Optional[CodeType]]] = set()
    for top in sys._current_frames().values():
        frame: Optional[FrameType] = top
        while frame is not None:
            running.add((id(frame), frame.f_code))
            frame = frame.f_back
    return running


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
    :param slots: 1 to 2^53 - 1.
    :param ttl: seconds (0.001 to 34,560,000) after which a holder that was not heard of has lost its
        slots; default: 30, and without a store or in ``memory:`` never.
    :param max_waiting: how many may wait at once in this process; default: 10,000.
    :param clock: without a ``store``: what it takes the time from, for tests.
    :raises InvalidRequest: ``slots``, ``ttl`` or ``max_waiting`` out of range; in this process the
        name has another number of slots; 10,000 names are open in this process; a clock and a store.
    :raises ValueError: a ``store`` that is no URL of a store.
    :raises StoreUnavailable: the store cannot be reached, or is a file that another process has open.
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
        return self._enter(self.acquire(), _caller(sys._getframe(1), self))

    def _enter(self, permit: Permit, caller: tuple[int, Optional[CodeType]]) -> Permit:
        self._inside.append(_Entry(permit, *caller))
        return permit

    def _left(self, caller: tuple[int, Optional[CodeType]]) -> Permit:
        """The permit that was entered by the same frame or object.

        A generator or a coroutine may be ended by another thread or task than entered it.
        """
        while True:
            entry = self._last(caller)
            try:
                self._inside.remove(entry)
            except ValueError:  # Another thread was faster.
                continue
            return entry.permit

    def _last(self, caller: tuple[int, Optional[CodeType]]) -> _Entry:
        # A frame that is gone may lend its number to a later one: the newest entry is of that.
        for entry in reversed(self._inside):
            if entry.who == caller[0]:
                return entry
        # Entered in one function and left in another: nobody's whose ``with`` goes on.
        running = _running()
        inside = [entry for entry in reversed(self._inside) if entry.may_be_left_elsewhere(running)]
        if not inside:
            raise RuntimeError("it was not entered")
        return min(inside, key=_Entry.rank)

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._left(_caller(sys._getframe(1), self)).__exit__(kind, error, traceback)

    def __aenter__(self) -> Coroutine[Any, Any, Permit]:
        return self._async_enter(_caller(sys._getframe(1), self))

    async def _async_enter(self, caller: tuple[int, Optional[CodeType]]) -> Permit:
        return self._enter(await self.async_acquire(), caller)

    def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> Coroutine[Any, Any, None]:
        return self._async_leave(_caller(sys._getframe(1), self), kind, error, traceback)

    async def _async_leave(self, caller: tuple[int, Optional[CodeType]], *how: Any) -> None:
        await self._left(caller).__aexit__(*how)

    def __reduce__(self) -> Any:
        _opened.check_portable("a semaphore", self.store)
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


#: The name that other libraries give it.
Lock = Mutex
