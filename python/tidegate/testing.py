"""For tests of code that uses limits: time that stands still, so that no test sleeps.

With pytest, the fixture ``tidegate_clock`` is there by itself.
"""

from __future__ import annotations

from ._core import ManualClock

__all__ = ["ManualClock"]
