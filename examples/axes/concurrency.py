"""May one more be held at once?"""

from tidegate import LimitSet, ResourceLimit

limits = LimitSet([ResourceLimit("slots", 1)])
with limits.try_acquire() as first:
    print(f"first: {bool(first)}, second: {bool(limits.try_acquire())}")
print(f"after the first has ended: {bool(limits.try_acquire())}")
