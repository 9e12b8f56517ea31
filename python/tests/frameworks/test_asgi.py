"""LimitMiddleware and the dependency, in Starlette and FastAPI."""

import asyncio
import socket
import threading

import pytest
import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Query, WebSocket
from fastapi.responses import StreamingResponse
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse

from tidegate import CallLimit, LimitSet, RateLimit, ResourceLimit
from tidegate.frameworks._gate import Gate
from tidegate.frameworks.asgi import LimitMiddleware
from tidegate.frameworks.fastapi import limit_requests


def slots(count=1, calls=100):
    return LimitSet([CallLimit(calls, "per_day"), ResourceLimit("slots", count)])


def free(limits, name="slots", **named):
    with limits.try_acquire(**named) as looked:
        return looked.remaining[name] + bool(looked)


async def broken(request):
    raise RuntimeError("mine")


async def quick(request):
    return PlainTextResponse("done")


def test_an_answer_has_the_fields_and_a_refusal_when_to_come_again():
    app = Starlette(routes=[Route("/", quick)])
    client = TestClient(LimitMiddleware(app, LimitSet("2/day")))
    first = client.get("/")
    assert first.headers["ratelimit-policy"] == '"calls";q=2;w=86400'
    assert first.headers["ratelimit"] == '"calls";r=1'
    assert "retry-after" not in first.headers
    client.get("/")
    refused = client.get("/")
    assert refused.status_code == 429
    later = int(refused.headers["retry-after"])
    assert 43_000 < later <= 43_200
    assert refused.headers["ratelimit"] == f'"calls";r=0;t={later}'
    assert refused.headers["content-type"] == "application/problem+json"
    problem = refused.json()
    assert problem["code"] == "refused" and problem["violated-policies"] == ["calls"]
    assert problem["type"].endswith("#quota-exceeded") and problem["status"] == 429


def test_each_client_has_limits_of_its_own_and_an_exempt_one_none():
    app = Starlette(routes=[Route("/", quick), Route("/health", quick)])
    limits = LimitSet("1/day")
    key = lambda scope: None if scope["path"] == "/health" else dict(scope["headers"]).get(b"x-user", b"?").decode()
    client = TestClient(LimitMiddleware(app, limits, key=key))
    get = lambda path, user: client.get(path, headers={"x-user": user}).status_code
    assert [get("/", "a"), get("/", "b"), get("/", "a")] == [200, 200, 429]
    assert [get("/health", "a")] * 3 == [200] * 3


@pytest.mark.parametrize(
    "address, key",
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::9", "2001:db8:1:2::"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::"),
        ("testclient", "testclient"),
        (None, "unknown"),
    ],
)
def test_a_client_of_ipv6_is_its_network(address, key):
    from tidegate.frameworks.asgi import client_address

    assert client_address({"client": address and (address, 1)}) == key


@pytest.mark.parametrize("outermost", [True, False])
def test_errors_have_the_fields_and_give_slots_back(outermost):
    limits = slots()

    async def forbidden(request):
        raise HTTPException(403)

    app = Starlette(routes=[Route("/forbidden", forbidden), Route("/broken", broken)])
    if outermost:
        app = LimitMiddleware(app, limits)
    else:
        app.add_middleware(LimitMiddleware, limits=limits)
    client = TestClient(app, raise_server_exceptions=False)
    answer = client.get("/forbidden")
    assert answer.status_code == 403 and '"calls";r=99,"slots";r=0' == answer.headers["ratelimit"]
    answer = client.get("/broken")
    assert answer.status_code == 500
    # Starlette's own 500 is made outside of what `add_middleware` adds.
    assert ("ratelimit" in answer.headers) is outermost
    assert free(limits, key="testclient") == 1


def test_a_streaming_response_holds_its_slot_until_the_body_ends():
    limits = slots()
    seen = []

    async def stream(request):
        async def body():
            for _ in range(3):
                seen.append(free(limits, key="testclient"))
                yield b"part"

        def after():
            seen.append(free(limits, key="testclient"))

        return StreamingResponse(body(), background=BackgroundTask(after))

    client = TestClient(LimitMiddleware(Starlette(routes=[Route("/", stream)]), limits))
    answer = client.get("/")
    assert answer.content == b"part" * 3 and "ratelimit" in answer.headers
    # What runs in the background after the answer is no request.
    assert seen == [0, 0, 0, 1]


