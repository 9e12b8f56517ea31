"""The same by others, each as its own pages write it."""

from __future__ import annotations

import importlib.util
import os

import aiolimiter
import concurry
import limits
import pyrate_limiter
import throttled

DAY = 86_400
MUCH = 10**12


def guards():
    """The least that a limit can cost: the crate beside this, which `TIDEGATE_GUARD` names."""
    spec = importlib.util.spec_from_file_location("guard", os.environ["TIDEGATE_GUARD"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    counter = module.Counter()

    def work(count):
        for _ in range(count):
            with counter.acquire():
                pass

    return work


def of_limits():
    limiter = limits.strategies.FixedWindowRateLimiter(limits.storage.MemoryStorage())
    return limiter, limits.RateLimitItemPerDay(MUCH)


def hits(names=("calls",)):
    limiter, item = of_limits()

    def work(count):
        for _ in range(count):
            for name in names:
                assert limiter.hit(item, name)

    return work


def pyrates(buckets=1):
    made = [pyrate_limiter.Limiter(pyrate_limiter.Rate(MUCH, pyrate_limiter.Duration.DAY)) for _ in range(buckets)]

    def work(count):
        for _ in range(count):
            for limiter in made:
                assert limiter.try_acquire("calls", blocking=False)

    return work


def throttles(names=("calls",)):
    quota = throttled.rate_limiter.per_day(MUCH)
    made = [throttled.Throttled(key=name, using="token_bucket", quota=quota) for name in names]

    def work(count):
        for _ in range(count):
            for limiter in made:
                assert not limiter.limit().limited

    return work


def aio():
    limiter = aiolimiter.AsyncLimiter(MUCH, DAY)

    async def work(count):
        for _ in range(count):
            async with limiter:
                pass

    return work


def concurry_set(mode, *, three=False):
    """By token buckets: its sliding window keeps an entry for each call, and grows slower with each."""
    counts = {"window": DAY, "capacity": MUCH, "algorithm": concurry.RateLimitAlgorithm.TokenBucket}
    made = [concurry.CallLimit(**counts)]
    if three:
        made += [
            concurry.RateLimit(key="tokens", **counts),
            concurry.ResourceLimit(key="slots", capacity=8),
        ]
    more = {"mp_context": "fork"} if mode == "process" else {}
    return concurry.LimitSet(limits=made, shared=True, mode=mode, **more)


def concurry_slots(mode):
    return concurry.LimitSet(limits=[concurry.ResourceLimit(key="slots", capacity=8)], shared=True, mode=mode)


def concurry_acquires(made):
    def work(count):
        for _ in range(count):
            with made.acquire():
                pass

    return work


def concurry_acquires_three(made):
    def work(count):
        for _ in range(count):
            with made.acquire(requested={"tokens": 5}) as acquired:
                acquired.update(usage={"tokens": 3})

    return work


def concurry_tries(made):
    def work(count):
        for _ in range(count):
            acquired = made.try_acquire()
            assert acquired.successful
            acquired.release()

    return work


def concurry_acquires_async(made):
    async def work(count):
        for _ in range(count):
            acquired = await made.async_acquire()
            acquired.release()

    return work


def concurry_members(members):
    return [
        concurry.LimitSet(
            limits=[concurry.ResourceLimit(key="slots", capacity=2)], shared=True, mode="process", mp_context="fork"
        )
        for _ in range(members)
    ]


def concurry_pool(sets, worker):
    balance = concurry.LoadBalancingAlgorithm.RoundRobin
    return concurry.LimitPool(limit_sets=sets, load_balancing=balance, worker_index=worker)
