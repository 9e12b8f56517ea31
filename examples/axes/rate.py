"""May one more call start now, and when is the next?"""

from tidegate import LimitSet

limits = LimitSet("3/hour")
for call in range(1, 5):
    acquired = limits.try_acquire(key="alice")
    if acquired:
        print(f"call {call}: admitted")
    else:
        print(f"call {call}: refused, next in {acquired.retry_after:.0f} s")