def test_a_websocket_holds_its_slot_while_it_is_connected():
    limits = slots()

    async def echo(websocket):
        await websocket.accept()
        async for text in websocket.iter_text():
            await websocket.send_text(text)

    client = TestClient(LimitMiddleware(Starlette(routes=[WebSocketRoute("/", echo)]), limits))
    with client.websocket_connect("/") as websocket:
        websocket.send_text("hello")
        assert websocket.receive_text() == "hello"
        assert free(limits, key="testclient") == 0
        with pytest.raises(WebSocketDenialResponse) as refused:
            client.websocket_connect("/").__enter__()
        assert refused.value.status_code == 429
    assert free(limits, key="testclient") == 1


def test_a_websocket_of_a_server_without_denials_is_closed_unaccepted():
    async def app(scope, receive, send):
        raise AssertionError("it was refused")

    async def refused():
        limits = LimitSet("1/day")
        limits.try_acquire(key="unknown")
        sent = []

        async def receive():
            return {"type": "websocket.connect"}

        async def send(message):
            sent.append(message)

        await LimitMiddleware(app, limits)({"type": "websocket"}, receive, send)
        return sent

    assert asyncio.run(refused()) == [{"type": "websocket.close", "code": 1013}]


def test_a_request_may_wait_for_its_turn_and_no_thread_does():
    limits = slots()
    threads = set()

    async def work(request):
        threads.add(threading.current_thread())
        await asyncio.sleep(0.001)
        return PlainTextResponse("done")

    app = LimitMiddleware(Starlette(routes=[Route("/", work)]), limits, timeout=60)

    async def get():
        sent = []

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
        await app(scope, receive, send)
        return sent[0]["status"]

    async def main():
        before = threading.active_count()
        statuses = await asyncio.gather(*(get() for _ in range(20)))
        return statuses, threading.active_count() - before

    statuses, more_threads = asyncio.run(main())
    assert statuses == [200] * 20
    assert threads == {threading.main_thread()} and more_threads == 0


def test_a_wait_that_cannot_end_in_time_is_refused_at_once():
    client = TestClient(LimitMiddleware(Starlette(routes=[Route("/", quick)]), LimitSet("1/day"), timeout=30))
    assert client.get("/").status_code == 200
    refused = client.get("/")
    assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 86_000
    assert refused.headers["ratelimit-policy"] == '"calls";q=1;w=86400'
    assert refused.headers["ratelimit"].startswith('"calls";r=0;t=86')


def test_a_request_for_more_than_there_ever_is_is_no_429():
    limits = LimitSet(RateLimit("tokens", 100, "per_day"))
    app = LimitMiddleware(
        Starlette(routes=[Route("/", quick)]), limits, requested=lambda scope: {"tokens": int(scope["query_string"])}
    )
    client = TestClient(app)
    assert client.get("/?40").headers["ratelimit"] == '"tokens";r=60'
    assert client.get("/?40").headers["ratelimit-policy"] == '"tokens";q=100;w=86400;tidegate-qu="units"'
    assert client.get("/?101").status_code == 422


@pytest.mark.parametrize("mode, status", [("deny", 503), ("admit", 200)])
def test_without_its_store_a_request_gets_what_the_failure_mode_says(mortal_redis, mode, status):
    url, server = mortal_redis
    limits = LimitSet("10/day", name="away", store=url)
    client = TestClient(LimitMiddleware(Starlette(routes=[Route("/", quick)]), limits, failure_mode=mode))
    assert client.get("/").status_code == 200
    server.kill()
    server.wait()
    answer = client.get("/")
    assert answer.status_code == status
    if mode == "deny":
        assert answer.json()["code"] == "unavailable" and "127.0.0.1" not in answer.text


def test_a_long_connection_is_renewed_at_a_servers_store(redis_url):
    limits = LimitSet([ResourceLimit("slots", 1, ttl=4)], name="renewed", store=redis_url)

    async def app(scope, receive, send):
        await asyncio.sleep(6)
        assert not await limits.async_try_acquire(key="unknown")

    asyncio.run(LimitMiddleware(app, limits)({"type": "websocket"}, None, None))
    assert limits.try_acquire(key="unknown")


# The dependency.


