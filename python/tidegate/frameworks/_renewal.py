"""What is held at a server's store, renewed while it is needed."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Iterable
from typing import Optional

from .._core import Acquisition
from ..errors import LeaseEnded, StoreUnavailable
from ..limits import ResourceLimit
from ..sets import LimitSet

#: How long a server's store lets things be held that are not renewed, in seconds.
_TTL = 120.0

#: For how long the thread waits for something to renew before it ends, in seconds.
_IDLE = 10.0


def lifetime(sets: Iterable[LimitSet], ttl: Optional[float] = None) -> Optional[float]:
    """How many seconds the stores let things be held: ``None`` for as long as this process.

    :param ttl: what an acquisition says of it.
    """
    # What is taken together ends together: at the shortest of them.
    said = [] if ttl is None else [ttl]
    for limits in sets:
        held = [limit.ttl for limit in limits.limits if isinstance(limit, ResourceLimit)]
        is_near = limits.store is None or limits.store.startswith(("memory:", "shm:"))
        said += [of_limit for of_limit in held if of_limit is not None]
        if None in held and not is_near and ttl is None:
            said.append(_TTL)
    return min(said, default=None)


async def renewed(acquired: Acquisition, ttl: float) -> None:
    """Renews it in time, until it has ended or the task is cancelled."""
    while True:
        await asyncio.sleep(ttl / 3)
        try:
            await acquired.async_renew(ttl)
        except StoreUnavailable:
            continue
        except LeaseEnded:
            return


def leave(acquired: Acquisition, error: Optional[BaseException] = None) -> None:
    """Ends it. What a store cannot be told it finds out by itself: at the end of the ttl.
    What it has forgotten since then has ended, too."""
    with contextlib.suppress(StoreUnavailable, LeaseEnded):
        acquired.__exit__(None if error is None else type(error), error, None)


async def async_leave(acquired: Acquisition, error: Optional[BaseException] = None) -> None:
    """The same in an event loop."""
    with contextlib.suppress(StoreUnavailable, LeaseEnded):
        await acquired.__aexit__(None if error is None else type(error), error, None)


class Held:
    """An acquisition that a thread renews until it is left, or nobody knows of it any more."""

    def __init__(self, acquired: Acquisition, ttl: Optional[float]) -> None:
        self._acquired = acquired
        self._ttl = ttl
        if ttl is not None:
            _renewals.begin(self, ttl / 3)

    def leave(self, error: Optional[BaseException] = None) -> None:
        """Ends it; after that it does nothing."""
        _renewals.end(self)
        leave(self._acquired, error)

    def renew(self) -> Optional[float]:
        """In how many seconds it is to be renewed again; ``None`` if it has ended."""
        assert self._ttl is not None
        try:
            self._acquired.renew(self._ttl)
        except LeaseEnded:
            return None
        except StoreUnavailable:
            pass
        return self._ttl / 3


class AsyncHeld:
    """The same in an event loop."""

    def __init__(self, acquired: Acquisition, ttl: Optional[float]) -> None:
        self._acquired = acquired
        self._renewal: Optional[asyncio.Task[None]] = None
        if ttl is not None:
            self._renewal = asyncio.ensure_future(renewed(acquired, ttl))
            # A response that nobody closes is renewed as long as somebody has it.
            weakref.finalize(self, _cancelled, weakref.ref(self._renewal)).atexit = False

    async def leave(self, error: Optional[BaseException] = None) -> None:
        """Ends it; after that it does nothing."""
        if self._renewal is not None:
            self._renewal.cancel()
        await async_leave(self._acquired, error)


def _cancelled(renewal: "weakref.ref[asyncio.Task[None]]") -> None:
    task = renewal()
    if task is not None and not task.get_loop().is_closed():
        task.get_loop().call_soon_threadsafe(task.cancel)


class _Renewals:
    """One thread for all that this process holds, while it holds something."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: weakref.WeakKeyDictionary[Held, float] = weakref.WeakKeyDictionary()
        self._thread: Optional[threading.Thread] = None
        self._stops = False

    def begin(self, held: Held, seconds: float) -> None:
        with self._changed:
            self._due[held] = time.monotonic() + seconds
            if self._thread is None and not self._stops:
                thread = threading.Thread(target=self._run, name="tidegate renewals", daemon=True)
                thread.start()
                self._thread = thread
            self._changed.notify()

    def end(self, held: Held) -> None:
        with self._changed:
            self._due.pop(held, None)

    def stop(self) -> None:
        """Before the interpreter goes: a thread that comes back to none takes the process with it."""
        with self._changed:
            self._stops = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._waits():
            self._round()

    def _waits(self) -> bool:
        """Until something may be due; whether to go on."""
        with self._changed:
            at = min(self._due.values(), default=None)
            if not self._stops:
                self._changed.wait(_IDLE if at is None else max(0.0, at - time.monotonic()))
            goes_on = not self._stops and (at is not None or len(self._due) > 0)
            if not goes_on:
                self._thread = None
            return goes_on

    def _round(self) -> None:
        """Renews what is due. Nothing of it is known here while the thread waits."""
        with self._changed:
            now = time.monotonic()
            due = [held for held, at in self._due.items() if at <= now]
        for held in due:
            self._renew(held)

    def _renew(self, held: Held) -> None:
        seconds = held.renew()
        with self._changed:
            if held not in self._due:
                return
            if seconds is None:
                del self._due[held]
            else:
                self._due[held] = time.monotonic() + seconds


_renewals = _Renewals()


def _forked() -> None:
    """The thread stays with the parent, and so does what it holds."""
    global _renewals
    _renewals = _Renewals()


os.register_at_fork(after_in_child=_forked)
atexit.register(lambda: _renewals.stop())
