"""What HTTP says of limits: header fields, refusals, and whose a request is.

The fields are those of ``tidegate serve``: the IETF's draft (RFC 9651 lists).

``RateLimit-Policy: "calls";q=100;w=60,"slots";q=8;qu="concurrent-requests"``
``RateLimit: "calls";r=0;t=20,"slots";r=8``
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Optional, Union

from .. import _core
from ..errors import AcquireTimeout, CapacityFull, ImpossibleRequest, QueueFull, TidegateError
from ..limits import CallLimit, Limit, Number, RateLimit, _window
from ..sets import LimitSet

#: The largest integer of a structured field: 15 digits.
_LARGEST = 999_999_999_999_999

#: An address and a port: each connection of a client has another.
_PORT = re.compile(r"^(?:\[([^\]]*)\](?::\d+)?|(\d+\.\d+\.\d+\.\d+):\d+)$", re.ASCII)

_TYPES = "https://iana.org/assignments/http-problem-types#"


@dataclass(frozen=True)
class Refusal:
    """An answer in place of the one that was asked for: a problem of RFC 9457."""

    status: int
    #: Why, for people. It names the limit, and no address.
    detail: str
    #: ``Retry-After`` and the fields of the limits.
    headers: dict[str, str]
    #: The problem, in JSON.
    body: bytes

    @property
    def all_headers(self) -> dict[str, str]:
        """The headers, and those of the body."""
        described = {"Content-Type": "application/problem+json", "Content-Length": str(len(self.body))}
        return {**self.headers, **described}


def fields(limits: LimitSet, acquired: _core.Acquisition) -> dict[str, str]:
    """``RateLimit-Policy`` and ``RateLimit``; of a refusal also ``Retry-After`` in whole seconds.

    Numbers are rounded down to whole units. A refusal by a ``ResourceLimit`` has no
    ``Retry-After``: when a holder ends is its own to say. A set that limits nothing has no fields.
    """
    return _fields(limits, acquired.remaining, None if acquired else acquired)


def _fields(
    limits: LimitSet,
    remaining: Mapping[str, Number],
    refused: Union[_core.Acquisition, AcquireTimeout, None],
) -> dict[str, str]:
    policies, standings = [], []
    for limit in limits.limits:
        if limit.is_infinite or limit.name not in remaining:
            continue
        policies.append(_string(limit.name) + _policy(limit))
        later = refused.retry_after if refused is not None and limit.name == refused.limit else None
        standings.append(
            f"{_string(limit.name)};r={_integer(remaining[limit.name])}"
            + ("" if later is None else f";t={math.ceil(later)}")
        )
    if not policies:
        return {}
    named = {"RateLimit-Policy": ",".join(policies), "RateLimit": ",".join(standings)}
    return {**named, **_retry_after(None if refused is None else refused.retry_after)}


def refusal(
    refused: Union[_core.Acquisition, TidegateError],
    limits: Optional[LimitSet] = None,
    remaining: Optional[Mapping[str, Number]] = None,
) -> Refusal:
    """The answer to a request that was refused, or could not be decided.

    Of an acquisition it has the fields of its ``limits``, if they are given; of an
    ``AcquireTimeout`` if what is ``remaining`` of each is given, too.

    | ``refused``                             | status | ``code``        |
    |-----------------------------------------|--------|-----------------|
    | a false acquisition, ``AcquireTimeout`` | 429    | ``refused``     |
    | ``ImpossibleRequest``                   | 422    | ``never``       |
    | ``QueueFull``                           | 503    | ``busy``        |
    | ``CapacityFull``                        | 503    | ``full``        |
    | any other ``TidegateError``             | 503    | ``unavailable`` |
    """
    if isinstance(refused, _core.Acquisition):
        told = {} if limits is None else fields(limits, refused)
        return _refused(refused.limit, {**told, **_retry_after(refused.retry_after)})
    if isinstance(refused, AcquireTimeout):
        told = {} if limits is None else _fields(limits, remaining or {}, refused)
        return _refused(refused.limit, {**told, **_retry_after(refused.retry_after)})
    if isinstance(refused, ImpossibleRequest):
        return _problem(422, "about:blank", "Unprocessable Content", "more than the limit ever grants", "never")
    code = {QueueFull: "busy", CapacityFull: "full"}.get(type(refused), "unavailable")
    kind = f"{_TYPES}temporary-reduced-capacity"
    return _problem(503, kind, "Service Unavailable", "the limits cannot be asked at the moment", code)


def _refused(limit: Optional[str], headers: dict[str, str]) -> Refusal:
    detail = "too many requests" if limit is None else f"limit `{limit}` does not have as much left"
    return _problem(
        429, f"{_TYPES}quota-exceeded", "Quota exceeded", detail, "refused", [] if limit is None else [limit], headers
    )


def key_of_address(address: Optional[str]) -> str:
    """The key of a client by its IP address: of IPv6 the network of 64 bits, which one client has.

    A port that a proxy has written behind it (``192.0.2.1:5000``, ``[2001:db8::1]:5000``) is left
    out. Without an address (a Unix socket) all are ``"unknown"`` together.
    """
    alone = _PORT.sub(r"\1\2", address or "")
    try:
        parsed = ipaddress.ip_address(alone.partition("%")[0])
    except ValueError:
        return address or "unknown"
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_address(int(parsed) >> 64 << 64))


def _problem(
    status: int,
    kind: str,
    title: str,
    detail: str,
    code: str,
    violated: Optional[list[str]] = None,
    headers: Optional[dict[str, str]] = None,
) -> Refusal:
    problem: dict[str, object] = dict(type=kind, title=title, status=status, detail=detail, code=code)
    if violated is not None:
        problem["violated-policies"] = violated
    return Refusal(status, detail, headers or {}, json.dumps(problem).encode())


def _policy(limit: Limit) -> str:
    text = f";q={_integer(limit.capacity)}"
    if not isinstance(limit, (RateLimit, CallLimit)):
        return text + ';qu="concurrent-requests"'
    window = _window(limit.window)
    if isinstance(window, int) and window % 1_000_000 == 0:
        text += f";w={window // 1_000_000}"
    if isinstance(limit, RateLimit):
        text += ';tidegate-qu="units"'
    if limit.burst is not None and limit.burst != limit.capacity:
        text += f";tidegate-burst={_integer(limit.burst)}"
    return text


def _integer(number: Number) -> int:
    return max(0, min(math.floor(number), _LARGEST))


def _string(name: str) -> str:
    """A structured field's string: printable ASCII. What is not is written as a URL would have it."""
    plain: Callable[[int], str] = lambda byte: chr(byte) if 32 <= byte < 127 else f"%{byte:02X}"
    text = "".join(plain(byte) for byte in name.encode())
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _retry_after(seconds: Optional[float]) -> dict[str, str]:
    return {} if seconds is None else {"Retry-After": str(math.ceil(seconds))}
