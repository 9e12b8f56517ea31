"""Header fields, to the letter."""

import pytest

from tidegate import (
    AcquireTimeout,
    Budget,
    CallLimit,
    CapacityFull,
    ImpossibleRequest,
    LimitSet,
    QueueFull,
    RateLimit,
    ResourceLimit,
    StoreUnavailable,
)
from tidegate.frameworks import http


@pytest.mark.parametrize(
    "limit, requested, policy, standing",
    [
        (CallLimit(300, "per_day", name="rpd"), {}, '"rpd";q=300;w=86400', '"rpd";r=299'),
        (
            RateLimit("tpd", 600, "per_day", burst=900),
            {"tpd": 1},
            '"tpd";q=600;w=86400;tidegate-qu="units";tidegate-burst=900',
            '"tpd";r=899',
        ),
        (ResourceLimit("running", 24), {}, '"running";q=24;qu="concurrent-requests"', '"running";r=23'),
        # A window of no whole seconds, or of a calendar, has no `w`.
        (CallLimit(5, 86_400.5, name="slow"), {}, '"slow";q=5', '"slow";r=4'),
        (CallLimit(9, "calendar month", name="monthly"), {}, '"monthly";q=9', '"monthly";r=8'),
        # Rounded down to whole units.
        (Budget("usd", 5.75, "day"), {"usd": 1}, '"usd";q=5;w=86400;tidegate-qu="units"', '"usd";r=4'),
        # The largest integer has 15 digits.
        (
            RateLimit("all", 2**53 - 1, "day", "fixed_window"),
            {"all": 1},
            '"all";q=999999999999999;w=86400;tidegate-qu="units"',
            '"all";r=999999999999999',
        ),
        # A name is printable ASCII.
        (CallLimit(2, "day", name='a"b\\c d\n€'), {}, r'"a\"b\\c d%0A%E2%82%AC";q=2;w=86400', r'"a\"b\\c d%0A%E2%82%AC";r=1'),
    ],
)
def test_a_limit_is_told_with_its_quota_window_and_unit(limit, requested, policy, standing):
    limits = LimitSet([limit])
    with limits.acquire(requested) as acquired:
        assert http.fields(limits, acquired) == {"RateLimit-Policy": policy, "RateLimit": standing}


def test_limits_that_are_infinite_are_not_told():
    limits = LimitSet([CallLimit(float("inf"), "per_second", name="none"), CallLimit(1, "day")])
    assert http.fields(limits, limits.try_acquire())["RateLimit"] == '"calls";r=0'
    limits = LimitSet([CallLimit(float("inf"), "day")])
    assert http.fields(limits, limits.try_acquire()) == {}


@pytest.mark.parametrize(
    "address, key",
    [
        ("192.0.2.1:50123", "192.0.2.1"),
        ("[2001:db8::1]:50123", "2001:db8::"),
        ("[2001:db8::1]", "2001:db8::"),
        ("[::ffff:192.0.2.1]:50123", "192.0.2.1"),
        ("2001:db8::1:5012", "2001:db8::"),
        ("192.0.2.1:port", "192.0.2.1:port"),
        ("", "unknown"),
    ],
)
def test_a_port_makes_no_other_client(address, key):
    assert http.key_of_address(address) == key


def test_a_refusal_by_a_resource_says_no_time():
    limits = LimitSet([CallLimit(9, "day"), ResourceLimit("slots", 1)])
    with limits.acquire():
        refused = limits.try_acquire()
    told = http.fields(limits, refused)
    assert told["RateLimit"] == '"calls";r=8,"slots";r=0' and "Retry-After" not in told


@pytest.mark.parametrize(
    "error, status, code, headers",
    [
        (AcquireTimeout("late", "calls", 1.2), 429, "refused", {"Retry-After": "2"}),
        (AcquireTimeout("late"), 429, "refused", {}),
        (ImpossibleRequest("much"), 422, "never", {}),
        (QueueFull("many"), 503, "busy", {}),
        (CapacityFull("many"), 503, "full", {}),
        (StoreUnavailable("redis://user:secret@10.0.0.1"), 503, "unavailable", {}),
    ],
)
def test_an_error_has_a_status_a_code_and_no_address(error, status, code, headers):
    refused = http.refusal(error)
    assert (refused.status, refused.headers) == (status, headers)
    assert f'"code": "{code}"'.encode() in refused.body and b"secret" not in refused.body
    assert refused.all_headers["Content-Length"] == str(len(refused.body))
