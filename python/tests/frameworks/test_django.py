"""Django's middleware and views, and Django REST framework's throttle."""

import asyncio
import concurrent.futures
import threading

import django
import pytest
from django.conf import settings

settings.configure(
    ALLOWED_HOSTS=["*"],
    DEBUG=False,
    ROOT_URLCONF=__name__,
    SECRET_KEY="of a test",
    MIDDLEWARE=[f"{__name__}.of_all"],
    REST_FRAMEWORK={"DEFAULT_AUTHENTICATION_CLASSES": [], "UNAUTHENTICATED_USER": None},
)
django.setup()

from django.core.cache.backends.locmem import LocMemCache
from django.http import HttpResponse, StreamingHttpResponse
from django.test import AsyncClient, Client, RequestFactory, override_settings
from django.urls import path
from django.views import View
from rest_framework.decorators import api_view, throttle_classes
from rest_framework.exceptions import APIException
from rest_framework.response import Response
from rest_framework.throttling import SimpleRateThrottle

from tidegate import CallLimit, LimitSet, RateLimit, ResourceLimit
from tidegate.frameworks.django import limit_requests
from tidegate.frameworks.rest_framework import LimitThrottle
from tidegate.testing import ManualClock

HELD = LimitSet([CallLimit(1_000_000, "per_day"), ResourceLimit("slots", 1)])
of_all = limit_requests(HELD)


def free(limits=HELD, key="127.0.0.1"):
    with limits.try_acquire(key=key) as looked:
        return looked.remaining["slots"] + bool(looked)


@limit_requests(LimitSet("1/day"), key=lambda request: request.headers.get("x-user"))
def own(request):
    return HttpResponse(str(free()))


@limit_requests(LimitSet("1/day"), key=lambda request: request.headers.get("x-user"))
async def async_own(request, word):
    assert threading.current_thread() is threading.main_thread()
    return HttpResponse(word)


def broken(request):
    raise RuntimeError("mine")


def stream(request):
    return StreamingHttpResponse(str(free()) for _ in range(3))


async def async_stream(request):
    async def body():
        for _ in range(3):
            yield str(free())

    return StreamingHttpResponse(body())


@limit_requests(LimitSet(RateLimit("bytes", 100, "per_day")), requested=lambda request: {"bytes": len(request.body)})
def sized(request):
    return HttpResponse("taken")


class Throttle(LimitThrottle):
    limits = LimitSet("1/day")

    def get_key(self, request, view):
        return request.headers.get("x-user") or super().get_key(request, view)


@api_view()
@throttle_classes([Throttle])
def throttled(request):
    return Response("done")


urlpatterns = [
    path("own", own),
    path("async-own/<word>", async_own),
    path("broken", broken),
    path("stream", stream),
    path("async-stream", async_stream),
    path("sized", sized),
    path("throttled", throttled),
]


def test_a_class_with_async_methods_is_an_async_view():
    class Shown(View):
        async def get(self, request):
            return HttpResponse("shown")

    view = limit_requests(LimitSet("1/day"))(Shown.as_view())
    request = RequestFactory().get("/")

    async def main():
        return [(await view(request)).status_code for _ in range(2)]

    assert asyncio.run(main()) == [200, 429]


def test_a_view_that_outlasts_what_it_holds_answers_all_the_same():
    clock = ManualClock()
    slow = LimitSet([ResourceLimit("slots", 1, ttl=1)], clock=clock)

    @limit_requests(slow)
    def view(request):
        clock.advance(1_000)
        assert slow.try_acquire(key="127.0.0.1").successful
        return HttpResponse("late")

    assert view(RequestFactory().get("/")).content == b"late"


def test_a_view_has_limits_of_its_own_beside_those_of_all():
    client = Client()
    answer = client.get("/own", headers={"x-user": "a"})
    assert answer.content == b"0" and free() == 1
    assert answer["RateLimit-Policy"] == (
        '"calls";q=1;w=86400,"calls";q=1000000;w=86400,"slots";q=1;qu="concurrent-requests"'
    )
    assert answer["RateLimit"].startswith('"calls";r=0,"calls";r=')
    refused = client.get("/own", headers={"x-user": "a"})
    assert refused.status_code == 429 and refused["Content-Type"] == "application/problem+json"
    assert int(refused["Retry-After"]) > 80_000 and refused.json()["code"] == "refused"
    assert client.get("/own", headers={"x-user": "b"}).status_code == 200
    # Whose key is `None` is not limited.
    assert [client.get("/own").status_code for _ in range(3)] == [200] * 3


