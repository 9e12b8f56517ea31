"""An event loop whose time stands until there is nothing to do, and the clocks of the process with it.

Import it before what is to go by its time.
"""

import asyncio
import datetime
import selectors
import time


# A round of the loop takes so long at least, as any real one does: who waits for less than the clock can
# tell would else wait for ever.
_ROUND_S = 1e-6


class _Selector(selectors.DefaultSelector):
    """Where a real one would sleep, time moves on."""

    now = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("nothing is left to wait for")
            self.now += max(timeout, _ROUND_S)
        return ready


_SELECTOR = _Selector()
_begin = 0.0


class Loop(asyncio.SelectorEventLoop):
    """Its time is that of its selector."""

    def __init__(self):
        super().__init__(_SELECTOR)

    def time(self):
        return _SELECTOR.now


class _Datetime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)


def begin(at):
    """It is now `at`, in seconds since 1970."""
    global _begin
    _begin = at


time.time = lambda: _begin + _SELECTOR.now
time.monotonic = lambda: _SELECTOR.now
datetime.datetime = _Datetime
