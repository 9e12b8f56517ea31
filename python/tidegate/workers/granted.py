"""What a call of ``map``'s function was granted, and how the function is called."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from concurrent import futures
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Optional

from ..limits import Number
from .outcome import ENDS, Outcome, portable


@dataclass
class Granted:
    """What the call that runs was granted by its limits."""

    #: What the set that granted it was given as ``config``.
    config: Any = None
    #: Of a pool: the name of that set.
    member: Optional[str] = None
    _usage: dict[str, Number] = field(default_factory=dict)

    def update(self, usage: Mapping[str, Number]) -> None:
        """Reports what was really used: charged when the call ends, in place of what was taken.

        An unknown limit, or an amount that ``acquire`` refuses, is then the item's error.
        """
        self._usage.update(usage)


_running: ContextVar[Optional[Granted]] = ContextVar("_running", default=None)


def acquired() -> Granted:
    """What the call of ``map``'s function that runs here was granted.

    :raises RuntimeError: no such call runs here.
    """
    granted = _running.get()
    if granted is None:
        raise RuntimeError("no function runs here that tidegate.workers.map has called")
    return granted


#: An item's call: how it ended, and what it has reported.
Called = tuple[Outcome, Mapping[str, Number]]


class Caller:
    """A worker that calls a function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        #: Whether nobody waits for its calls in this event loop any more: what is raised then
        #: because they are cancelled is no error of theirs.
        self.is_ended = False

    def run(self, item: Any, granted: Granted) -> Called:
        before = _running.set(granted)
        try:
            return Outcome(self._answer(item)), granted._usage
        except asyncio.CancelledError as error:
            return portable(_cancelled(error)), granted._usage
        except ENDS as error:
            return portable(error), granted._usage
        finally:
            _running.reset(before)

    def _answer(self, item: Any) -> Any:
        answer = self._function(item)
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError(f"{self._function!r} is a coroutine function: write mode='asyncio'")
        return answer

    async def run_here(self, item: Any, granted: Granted) -> Called:
        _running.set(granted)
        try:
            answer = self._function(item)
            if not inspect.isawaitable(answer):
                raise TypeError(f"{self._function!r} is no coroutine function: write another mode")
            return Outcome(await answer), granted._usage
        except asyncio.CancelledError as error:
            if self.is_ended:
                raise
            return Outcome(error=_cancelled(error)), granted._usage
        except Exception as error:
            return Outcome(error=error), granted._usage


def _cancelled(error: asyncio.CancelledError) -> Exception:
    """An item's own, which ends nobody else's task."""
    cancelled = futures.CancelledError(*error.args)
    cancelled.__cause__ = error
    return cancelled
