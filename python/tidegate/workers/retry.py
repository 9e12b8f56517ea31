"""How often what failed is run again, and after how long."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Optional, Union


@dataclass(frozen=True)
class Retry:
    """At most ``times`` more attempts: the first after ``first`` seconds, each further one after
    ``factor`` times as long, never more than ``longest`` seconds.

    Each back-off is shortened by up to a half, at random, so that what failed together does not
    come back together. ``on``: the errors that are worth another attempt.

    :raises ValueError: a negative number, a factor below 1.
    """

    times: int
    first: float = 0.1
    factor: float = 2.0
    longest: float = 30.0
    on: Union[type[Exception], tuple[type[Exception], ...]] = Exception

    def __post_init__(self) -> None:
        if self.times < 0 or self.first < 0 or self.longest < 0 or self.factor < 1:
            raise ValueError(f"{self}: times and seconds are not negative, and a factor is at least 1")

    def delay(self, attempt: int, error: BaseException) -> Optional[float]:
        """Seconds until the next attempt, after attempt number ``attempt`` (from 0) has failed;
        ``None`` if that was the last."""
        if attempt >= self.times or not isinstance(error, self.on):
            return None
        try:
            whole = min(self.first * self.factor**attempt, self.longest)
        except OverflowError:
            whole = self.longest
        return whole * random.uniform(0.5, 1)
