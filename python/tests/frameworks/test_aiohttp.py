"""aiohttp's server, asked over real connections."""

import asyncio
import contextlib
import threading

import aiohttp
import pytest
from aiohttp import web

from tidegate import CallLimit, LimitSet, ResourceLimit
from tidegate.frameworks.aiohttp import limit_requests


def slots(count=1):
    return LimitSet([CallLimit(100, "per_day"), ResourceLimit("slots", count)])


def free(limits):
    with limits.try_acquire(key="127.0.0.1") as looked:
        return looked.remaining["slots"] + bool(looked)


def app_of(limits, **more):
    async def root(request):
        return web.Response(text=str(free(limits)))

    async def forbidden(request):
        raise web.HTTPForbidden

    async def broken(request):
        raise RuntimeError("mine")

    async def stream(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(3):
            await response.write(str(free(limits)).encode())
        return response

    async def echo(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data)
        return socket

    async def busy(request):
        await asyncio.sleep(0.001)
        return web.Response(text=threading.current_thread().name)

    app = web.Application()
    for handler in (root, forbidden, broken, stream, echo, busy):
        app.router.add_get(f"/{handler.__name__}", handler)
    limit_requests(app, limits, **more)
    return app


@contextlib.asynccontextmanager
async def served(app):
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            yield session
    finally:
        await runner.cleanup()


def test_any_answer_has_the_fields_and_gives_its_slot_back():
    async def main():
        limits = slots()
        async with served(app_of(limits)) as session:
            for number, (path, status, text) in enumerate(
                [("root", 200, "0"), ("forbidden", 403, None), ("broken", 500, None), ("stream", 200, "000")]
            ):
                async with session.get(f"/{path}") as answer:
                    assert answer.status == status and text in (None, await answer.text())
                    assert answer.headers["RateLimit-Policy"].startswith('"calls";q=100;w=86400,"slots"')
                    assert answer.headers.getall("RateLimit") == [f'"calls";r={99 - number},"slots";r=0']
                # A handler has returned a little before its client has read the end.
                (await limits.async_acquire({"calls": 0}, 60, key="127.0.0.1")).release()

    asyncio.run(main())


def test_a_refusal_says_when_to_come_again_and_whose_key_is_none_is_not_limited():
    async def main():
        key = lambda request: request.headers.get("x-user")
        async with served(app_of(LimitSet("1/day"), key=key)) as session:

            async def get(user):
                async with session.get("/forbidden", headers={"x-user": user} if user else {}) as answer:
                    return answer.status, answer.headers, await answer.read()

            assert (await get("a"))[0] == 403
            status, headers, body = await get("a")
            assert status == 429 and int(headers["Retry-After"]) > 80_000 and b'"refused"' in body
            assert headers["Content-Type"] == "application/problem+json"
            assert [(await get(user))[0] for user in ("b", None, None)] == [403] * 3

    asyncio.run(main())


def test_a_websocket_holds_its_slot_while_it_is_connected():
    async def main():
        limits = slots()
        async with served(app_of(limits)) as session:
            async with session.ws_connect("/echo") as socket:
                await socket.send_str("hello")
                assert (await socket.receive()).data == "hello"
                assert free(limits) == 0
                with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                    await session.ws_connect("/echo")
                assert refused.value.status == 429
            await limits.async_acquire(timeout=60, key="127.0.0.1")

    asyncio.run(main())


def test_requests_wait_for_their_turn_without_a_thread():
    async def main():
        limits = slots()
        async with served(app_of(limits, timeout=60)) as session:

            async def get():
                async with session.get("/busy") as answer:
                    return answer.status, await answer.text()

            return set(await asyncio.gather(*(get() for _ in range(20))))

    assert asyncio.run(main()) == {(200, "MainThread")}


def test_limits_of_an_application_and_of_its_sub_application_are_told_together():
    async def main():
        app = web.Application()
        app.add_subapp("/inner/", app_of(slots()))
        limit_requests(app, LimitSet("10/day"))
        async with served(app) as session, session.get("/inner/root") as answer:
            return answer.headers.getall("RateLimit")

    assert asyncio.run(main()) == ['"calls";r=9', '"calls";r=99,"slots";r=0']
