"""Limits, and how they are written."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, NoReturn, Optional, Protocol, Union

from .errors import InvalidRequest

#: A whole or fractional number; infinity is no limit at all.
Number = Union[int, float, Decimal]

#: Seconds, a ``timedelta``, or a string: ``"per_minute"``, ``"minute"``, ``"15 minutes"``, where a
#: month has 30 days and a year 360, or a calendar's ``"calendar day"``, ``"calendar week"``, ``"calendar month Europe/Berlin"``.
Window = Union[int, float, timedelta, str]

_SECONDS = {
    "second": 1,
    "minute": 60,
    "hour": 3_600,
    "day": 86_400,
    "week": 604_800,
    # As the package `limits` has them.
    "month": 30 * 86_400,
    "year": 360 * 86_400,
}

#: Between limits in one string. A comma between digits is in a number.
_SEPARATORS = re.compile(r"[;|]|(?<!\d),|,(?!\d)")

#: A limit in one string: how many, and in which window.
_LIMIT = re.compile(r"\s*([^/]*?)\s*(?:/|per)\s*(.*?)\s*", re.IGNORECASE)

#: A number and a unit without a space between them.
_JOINED = re.compile(r"([\d.]+)([a-z]+)")

#: What a fractional number is counted in unless the limit says it: millionths.
_PLACES = 6


class _Word(str, enum.Enum):
    """A word among several; another one is told which there are."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        words = ", ".join(word.value for word in cls)
        raise ValueError(f"{value!r} is none of: {words}")


class RateLimitAlgorithm(_Word):
    """How a rate counts."""

    #: Refills all the time, up to the burst.
    TOKEN_BUCKET = "token_bucket"
    #: The same arithmetic under its other name.
    GCRA = "gcra"
    #: The same arithmetic once more.
    LEAKY_BUCKET = "leaky_bucket"
    #: So much in each window of the clock.
    FIXED_WINDOW = "fixed_window"
    #: So much in each window that opens with the first use.
    FIRST_USE_WINDOW = "first_use_window"
    #: So much in every rolling window, told apart by sub-windows.
    SLIDING_WINDOW = "sliding_window"
    #: So much in every rolling window, to the microsecond.
    SLIDING_LOG = "sliding_log"


#: Those that refill all the time, and have a burst.
_BUCKETS = (RateLimitAlgorithm.TOKEN_BUCKET, RateLimitAlgorithm.GCRA, RateLimitAlgorithm.LEAKY_BUCKET)


class LoadBalancing(_Word):
    """Which set of a pool is tried first."""

    ROUND_ROBIN = "round_robin"
    RANDOM = "random"
    LEAST_LOADED = "least_loaded"
    FIRST_AVAILABLE = "first_available"
    WEIGHTED = "weighted"


class Balancer(Protocol):
    """Which set of a pool is tried first, in a function of one's own.

    If it raises, sets are tried in their order, and the error is shown by ``sys.unraisablehook``.
    """

    def __call__(self, loads: Sequence[int], turn: int, /) -> Sequence[int]:
        """The order in which sets are tried: indices of ``loads``. What it leaves out comes last.

        :param loads: of each set that does not cool down, how many acquisitions of the pool it holds.
        :param turn: a number that grows by 1 with each request.
        """
        ...


def _check_places(places: Optional[int]) -> None:
    if places is not None and not (isinstance(places, int) and 0 <= places <= 9):
        raise InvalidRequest(f"places: 0 to 9 decimal places, not {places!r}")


def _window(window: Window) -> Union[int, tuple[str, str]]:
    """Microseconds, or a calendar's word and its time zone."""
    if isinstance(window, timedelta):
        window = window.total_seconds()
    if isinstance(window, str):
        return _words(window)
    if isinstance(window, bool) or not math.isfinite(window) or window <= 0:
        raise ValueError(f"a window is a positive number of seconds, not {window!r}")
    return round(window * 1_000_000)


