"""LangChain's rate limiter, beneath a model of its own."""

import asyncio
import concurrent.futures
import multiprocessing
import threading

import pytest
from langchain_core.language_models import GenericFakeChatModel

from tidegate import AcquireTimeout, CallLimit, LimitSet, RateLimit, ResourceLimit
from tidegate.frameworks.langchain import LimitSetRateLimiter


def model(limiter):
    return GenericFakeChatModel(messages=iter(["hello"] * 100), rate_limiter=limiter)


def test_each_call_of_a_model_takes_its_turn():
    limits = LimitSet("3/day")
    chat = model(LimitSetRateLimiter(limits, timeout=0))
    assert chat.invoke("hi").content == "hello"
    assert "".join(part.content for part in chat.stream("hi")) == "hello"
    assert asyncio.run(chat.ainvoke("hi")).content == "hello"
    with pytest.raises(AcquireTimeout) as raised:
        chat.invoke("hi")
    assert raised.value.retry_after > 20_000
    assert limits.stats()["refused"] == 1


def test_turns_that_are_awaited_need_no_thread():
    async def main():
        limiter = LimitSetRateLimiter(LimitSet(CallLimit(200, "per_second", burst=1)))
        before = threading.active_count()
        turns = [asyncio.ensure_future(limiter.aacquire()) for _ in range(20)]
        await asyncio.sleep(0.01)
        return await asyncio.gather(*turns), threading.active_count() - before

    turns, threads = asyncio.run(main())
    assert turns == [True] * 20 and threads == 0


def test_without_blocking_it_says_whether_there_is_a_turn():
    limiter = LimitSetRateLimiter(LimitSet(RateLimit("tokens", 100, "per_day")), requested={"tokens": 60})
    assert [limiter.acquire(blocking=False) for _ in range(2)] == [True, False]
    assert not asyncio.run(limiter.aacquire(blocking=False))


def test_each_key_has_a_rate_of_its_own():
    limits = LimitSet("1/day")
    turns = [LimitSetRateLimiter(limits, key=key).acquire(blocking=False) for key in ("a", "b", "a")]
    assert turns == [True, True, False]


def turns(url):
    """How many turns of 15 this process gets, by a limiter of its own."""
    limits = LimitSet(CallLimit(20, "per_day"), name="langchain", store=url)
    limiter = LimitSetRateLimiter(limits)
    return sum(limiter.acquire(blocking=False) for _ in range(15))


def test_processes_on_one_store_share_the_rate(store_url):
    """Its own limiter (`InMemoryRateLimiter`) counts for one process: two call twice as often."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        counts = list(pool.map(turns, [store_url] * 2))
    counts.append(turns(store_url))
    assert sum(counts) == 20


def test_limits_that_it_cannot_hold_are_refused():
    with pytest.raises(TypeError, match="ResourceLimit"):
        LimitSetRateLimiter(LimitSet([ResourceLimit("slots", 1)]))
    with pytest.raises(TypeError, match="LimitSet"):
        LimitSetRateLimiter("10/minute")
