"""The base class of workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Optional

from ..sets import LimitPool
from .given import Unlimited

_begun: ContextVar[Optional[tuple[LimitPool, int]]] = ContextVar("_begun", default=None)


class Worker:
    """Something with methods that run within limits, one at a time.

    >>> from tidegate import ResourceLimit, workers
    >>> class Greeter(workers.Worker):
    ...     def greet(self, user):
    ...         with self.limits.acquire():
    ...             return f"hello {user}"
    >>> with workers.start(Greeter, max_workers=2, limits=ResourceLimit("slots", 1)) as greeters:
    ...     greeters.greet("alice").result()
    'hello alice'
    """

    #: What it was started with, as a pool; one that grants everything if that was nothing.
    limits: LimitPool
    #: Which of its siblings it is, from 0: round-robin begins so many sets further.
    worker_index: int

    def __new__(cls, *_arguments: Any, **_named: Any) -> "Worker":
        made = super().__new__(cls)
        made.limits, made.worker_index = _begun.get() or (Unlimited(), 0)
        return made


#: What a worker is made of, on the spot where it works.
Made = tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any], LimitPool, int]


def make(made: Made) -> Any:
    """A worker with its limits, which are there in its ``__init__`` already."""
    worker, arguments, named, limits, index = made
    before = _begun.set((limits._turned(index), index))
    try:
        return worker(*arguments, **named)
    finally:
        _begun.reset(before)
