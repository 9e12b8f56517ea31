"""What a type checker is to know of the package: read by `test_types.py`, imported and never run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from decimal import Decimal
from typing import Any, Optional

from typing_extensions import assert_type

from tidegate import (
    Acquisition,
    Answer,
    Balancer,
    Budget,
    CallLimit,
    Client,
    LimitPool,
    LimitSet,
    Lock,
    Mutex,
    Permit,
    RateLimit,
    RateLimitAlgorithm,
    ResourceLimit,
    Semaphore,
    limited,
)

limits = LimitSet(
    [
        CallLimit(100, "per_minute", RateLimitAlgorithm.SLIDING_LOG),
        RateLimit("tokens", 90_000, 60, burst=1_000),
        Budget("usd", Decimal("0.5"), "calendar day"),
        ResourceLimit("slots", 8),
    ],
    config={"region": "eu"},
)
pool = LimitPool({"eu": limits, "us": limits}, weights=[2, 1])


def least_held(loads: Sequence[int], turn: int) -> Sequence[int]:
    return sorted(range(len(loads)), key=lambda member: loads[member])


balancer: Balancer = least_held
balanced = LimitPool([limits], balancer=balancer)
several = [CallLimit(100, "per_minute"), ResourceLimit("slots", 8)]
of_a_list = LimitSet(several, config="a region")
short = LimitSet(["10/second", ResourceLimit("slots", 2)])
assert_type(pool[0], LimitSet)
assert_type(pool.member("eu"), LimitSet)


def on_a_thread() -> float:
    with limits.acquire({"tokens": 4_000, "usd": Decimal("0.1")}, timeout=30, priority=1, key="alice") as acquired:
        assert_type(acquired, Acquisition)
        acquired.update(usage={"tokens": 3_120, "usd": 0.05})
        assert_type(acquired.adjust({"tokens": 5}), bool)
    # A `with` swallows no exception: what it bound is bound here.
    assert_type(acquired.reclaimed, dict[str, "int | float"])
    refused = pool.try_acquire({"tokens": 1})
    assert_type(refused.retry_after, Optional[float])
    assert_type(refused.limit, Optional[str])
    return refused.retry_after or 0.0


def at_a_server(client: Client) -> bool:
    answer = client.check("chat", {"tokens": 500}, key="alice")
    assert_type(answer, Answer)
    if not answer:
        return False
    with client.acquire("chat", timeout=5) as lease:
        assert_type(bool(lease), bool)
    return bool(answer)


async def in_a_task() -> Acquisition:
    async with await pool.async_acquire({"tokens": 4_000}, timeout=5) as acquired:
        assert_type(acquired, Acquisition)
    assert_type(await limits.async_try_acquire({"tokens": 1}), Acquisition)
    assert_type(await acquired.async_adjust({"tokens": 1}), bool)
    return acquired


async def locks() -> int:
    semaphore, mutex = Semaphore("gpu", 2, store="redis://localhost"), Mutex("accounts")
    with semaphore.acquire(timeout=5, slots=2) as permit:
        assert_type(permit, Permit)
    async with mutex as held:
        assert_type(held, Permit)
    assert_type(semaphore.try_acquire(), Optional[Permit])
    assert_type(Lock("accounts"), Mutex)
    return permit.fence


@limited(limits, key=lambda user: user)
def greet(user: str) -> str:
    return f"hello {user}"


@limited(limits, {"tokens": 1}, timeout=1)
async def fetch(number: int) -> int:
    return number


@limited(pool)
def lines() -> Generator[str, None, None]:
    yield "line"


@limited(pool)
async def chunks() -> AsyncGenerator[bytes, None]:
    yield b"chunk"


async def decorated() -> None:
    assert_type(greet("alice"), str)
    assert_type(await fetch(1), int)
    assert_type(lines(), Generator[str, None, None])
    assert_type(chunks(), AsyncGenerator[bytes, None])


def described(acquired: Acquisition) -> dict[str, Any]:
    return {"member": acquired.member, "fence": acquired.fence, "config": acquired.config, **limits.stats()}
