"""Semaphores and mutexes over any store."""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import Any, Optional

from . import _core
from ._core import Permit


#: What this task or thread has entered by ``with``, the last at the end.
_entered: ContextVar[tuple[tuple["Semaphore", Permit], ...]] = ContextVar("_entered", default=())


class Semaphore(_core.Slots):
    """``slots`` things that may be held at once, by threads, tasks and processes.

    Who waits is served in order of arrival. A permit is renewed in the background until it is
    released; a holder whose process dies gives its slot back within ``ttl`` seconds.

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
    """

    _slots: int
    _described: tuple[Any, ...]

    def __new__(
        cls,
        name: str,
        slots: int,
        *,
        store: Optional[str] = None,
        key: str = "default",
        ttl: Optional[float] = None,
        max_waiting: Optional[int] = None,
    ) -> "Semaphore":
        made = super().__new__(cls, name, slots, key=key, store=store, ttl=ttl, max_waiting=max_waiting)
        made._described = (name, slots, store, key, ttl, max_waiting)
        return made

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
        name, slots, store, key, ttl, max_waiting = self._described
        if store is None or store.startswith("memory:"):
            raise TypeError("a semaphore in memory is of one process; give it a store that processes share")
        return _again, (type(self), self._described)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._described[0]}: {self._described[1]} slots>"


class Mutex(Semaphore):
    """One holder at a time. As a ``Semaphore`` of one slot."""

    def __new__(
        cls,
        name: str,
        *,
        store: Optional[str] = None,
        key: str = "default",
        ttl: Optional[float] = None,
        max_waiting: Optional[int] = None,
    ) -> "Mutex":
        made = super().__new__(cls, name, 1, store=store, key=key, ttl=ttl, max_waiting=max_waiting)
        assert isinstance(made, Mutex)
        return made


def _again(cls: type[Semaphore], described: tuple[Any, ...]) -> Semaphore:
    name, slots, store, key, ttl, max_waiting = described
    if issubclass(cls, Mutex):
        return cls(name, store=store, key=key, ttl=ttl, max_waiting=max_waiting)
    return cls(name, slots, store=store, key=key, ttl=ttl, max_waiting=max_waiting)
