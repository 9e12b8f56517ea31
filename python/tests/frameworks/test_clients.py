"""Requests that go out: httpx and Requests. The provider is a real server."""

import asyncio
import concurrent.futures
import copy
import gc
import pickle
import signal
import threading
import time
from email.utils import formatdate

import httpx
import pytest
import requests

from tidegate import AcquireTimeout, CallLimit, LimitPool, LimitSet, ResourceLimit
from tidegate.frameworks._answers import pause
from tidegate.frameworks.httpx import AsyncLimitTransport, LimitTransport
from tidegate.frameworks.requests import LimitAdapter


def by_httpx(limits, **more):
    return httpx.Client(transport=LimitTransport(limits, **more), follow_redirects=True, trust_env=False)


def by_requests(limits, **more):
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", LimitAdapter(limits, **more))
    return session


class ByAsyncHttpx:
    """`AsyncLimitTransport`, asked as the others are."""

    def __init__(self, limits, **more):
        transport = AsyncLimitTransport(limits, **more)
        self._client = httpx.AsyncClient(transport=transport, follow_redirects=True, trust_env=False)
        self._loop = asyncio.new_event_loop()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()

    def get(self, url):
        return self._loop.run_until_complete(self._client.get(url))

    def head(self, url):
        return self._loop.run_until_complete(self._client.head(url))


@pytest.fixture(params=[by_httpx, ByAsyncHttpx, by_requests])
def client_of(request):
    return request.param


def free(limits, **named):
    with limits.try_acquire(**named) as looked:
        return looked.remaining["slots"] + bool(looked)


def test_a_request_waits_for_its_turn_and_one_that_cannot_have_it_is_not_sent(client_of, provider):
    with client_of(LimitSet("2/day"), timeout=0) as client:
        assert [client.get(f"{provider.url}/200").status_code for _ in range(2)] == [200, 200]
        with pytest.raises(AcquireTimeout) as raised:
            client.get(f"{provider.url}/200")
    assert raised.value.retry_after > 40_000 and provider.served == 2


@pytest.mark.parametrize("path", ["/200", "/204", "/404", "/500", "/200?X=1", "/200?Content-Type=text/plain"])
def test_a_slot_comes_back_with_the_end_of_the_body(client_of, provider, path):
    limits = LimitSet([ResourceLimit("slots", 1)])
    with client_of(limits, timeout=60) as client:
        for _ in range(3):
            client.get(provider.url + path)
            assert free(limits) == 1
        client.head(provider.url + path)
        assert free(limits) == 1


def test_a_redirect_is_a_request_of_its_own(client_of, provider):
    limits = LimitSet([CallLimit(10, "per_day"), ResourceLimit("slots", 1)])
    with client_of(limits, timeout=60) as client:
        assert client.get(f"{provider.url}/302?Location={provider.url}/200").status_code == 200
    assert limits.try_acquire().remaining["calls"] == 7


def test_a_request_that_fails_gives_its_slot_back(client_of, provider):
    limits = LimitSet([ResourceLimit("slots", 1)])
    with client_of(limits, timeout=60) as client:
        with pytest.raises((httpx.ConnectError, requests.ConnectionError)):
            # Nobody listens at that port.
            client.get("http://127.0.0.1:1/")
        assert free(limits) == 1


def test_as_many_requests_run_at_once_as_may(provider):
    for client in (by_httpx(LimitSet([ResourceLimit("slots", 2)])), by_requests(LimitSet([ResourceLimit("slots", 2)]))):
        with client, concurrent.futures.ThreadPoolExecutor(8) as threads:
            assert {answer.status_code for answer in threads.map(client.get, [f"{provider.url}/200"] * 40)} == {200}
    assert 1 <= provider.most <= 2


def test_as_many_tasks_send_at_once_as_may_and_no_thread_waits(provider):
    async def main():
        transport = AsyncLimitTransport(LimitSet([ResourceLimit("slots", 2)]))
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            before = threading.active_count()
            answers = asyncio.gather(*(client.get(f"{provider.url}/200") for _ in range(40)))
            await asyncio.sleep(0)
            # Those of the provider come and go; none is made for each that waits.
            assert threading.active_count() - before <= 3
            return {answer.status_code for answer in await answers}

    assert asyncio.run(main()) == {200}
    assert 1 <= provider.most <= 2


