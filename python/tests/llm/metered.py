"""Limits before a simulated provider, without a gateway: what they were charged, and what was billed."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

from gateways import PRICE, Provider, Spent, wait_until

from tidegate import Budget, CallLimit, LimitSet, RateLimit, ResourceLimit
from tidegate.llm import Price

#: 30 days, from the first use on: nothing comes back by itself while a test runs.
MONTH = 30 * 86_400

#: As those of `gateways.POLICY`.
LIMITS = [
    CallLimit(10_000_000, MONTH, "first_use_window", name="requests"),
    RateLimit("tokens", 1_000_000_000, MONTH, "first_use_window"),
    RateLimit("input-tokens", 1_000_000_000, MONTH, "first_use_window"),
    RateLimit("output-tokens", 1_000_000_000, MONTH, "first_use_window"),
    Budget("usd", 100_000, MONTH, "first_use_window"),
    ResourceLimit("running", 64),
]

PRICES = {"m": Price(*PRICE)}


@dataclasses.dataclass(frozen=True)
class Account:
    """A credential at the provider, and limits that all its calls go by."""

    provider: Provider
    limits: LimitSet
    secret: str

    @classmethod
    def at(cls, provider: Provider, **more: Any) -> Account:
        return cls(provider, LimitSet(LIMITS, **more), f"sk-{uuid.uuid4().hex}")

    def ledger(self) -> dict[str, int]:
        return self.provider.ledger(self.secret)

    def used(self) -> dict[str, float]:
        peeked = self.limits.peek().items()
        return {name: limit["capacity"] - limit["remaining"] + limit["debt"] for name, limit in peeked}

    def settles(self) -> Spent:
        """What was charged, once nothing is under way on either side: no slot is lost."""
        wait_until(lambda: self.ledger().get("open", 0) == 0, "the provider has a call under way")
        wait_until(lambda: self.used()["running"] == 0, "a slot is held")
        used = self.used()
        assert used["tokens"] == used["input-tokens"] + used["output-tokens"], used
        millionths = round(used["usd"] * 1_000_000)
        return Spent(int(used["requests"]), int(used["input-tokens"]), int(used["output-tokens"]), millionths)

    def billed(self) -> Spent:
        ledger = self.ledger()
        of = [ledger.get(name, 0) for name in ("admitted", "input_tokens", "output_tokens", "spent_millionths")]
        return Spent(*of)


NOTHING = Spent(0, 0, 0, 0)
