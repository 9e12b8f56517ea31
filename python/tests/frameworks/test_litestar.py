"""Litestar: the ASGI middleware at any of its layers."""

import pytest
from litestar import Litestar, WebSocket, get, websocket
from litestar.exceptions import NotAuthorizedException
from litestar.middleware import DefineMiddleware
from litestar.response import Stream
from litestar.testing import TestClient

from tidegate import CallLimit, LimitSet, ResourceLimit
from tidegate.frameworks.asgi import LimitMiddleware

KEY = "everybody"


def free(limits):
    with limits.try_acquire(key=KEY) as looked:
        return looked.remaining["slots"] + bool(looked)


def client_of(limits, around):
    @get("/forbidden")
    async def forbidden() -> None:
        raise NotAuthorizedException

    @get("/broken")
    async def broken() -> None:
        raise RuntimeError("mine")

    @get("/stream")
    async def stream() -> Stream:
        async def body():
            for _ in range(3):
                yield str(free(limits))

        return Stream(body())

    @websocket("/echo")
    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text(str(free(limits)))
        await socket.close()

    handlers = [forbidden, broken, stream, echo]
    key = lambda scope: KEY
    if around:
        app = LimitMiddleware(Litestar(handlers), limits, key=key)
    else:
        app = Litestar(handlers, middleware=[DefineMiddleware(LimitMiddleware, limits=limits, key=key)])
    return TestClient(app, raise_server_exceptions=False)


@pytest.mark.parametrize("around", [False, True])
def test_its_answers_errors_streams_and_websockets_hold_their_slots_and_have_the_fields(around):
    limits = LimitSet([CallLimit(100, "per_day"), ResourceLimit("slots", 1)])
    with client_of(limits, around) as client:
        for path, status, text in [("/forbidden", 401, None), ("/broken", 500, None), ("/stream", 200, "000")]:
            answer = client.get(path)
            assert answer.status_code == status and text in (None, answer.text)
            assert answer.headers["RateLimit"].startswith('"calls";r=')
            assert free(limits) == 1
        with client.websocket_connect("/echo") as socket:
            assert socket.receive_text() == "0"
        assert client.get("/none").status_code == 404
        assert ("RateLimit" in client.get("/none").headers) is around


def test_a_handler_has_limits_of_its_own():
    @get("/", middleware=[DefineMiddleware(LimitMiddleware, limits=LimitSet("1/day"), key=lambda scope: KEY)])
    async def export() -> str:
        return "a file"

    @get("/other")
    async def other() -> str:
        return "other"

    with TestClient(Litestar([export, other])) as client:
        assert [client.get("/").status_code for _ in range(2)] == [200, 429]
        assert client.get("/").json()["code"] == "refused"
        assert client.get("/other").status_code == 200