def test_an_async_view_stays_in_its_event_loop():
    async def main():
        client = AsyncClient()
        return [(await client.get("/async-own/hello", headers={"x-user": user})).status_code for user in "aab"]

    assert asyncio.run(main()) == [200, 429, 200]


def test_an_error_has_the_fields_and_gives_its_slot_back():
    answer = Client(raise_request_exception=False).get("/broken")
    assert answer.status_code == 500 and "RateLimit" in answer
    assert free() == 1


def test_a_streaming_response_holds_its_slot_until_it_is_closed():
    answer = Client().get("/stream")
    assert answer.getvalue() == b"000" and "RateLimit" in answer
    assert free() == 1
    # A client that goes away before the body began.
    answer = Client().get("/stream")
    assert free() == 0
    answer.close()
    assert free() == 1


def test_an_async_streaming_response_does_so_too():
    async def main():
        answer = await AsyncClient().get("/async-stream")
        return b"".join([part async for part in answer.streaming_content]), answer

    body, answer = asyncio.run(main())
    assert body == b"000"
    answer.close()
    assert free() == 1


def test_a_request_takes_as_much_as_it_says():
    client = Client()
    post = lambda size: client.post("/sized", b"x" * size, content_type="text/plain").status_code
    assert [post(60), post(60), post(101)] == [200, 429, 422]


@pytest.mark.parametrize("mode, status", [("deny", 503), ("admit", 200)])
def test_without_its_store_a_request_gets_what_the_failure_mode_says(mortal_redis, mode, status):
    url, server = mortal_redis
    view = limit_requests(LimitSet("10/day", name="away", store=url), failure_mode=mode)(lambda request: HttpResponse())
    request = RequestFactory().get("/")
    assert view(request).status_code == 200
    server.kill()
    server.wait()
    assert view(request).status_code == status


# The throttle.


def test_a_throttled_answer_says_when_to_come_again():
    client = Client()
    get = lambda **headers: client.get("/throttled", headers=headers)
    assert get(**{"x-user": "a"}).status_code == 200
    refused = get(**{"x-user": "a"})
    assert refused.status_code == 429 and int(refused["Retry-After"]) > 80_000
    assert get(**{"x-user": "b"}).status_code == 200


def test_a_client_does_not_choose_whose_it_is_by_a_header():
    client = Client()
    get = lambda: client.get("/throttled", headers={"x-forwarded-for": str(next(addresses))}).status_code
    addresses = iter(f"192.0.2.{last}" for last in range(9))
    assert [get(), get()] == [200, 429]
    with override_settings(REST_FRAMEWORK={**settings.REST_FRAMEWORK, "NUM_PROXIES": 1}):
        assert [get(), get()] == [200, 200]


def test_a_throttle_without_limits_or_with_slots_is_told_when_it_is_written():
    with pytest.raises(TypeError, match="LimitSet"):
        type("Without", (LimitThrottle,), {})
    with pytest.raises(TypeError, match="ResourceLimit"):
        type("Holding", (LimitThrottle,), {"limits": HELD})


def test_a_throttle_without_its_store_does_what_its_failure_mode_says(mortal_redis):
    url, server = mortal_redis
    limits = LimitSet("10/day", name="away", store=url)
    deny = type("Deny", (LimitThrottle,), {"limits": limits, "get_key": lambda *_: "k"})
    admit = type("Admit", (deny,), {"failure_mode": "admit"})
    server.kill()
    server.wait()
    with pytest.raises(APIException) as raised:
        deny().allow_request(None, None)
    assert raised.value.status_code == 503
    assert admit().allow_request(None, None)


THREADS = 8


class TogetherCache(LocMemCache):
    """Django's own, whose first readers have all read before any of them writes."""

    together = threading.Barrier(THREADS)

    def get(self, *arguments, **named):
        read = super().get(*arguments, **named)
        self.together.wait(timeout=60)
        return read


class Theirs(SimpleRateThrottle):
    rate = "1/day"
    cache = TogetherCache("together", {})

    def get_cache_key(self, request, view):
        return "everybody"


class Ours(LimitThrottle):
    limits = LimitSet("1/day")

    def get_key(self, request, view):
        return "everybody"


def admitted_at_once(throttle):
    start = threading.Barrier(THREADS)

    def ask(_):
        start.wait(timeout=60)
        return throttle().allow_request(None, None)

    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        return sum(threads.map(ask, range(THREADS)))


def test_of_requests_at_the_same_time_the_frameworks_throttle_admits_all_and_this_one_its_limit():
    # It reads, appends and writes: what happens between is lost.
    assert admitted_at_once(Theirs) == THREADS
    assert admitted_at_once(Ours) == 1
