"""How what is held for a request or its response is ended."""

from __future__ import annotations

import contextlib
from typing import Optional

from .._core import Acquisition
from ..errors import LeaseEnded, StoreUnavailable


def leave(acquired: Acquisition, error: Optional[BaseException] = None) -> None:
    """Ends it; after that it does nothing. What a store cannot be told it finds out by itself: at
    the end of the ttl. What it has forgotten since then has ended, too."""
    with contextlib.suppress(StoreUnavailable, LeaseEnded):
        acquired.__exit__(None if error is None else type(error), error, None)


async def async_leave(acquired: Acquisition, error: Optional[BaseException] = None) -> None:
    """The same in an event loop."""
    with contextlib.suppress(StoreUnavailable, LeaseEnded):
        await acquired.__aexit__(None if error is None else type(error), error, None)