@pytest.mark.parametrize("headers", ["Retry-After=100", "retry-after-ms=100000"])
@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_of_the_provider_stops_requests_until_then(client_of, provider, status, headers):
    with client_of(LimitSet("1000/second"), timeout=0) as client:
        assert client.get(f"{provider.url}/{status}?{headers}").status_code == status
        with pytest.raises(AcquireTimeout) as raised:
            client.get(f"{provider.url}/200")
    assert 30 < raised.value.retry_after <= 100 and provider.served == 1


def test_a_provider_that_has_nothing_left_is_not_asked_until_it_has(client_of, provider):
    with client_of(LimitSet("1000/second"), timeout=0) as client:
        assert client.get(f"{provider.url}/200?RateLimit='default';r~0;t~100").status_code == 200
        with pytest.raises(AcquireTimeout):
            client.get(f"{provider.url}/200")


def test_a_pause_is_not_longer_than_it_may_be(client_of, provider):
    with client_of(LimitSet("1000/second"), timeout=0, max_pause=50) as client:
        client.get(f"{provider.url}/429?Retry-After=999999999999")
        with pytest.raises(AcquireTimeout) as raised:
            client.get(f"{provider.url}/200")
    assert raised.value.retry_after <= 50


def test_requests_go_on_after_the_pause(client_of, provider):
    with client_of(LimitSet("1000/second"), timeout=60) as client:
        client.get(f"{provider.url}/429?retry-after-ms=200")
        before = time.monotonic()
        assert client.get(f"{provider.url}/200").status_code == 200
        assert time.monotonic() - before > 0.1


def test_of_a_pool_the_set_that_was_refused_pauses(client_of, provider):
    pool = LimitPool({"eu": LimitSet("100/second"), "us": LimitSet("100/second")})
    with client_of(pool, timeout=0) as client:
        client.get(f"{provider.url}/429?Retry-After=100")
        assert client.get(f"{provider.url}/200").status_code == 200
        client.get(f"{provider.url}/429?Retry-After=100")
        with pytest.raises(AcquireTimeout):
            client.get(f"{provider.url}/200")


def test_each_host_has_limits_of_its_own(provider):
    with by_httpx(LimitSet("1/day"), key=lambda request: request.url.host, timeout=0) as client:
        client.get(f"{provider.url}/200")
        client.get(f"{provider.url.replace('127.0.0.1', 'localhost')}/200")
        with pytest.raises(AcquireTimeout):
            client.get(f"{provider.url}/200")


def test_a_body_that_streams_holds_its_slot(provider):
    limits = LimitSet([ResourceLimit("slots", 1)])
    with by_httpx(limits) as client, client.stream("GET", f"{provider.url}/200") as answer:
        assert free(limits) == 0
        assert answer.read()
    assert free(limits) == 1
    with by_requests(limits) as session:
        answer = session.get(f"{provider.url}/200", stream=True)
        assert free(limits) == 0
        assert b"".join(answer.iter_content(100))
        assert free(limits) == 1
        with session.get(f"{provider.url}/200", stream=True):
            assert free(limits) == 0
        assert free(limits) == 1


def test_a_body_that_streams_for_long_is_renewed_at_a_servers_store(provider, redis_url):
    """Its slot was somebody else's after its ttl."""
    for number, open_client in enumerate((by_httpx, by_requests)):
        limits = LimitSet([ResourceLimit("slots", 1)], name=f"renewed by a client {number}", store=redis_url)
        with open_client(limits, ttl=4) as client:
            more = {"stream": True} if open_client is by_requests else {}
            with client.stream("GET", f"{provider.url}/200") if not more else client.get(f"{provider.url}/200", **more):
                time.sleep(6)
                assert not limits.try_acquire()
            assert limits.try_acquire()


def streamed_by_httpx(client, url):
    return client.send(client.build_request("GET", url), stream=True)


def streamed_by_requests(session, url):
    return session.get(url, stream=True)


@pytest.mark.parametrize("open_client, streamed", [(by_httpx, streamed_by_httpx), (by_requests, streamed_by_requests)])
def test_a_store_that_hangs_keeps_no_other_store_from_being_renewed(
    open_client, streamed, provider, redis_url, mortal_redis
):
    """One thread renewed all in turn: each of those at the store that hung held up the others for as
    long as it may take, and the slot at the other store was somebody else's meanwhile."""
    hangs, server = mortal_redis
    there = LimitSet([ResourceLimit("slots", 20)], name="hangs", store=f"{hangs}?deadline=1s")
    here = LimitSet([ResourceLimit("slots", 1)], name="beside one that hangs", store=redis_url)
    with open_client(there, ttl=3) as hanging, open_client(here, ttl=6) as renewed:
        answers = [streamed(hanging, f"{provider.url}/200") for _ in range(20)]
        server.send_signal(signal.SIGSTOP)
        answer = streamed(renewed, f"{provider.url}/200")
        time.sleep(10)
        assert not here.try_acquire()
        server.kill()
        answer.close()
        assert here.try_acquire()
        for answer in answers:
            answer.close()


