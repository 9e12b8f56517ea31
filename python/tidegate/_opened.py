"""What sets and semaphores have in common: where they are, and how they are pickled.

What is opened is pickled as how it was described, and opened anew where it arrives.
"""

from __future__ import annotations

from typing import Optional, TypeVar

from .errors import InvalidRequest

_T = TypeVar("_T")


def scheme(store: Optional[str]) -> str:
    """Which kind of store it is: ``memory``, ``redis`` ... No message shows more of a URL."""
    return "memory" if store is None else store.split(":")[0]


def is_of_one_process(store: Optional[str]) -> bool:
    """Whether its state is nowhere but in this process."""
    return scheme(store) == "memory"


def check_clock(clock: object, store: Optional[str]) -> None:
    """A store keeps its own time: only what is in memory takes another."""
    if clock is not None and store is not None:
        raise InvalidRequest("a clock is for limits in memory: leave out the store, or the clock")


def unopened(cls: type[_T]) -> _T:
    """One whose ``__setstate__`` will open it; its ``__init__`` may be a subclass's."""
    return cls.__new__(cls)
