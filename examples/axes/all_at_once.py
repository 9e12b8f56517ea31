"""Calls, tokens and slots in one step: all are taken or none, and a refusal names which binds."""

from tidegate import CallLimit, LimitSet, RateLimit, ResourceLimit

limits = LimitSet([CallLimit(10, "per_hour"), RateLimit("tokens", 10_000, "per_hour"), ResourceLimit("slots", 2)])
held = []
for tokens in (4_000, 8_000, 4_000, 1_000):
    acquired = limits.try_acquire({"tokens": tokens})
    held.append(acquired)
    print(f"{tokens} tokens: " + ("admitted" if acquired else f"refused by {acquired.limit}"))