def api(limits, **more):
    app = FastAPI()
    guard = Depends(limit_requests(limits, **more))

    @app.get("/value", dependencies=[guard])
    async def value():
        return {"free": free(limits, key="testclient")}

    @app.get("/error", dependencies=[guard])
    async def error():
        raise HTTPException(418, headers={"x-mine": "1"})

    @app.get("/stream", dependencies=[guard])
    async def stream():
        async def body():
            for _ in range(2):
                yield str(free(limits, key="testclient"))

        return StreamingResponse(body())

    @app.websocket("/socket", dependencies=[guard])
    async def socket(websocket: WebSocket):
        await websocket.accept()
        await websocket.send_text(str(free(limits, key="testclient")))
        await websocket.receive_text()

    return app


def test_a_path_has_limits_of_its_own():
    limits = slots()
    client = TestClient(LimitMiddleware(api(limits)))
    answer = client.get("/value")
    assert answer.json() == {"free": 0}
    assert answer.headers["ratelimit"] == '"calls";r=99,"slots";r=0'
    answer = client.get("/error")
    assert answer.status_code == 418 and answer.headers["x-mine"] == "1" and "ratelimit" in answer.headers
    answer = client.get("/stream")
    assert answer.text == "00" and "ratelimit" in answer.headers
    with client.websocket_connect("/socket") as websocket:
        assert websocket.receive_text() == "0"
        with pytest.raises(WebSocketDenialResponse) as refused:
            client.websocket_connect("/socket").__enter__()
        assert refused.value.status_code == 429
        refused = client.get("/value")
        assert refused.status_code == 429 and refused.headers["ratelimit"] == '"calls";r=96,"slots";r=0'
        websocket.send_text("bye")
    assert free(limits, key="testclient") == 1


def test_limits_of_a_path_and_of_all_are_told_together():
    app = LimitMiddleware(api(LimitSet("5/day")), LimitSet("100/day"))
    assert TestClient(app).get("/error").headers.get_list("ratelimit") == ['"calls";r=99', '"calls";r=4']


def test_key_and_amounts_of_a_path_are_dependencies_themselves():
    limits = LimitSet(RateLimit("tokens", 100, "per_day"))

    async def user(name: str = Query()):
        return None if name == "root" else name

    async def amounts(size: int = Query()):
        return {"tokens": size}

    app = FastAPI()

    @app.get("/")
    async def chat(acquired=Depends(limit_requests(limits, key=user, requested=amounts))):
        if acquired is None:
            return "unlimited"
        acquired.update({"tokens": 5})
        return acquired.remaining["tokens"]

    client = TestClient(app)
    assert client.get("/?name=a&size=60").json() == 40
    assert client.get("/?name=a&size=60").json() == 35
    assert client.get("/?name=b&size=100").json() == 0
    assert client.get("/?name=root&size=100").json() == "unlimited"
    assert client.get("/?name=b&size=99").status_code == 429
    assert client.get("/?name=a&size=101").status_code == 422


def test_limits_that_are_none_are_told_when_the_application_is_made():
    with pytest.raises(TypeError, match="LimitSet"):
        limit_requests("10/day")
    with pytest.raises(ValueError, match="'deny' or 'admit'"):
        LimitMiddleware(None, LimitSet("1/day"), failure_mode="open")


# A real server.


def test_a_client_that_goes_away_in_the_middle_of_a_stream_gives_its_slot_back():
    limits = slots()

    async def endless():
        while True:
            yield b"part"
            await asyncio.sleep(0.001)

    async def stream(request):
        return StreamingResponse(endless())

    app = LimitMiddleware(Starlette(routes=[Route("/", stream)]), limits)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            with socket.create_connection(listener.getsockname()) as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b"200 OK" in client.recv(64)
                assert free(limits, key="127.0.0.1") == 0
            # It waits until the server has noticed.
            limits.acquire(timeout=60, key="127.0.0.1").release()
        finally:
            server.should_exit = True
            thread.join()


def test_what_is_taken_together_is_renewed_in_time_for_the_shortest_of_it(redis_url):
    slots = [ResourceLimit("long", 1, ttl=3_600), ResourceLimit("short", 1, ttl=4)]
    limits = LimitSet(slots, name="both", store=redis_url)

    async def app(scope, receive, send):
        await asyncio.sleep(6)
        assert (await limits.async_try_acquire(key="unknown")).limit is not None

    asyncio.run(LimitMiddleware(app, limits)({"type": "websocket"}, None, None))
    assert limits.try_acquire(key="unknown")