def _words(text: str) -> Union[int, tuple[str, str]]:
    first, *rest = text.split() or [""]
    words = first.lower().replace("_", " ").split()
    if words[:1] == ["calendar"]:
        # The zone stays as it is written: it has capital letters, and underscores.
        words += rest
        if len(words) in (2, 3) and words[1].lower() in ("day", "week", "month"):
            return words[1].lower(), words[2] if len(words) == 3 else "UTC"
    words = [word for word in words + [word.lower() for word in rest] if word != "per"]
    if len(words) == 1 and (joined := _JOINED.fullmatch(words[0])):
        words = list(joined.groups())
    number, unit = words if len(words) == 2 else ["1", *words] if len(words) == 1 else ["", ""]
    seconds = _SECONDS.get(unit.removesuffix("s"))
    try:
        count = float(number)
    except ValueError:
        count = math.nan
    if seconds is None or not 0 < count < math.inf:
        raise ValueError(
            f"{text!r} is no window; write seconds, a timedelta, 'per_minute', '15 minutes' "
            "or 'calendar day Europe/Berlin'"
        )
    return round(count * seconds * 1_000_000)


def _algorithm(algorithm: Union[RateLimitAlgorithm, str, None]) -> Optional[str]:
    return None if algorithm is None else RateLimitAlgorithm(algorithm).value


@dataclass(frozen=True)
class Limit:
    """What all limits have; a list of several kinds of them is a list of these."""

    name: str
    capacity: Number

    def _spec(self) -> dict[str, Any]:
        raise NotImplementedError

    @property
    def is_infinite(self) -> bool:
        """Whether it limits nothing."""
        return self.capacity == math.inf

    def _described(self, kind: str, **more: Any) -> dict[str, Any]:
        burst = more.get("burst")
        numbers = [self.capacity] if burst is None else [self.capacity, burst]
        fractions = [number for number in numbers if not float(number).is_integer()]
        whole = not fractions
        if kind in ("calls", "concurrency") and not whole and math.isfinite(fractions[0]):
            raise InvalidRequest(
                f"limit {self.name!r} is of whole numbers, not {fractions[0]}; a RateLimit takes fractions"
            )
        places = more.pop("places", None)
        spec: dict[str, Any] = {
            "kind": kind,
            "name": self.name,
            "capacity": self.capacity,
            "window": None,
            "algorithm": None,
            "burst": None,
            "places": (0 if whole else _PLACES) if places is None else places,
            "postpaid": False,
            "shadow": False,
            "refund_on_failure": False,
            "ttl": None,
        }
        spec.update(more)
        return spec


@dataclass(frozen=True)
class RateLimit(Limit):
    """``capacity`` units per ``window``: an acquisition says how many it takes.

    ``RateLimit("tokens", 90_000, "per_minute")``.

    :param capacity: units; ``math.inf`` limits nothing. A set refuses one that is negative, NaN,
        above 2^53 - 1 units, or finer than ``places``.
    :param window: seconds, a ``timedelta``, or a string: ``"per_minute"``, ``"15 minutes"``,
        ``"calendar day Europe/Berlin"``.
    :param algorithm: default: ``RateLimitAlgorithm.TOKEN_BUCKET``.
    :param burst: the most that a bucket grants at once; default: ``capacity``. Of the buckets alone
        (``TOKEN_BUCKET``, ``GCRA``, ``LEAKY_BUCKET``).
    :param places: decimal places of an amount, 0 to 9; default: 0, or 6 if ``capacity`` or ``burst``
        has a fraction.
    :param postpaid: admits while one unit is left; the request that crosses is charged in full.
    :param shadow: decides and counts, and never refuses.
    :param refund_on_failure: if the body raises, or the holder is lost, and no use was reported, the
        amount comes back; else it stays charged.
    :raises ValueError: an unknown window or algorithm; ``places`` out of range (``InvalidRequest``).
    """

    window: Window
    algorithm: Union[RateLimitAlgorithm, str, None] = None
    burst: Optional[Number] = None
    places: Optional[int] = None
    postpaid: bool = False
    shadow: bool = False
    refund_on_failure: bool = False

    def __post_init__(self) -> None:
        _window(self.window)
        _algorithm(self.algorithm)
        _check_places(self.places)

    def _spec(self) -> dict[str, Any]:
        return self._described(
            "rate",
            window=_window(self.window),
            algorithm=_algorithm(self.algorithm),
            burst=self.burst,
            places=self.places,
            postpaid=self.postpaid,
            shadow=self.shadow,
            refund_on_failure=self.refund_on_failure,
        )


