"""What the page `coming-from` says of names that are the same, where it shows but one side."""

import concurry
import limits
import pytest

import tidegate


def theirs():
    limits = [
        concurry.CallLimit(capacity=100, window="per_day"),
        concurry.RateLimit(key="tokens", window="per_day", capacity=1000),
        concurry.ResourceLimit(key="connections", capacity=1),
    ]
    return concurry.LimitSet(limits=limits, shared=True, mode="thread")


def ours():
    return tidegate.LimitSet([
        tidegate.CallLimit(100, "per_day", name="call_count"),
        tidegate.RateLimit(name="tokens", window="per_day", capacity=1000),
        tidegate.ResourceLimit(name="connections", capacity=1),
    ])


# Its sliding window, which it has unless another is said, gives nothing back.
@pytest.mark.parametrize("limits_of, left", [(theirs, 400), (ours, 900)])
def test_the_same_lines_do_the_same_with_concurrys_sets(limits_of, left):
    limits = limits_of()
    with limits.acquire(requested={"tokens": 600, "call_count": 1}, timeout=5) as acq:
        assert acq.successful
        # The connection is held.
        assert not limits.try_acquire(requested={"tokens": 1}).successful
        with pytest.raises(TimeoutError):
            limits.acquire(requested={"tokens": 1}, timeout=0.01)
        acq.update(usage={"tokens": 100, "call_count": 1})
    assert not limits.try_acquire(requested={"tokens": left + 50}).successful
    assert limits.try_acquire(requested={"tokens": left}).successful


def rates(text):
    """Of each limit of a set: how many calls, in how many seconds."""
    made = tidegate.LimitSet(text)
    assert len({limit.name for limit in made.limits}) == len(made.limits)
    return [(limit.capacity, limit._spec()["window"] / 1_000_000) for limit in made.limits]


@pytest.mark.parametrize(
    "text",
    [
        "10/minute",
        "10 / 2 minutes",
        "10/2minute",
        "10per second",
        "1 PER 3 Hours",
        "5/day",
        "10/month",
        "1/year",
        "2/minute; 100/hour",
        "2/minute,100/hour",
        "2 per minute | 100/2hours;500 per day",
    ],
)
def test_strings_mean_what_they_mean_to_limits(text):
    assert rates(text) == [(item.amount, item.get_expiry()) for item in limits.parse_many(text)]


@pytest.mark.parametrize("text", ["10/fortnight", "/minute", "10/", "ten/minute", "2/minute;", "2/minute; 100", "10"])
def test_a_string_that_says_no_limit_is_refused_by_both(text):
    with pytest.raises(ValueError):
        limits.parse_many(text)
    with pytest.raises(ValueError, match="is no limit; write '10/minute'"):
        tidegate.LimitSet(text)


@pytest.mark.parametrize("text", ["2/minute; 5/minute", "10/0 minutes", "1/2years"])
def test_what_no_set_can_have_is_refused_although_limits_takes_it(text):
    assert limits.parse_many(text)
    with pytest.raises(ValueError):
        tidegate.LimitSet(text)
