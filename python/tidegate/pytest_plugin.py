"""What pytest finds by itself when this package is installed."""

from __future__ import annotations

import pytest

from .testing import ManualClock


@pytest.fixture
def tidegate_clock() -> ManualClock:
    """A clock that stands still until the test advances it: ``LimitSet(..., clock=tidegate_clock)``."""
    return ManualClock()
