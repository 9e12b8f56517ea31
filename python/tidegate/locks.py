"""Semaphores and mutexes over any store."""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import Any, Optional

from . import _core, _opened
from ._core import ManualClock, Permit


#: What this task or thread has entered by ``with``, the last at the end.
_entered: ContextVar[tuple[tuple["Semaphore", Permit], ...]] = ContextVar("_entered", default=())


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

    def __enter__(self) -> Permit:
        permit = self.acquire()
        _entered.set((*_entered.get(), (self, permit)))
        return permit

    def _left(self) -> Permit:
        """The permit that this task or thread entered last."""
        entered = _entered.get()
        for position in range(len(entered) - 1, -1, -1):
            if entered[position][0] is self:
                _entered.set(entered[:position] + entered[position + 1 :])
                return entered[position][1]
        raise RuntimeError("it was entered by another thread or task")

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._left().__exit__(kind, error, traceback)

    async def __aenter__(self) -> Permit:
        permit = await self.async_acquire()
        _entered.set((*_entered.get(), (self, permit)))
        return permit

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self._left().__aexit__(kind, error, traceback)

    def __reduce__(self) -> Any:
        if _opened.is_of_one_process(self.store):
            raise TypeError("a semaphore in memory is of one process; give it a store that processes share")
        return _opened.unopened, (type(self),), self.__dict__

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
