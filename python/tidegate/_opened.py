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
    """Whether no other process can have it open: it is in this one's memory, or in a file of its own."""
    return scheme(store) in ("memory", "file")


def check_portable(what: str, store: Optional[str]) -> None:
    """Whether what is in ``store`` can be opened in another process.

    :raises TypeError: it cannot, so it is not pickled.
    """
    if is_of_one_process(store):
        raise TypeError(
            f"{what} in {scheme(store)}: is of one process; give it a name and a store that processes "
            "share, such as 'shm:NAME' or 'redis://...'"
        )


def check_clock(clock: object, store: Optional[str]) -> None:
    """A store keeps its own time, also this process's ``memory:``.

    :raises InvalidRequest: a clock, and a store.
    """
    if clock is not None and store is not None:
        raise InvalidRequest(f"a clock goes with no store, not with {scheme(store)}: leave out one of them")


def unopened(cls: type[_T]) -> _T:
    """One whose ``__setstate__`` will open it; its ``__init__`` may be a subclass's."""
    return cls.__new__(cls)
