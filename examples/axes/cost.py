"""So much is reserved; what was not used comes back, and more than that is debt."""

from tidegate import LimitSet, RateLimit

limits = LimitSet([RateLimit("tokens", 10_000, "per_hour")])
with limits.acquire({"tokens": 4_000}) as acquired:
    acquired.update({"tokens": 1_000})
print(f"4,000 reserved, 1,000 used: {acquired.reclaimed['tokens']} came back")
with limits.acquire({"tokens": 4_000}) as acquired:
    acquired.update({"tokens": 12_000})
print(f"4,000 reserved, 12,000 used: one more fits: {bool(limits.try_acquire({'tokens': 1}))}")