@dataclass(frozen=True)
class Budget(RateLimit):
    """``capacity`` units in each window of the clock or the calendar, counted in millionths.

    ``Budget("usd", 50, "calendar month Europe/Berlin")``. Its parameters are those of a ``RateLimit``.

    :param algorithm: one that counts by windows; default: of the clock or the calendar
        (``RateLimitAlgorithm.FIXED_WINDOW``).
    :param burst: a bucket's; a budget has none.
    :param places: default: 6.
    :raises ValueError: an unknown window or algorithm; a bucket, or a ``burst``; ``places`` out of range.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.algorithm in _BUCKETS or self.burst is not None:
            raise ValueError("a Budget counts by windows; take a RateLimit for a bucket or a burst")

    def _spec(self) -> dict[str, Any]:
        places = _PLACES if self.places is None else self.places
        return {**super()._spec(), "kind": "budget", "places": places}


@dataclass(frozen=True)
class CallLimit(Limit):
    """``capacity`` acquisitions per ``window``: each takes one, and reports nothing.

    ``CallLimit(100, "per_minute")``.

    :param capacity: a whole number; ``math.inf`` limits nothing.
    :param window: as of a ``RateLimit``, and so are ``algorithm``, ``burst`` and ``shadow``.
    :param name: default: ``"calls"``.
    :raises ValueError: an unknown window or algorithm.
    """

    window: Window
    algorithm: Union[RateLimitAlgorithm, str, None] = None
    burst: Optional[Number] = None
    shadow: bool = False

    def __init__(
        self,
        capacity: Number,
        window: Window,
        algorithm: Union[RateLimitAlgorithm, str, None] = None,
        *,
        name: str = "calls",
        burst: Optional[Number] = None,
        shadow: bool = False,
    ) -> None:
        values = dict(name=name, capacity=capacity, window=window, algorithm=algorithm, burst=burst, shadow=shadow)
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)
        _window(window)
        _algorithm(algorithm)

    def _spec(self) -> dict[str, Any]:
        return self._described(
            "calls",
            window=_window(self.window),
            algorithm=_algorithm(self.algorithm),
            burst=self.burst,
            shadow=self.shadow,
        )


@dataclass(frozen=True)
class ResourceLimit(Limit):
    """``capacity`` things held at once: an acquisition holds one, or as many as it requests.

    :param capacity: a whole number; ``math.inf`` limits nothing.
    :param ttl: seconds (0.001 to 34,560,000) after which a holder that was not heard of has lost what
        it held, as ``ttl`` of ``LimitSet.acquire``; the shortest of a set's limits holds for all.
    :param shadow: decides and counts, and never refuses.
    """

    ttl: Optional[float] = None
    shadow: bool = False

    def _spec(self) -> dict[str, Any]:
        return self._described("concurrency", ttl=self.ttl, shadow=self.shadow)


def lines(text: str) -> list[str]:
    """The limits of one string, each by itself: ``"2/minute; 100/hour"`` has two."""
    return _SEPARATORS.split(text)


def parse(line: str, *, is_alone: bool = True) -> CallLimit:
    """A limit as it is written in one line: ``"10/minute"``, ``"5 per 15 minutes"``.

    Its name is ``calls``; beside others of its kind, ``calls/minute``.

    :raises ValueError: the line says no limit.
    """
    said = _LIMIT.fullmatch(line)
    count, window = said.groups() if said else ("", "")
    name = "calls" if is_alone else f"calls/{window}"
    try:
        return CallLimit(int(count.replace(",", "").replace("_", "")), window, name=name)
    except ValueError:
        words = "write '10/minute', '5 per 15 minutes' or '2/minute; 100/hour'"
        raise ValueError(f"{line!r} is no limit; {words}") from None