def test_the_same_in_an_event_loop(provider, redis_url):
    limits = LimitSet([ResourceLimit("slots", 1)], name="renewed in a loop", store=redis_url)

    async def main():
        transport = AsyncLimitTransport(limits, ttl=4)
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            async with client.stream("GET", f"{provider.url}/200"):
                await asyncio.sleep(6)
                assert not await limits.async_try_acquire()
            assert await limits.async_try_acquire()

    asyncio.run(main())


def test_a_response_that_nobody_has_any_more_is_not_renewed(provider, redis_url):
    limits = LimitSet([ResourceLimit("slots", 1)], name="dropped", store=redis_url)
    with by_httpx(limits, ttl=1) as client:
        answer = client.send(client.build_request("GET", f"{provider.url}/200"), stream=True)
        assert not limits.try_acquire()
        del answer
        gc.collect()
        limits.acquire(timeout=60).release()


NOW = 1_700_000_000


@pytest.mark.parametrize(
    "status, headers, seconds",
    [
        (429, {"retry-after": "7"}, 7),
        (429, {"retry-after": "1.5"}, 1.5),
        (429, {"retry-after": "7", "retry-after-ms": "250"}, 0.25),
        (503, {"retry-after": formatdate(NOW + 30, usegmt=True), "date": formatdate(NOW, usegmt=True)}, 30),
        (429, {"retry-after": formatdate(NOW - 30, usegmt=True), "date": formatdate(NOW, usegmt=True)}, 0),
        (200, {"retry-after": "7"}, None),
        (301, {"retry-after": "7"}, None),
        (429, {}, None),
        (429, {"retry-after": "soon"}, None),
        (429, {"retry-after": f"Mon, 01 Jan {'9' * 20} 00:00:00 GMT"}, None),
        (429, {"retry-after": "-1"}, None),
        (429, {"retry-after": "9" * 5_000}, None),
        (429, {"retry-after": "\u0661"}, None),
        (200, {"ratelimit": '"burst";r=3;t=9, "daily";r=0;t=60'}, 60),
        (200, {"ratelimit": '"burst";t=9;r=0,"daily";r=0;pk=:dHJ=:;t=60'}, 60),
        (200, {"ratelimit": '"a;r=0;t=5";r=1;t=60'}, None),
        (200, {"ratelimit": '"a\\";r=0;t=5";r=10;t=60'}, None),
        # The 7th draft, the 6th, and what most APIs had before any.
        (200, {"ratelimit": "limit=100, remaining=0, reset=30"}, 30),
        (200, {"ratelimit": "limit=100, remaining=1, reset=30"}, None),
        (200, {"ratelimit-limit": "100", "ratelimit-remaining": "0", "ratelimit-reset": "30"}, 30),
        (200, {"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "30"}, 30),
        (200, {"x-ratelimit-remaining": "1", "x-ratelimit-reset": "30"}, None),
        (200, {"x-ratelimit-remaining": "0"}, None),
        (
            403,
            {
                "x-ratelimit-remaining": "0",
                "x-ratelimit-reset": str(NOW + 90),
                "date": formatdate(NOW, usegmt=True),
            },
            90,
        ),
        (200, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(NOW - 90), "date": formatdate(NOW, usegmt=True)}, 0),
        (200, {"ratelimit": '"a";r=0;t=60', "age": "5"}, None),
        (200, {"ratelimit": '"a";r=0'}, None),
        (429, {"ratelimit": '"a";r=0;t=60', "retry-after": "61"}, 61),
    ],
)
def test_what_an_answer_says_of_when_to_come_again(status, headers, seconds):
    assert pause(status, headers) == seconds


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda session: pickle.loads(pickle.dumps(session))])
def test_a_session_that_is_copied_keeps_its_limits(provider, again, store_url, tmp_path):
    """It had none, and failed with its first request."""
    limits = LimitSet([CallLimit(2, "per_hour")], name=f"copied-{tmp_path.name}", store=store_url)
    session = by_requests(limits, timeout=0)
    assert session.get(f"{provider.url}/200").status_code == 200
    other = again(session)
    assert other.get(f"{provider.url}/200").status_code == 200
    with pytest.raises(AcquireTimeout):
        other.get(f"{provider.url}/200")
