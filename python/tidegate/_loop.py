"""How tasks of an event loop are woken: one descriptor for each loop."""

from __future__ import annotations

import asyncio
import weakref

from . import _core

_Here = tuple[asyncio.AbstractEventLoop, _core.Wakeups, dict[int, "asyncio.Future[None]"]]


class _Watched:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = weakref.ref(loop)
        self.wakeups = _core.Wakeups()
        self.waiting: dict[int, asyncio.Future[None]] = {}
        # The loop has it, and nobody else: it goes with the loop.
        loop.add_reader(self.wakeups.fileno(), self._wake)

    def _wake(self) -> None:
        for token in self.wakeups.take():
            future = self.waiting.pop(token, None)
            if future is not None and not future.done():
                future.set_result(None)


_watched: weakref.WeakValueDictionary[int, _Watched] = weakref.WeakValueDictionary()


def here() -> _Here:
    """The loop that runs, what wakes its tasks, and those that wait."""
    loop = asyncio.get_running_loop()
    watched = _watched.get(id(loop))
    if watched is None or watched.loop() is not loop:
        watched = _watched[id(loop)] = _Watched(loop)
    return loop, watched.wakeups, watched.waiting
