"""What a provider's answer says of when to come again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Optional

from .._core import _exhausted_for

#: Answers whose ``Retry-After`` is about limits.
_REFUSALS = (429, 503)

#: How the names begin of what tells of limits, and of what says when that was so.
_OF_LIMITS = ("ratelimit", "x-ratelimit", "x-rate-limit", "date", "age")


def pause(status: int, headers: Mapping[str, str]) -> Optional[float]:
    """In how many seconds a provider takes the next request; ``None`` if it says nothing of that.

    Of a 429 or 503 ``retry-after-ms``, else ``Retry-After``; of any answer what its fields say of a
    limit that has nothing left: ``RateLimit`` of the IETF (from its 7th draft on), ``RateLimit-Remaining``
    and ``-Reset`` (before), ``X-RateLimit-Remaining`` and ``-Reset``, the first that are there.
    """
    if status in _REFUSALS:
        said = _number(headers.get("retry-after-ms"), 1_000)
        if said is None:
            said = _retry_after(headers)
        if said is not None:
            return said
    return _exhausted_for([line for line in headers.items() if line[0].lower().startswith(_OF_LIMITS)])


def _retry_after(headers: Mapping[str, str]) -> Optional[float]:
    said = headers.get("retry-after")
    seconds = _number(said, 1)
    if seconds is not None or said is None:
        return seconds
    now = _date(headers.get("date")) or datetime.now(timezone.utc)
    until = _date(said)
    return None if until is None else max(0.0, (until - now).total_seconds())


def _number(text: Optional[str], in_a_second: int) -> Optional[float]:
    if text is None or not re.fullmatch(r"\d{1,15}(\.\d{1,15})?", text.strip(), re.ASCII):
        return None
    return float(text) / in_a_second


def _date(text: Optional[str]) -> Optional[datetime]:
    try:
        date = parsedate_to_datetime(text or "")
    except (TypeError, ValueError, OverflowError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=timezone.utc)
