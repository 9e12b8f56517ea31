"""What the page `coming-from` says of names that are the same, where it shows but one side."""

import concurry
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
