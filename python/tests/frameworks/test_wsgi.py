"""LimitMiddleware of WSGI, in Flask and beneath a real server."""

import socket
import threading
import time
import wsgiref.simple_server

import pytest
from flask import Flask, abort

from tidegate import CallLimit, LimitSet, ResourceLimit
from tidegate.frameworks import http
from tidegate.frameworks.wsgi import LimitMiddleware, client_address


def slots(count=1):
    return LimitSet([CallLimit(100, "per_day"), ResourceLimit("slots", count)])


def free(limits):
    with limits.try_acquire(key="127.0.0.1") as looked:
        return looked.remaining["slots"] + bool(looked)


def app_of(limits, **more):
    app = Flask(__name__)
    app.add_url_rule("/", "root", lambda: str(free(limits)))
    app.add_url_rule("/forbidden", "forbidden", lambda: abort(403))
    app.add_url_rule("/broken", "broken", lambda: 1 // 0)
    app.add_url_rule("/stream", "stream", lambda: (str(free(limits)) for _ in range(3)))
    app.wsgi_app = LimitMiddleware(app.wsgi_app, limits, **more)
    return app


def test_an_answer_has_the_fields_and_a_refusal_when_to_come_again():
    limits = LimitSet("1/day")
    client = app_of(limits, key=lambda environ: environ.get("HTTP_X_USER")).test_client()
    get = lambda user: client.get("/forbidden", headers={"X-User": user} if user else {})
    assert get("a").headers["RateLimit"] == '"calls";r=0'
    refused = get("a")
    assert refused.status == "429 Too Many Requests" and int(refused.headers["Retry-After"]) > 80_000
    assert refused.json["violated-policies"] == ["calls"]
    assert get("b").status_code == 403
    assert [get(None).status_code for _ in range(3)] == [403] * 3


@pytest.mark.parametrize("path, status", [("/", 200), ("/forbidden", 403), ("/broken", 500), ("/none", 404)])
def test_any_answer_has_the_fields_and_gives_its_slot_back(path, status):
    limits = slots()
    with app_of(limits).test_client() as client:
        with client.get(path, buffered=True) as answer:
            assert answer.status_code == status and answer.headers["RateLimit"] == '"calls";r=99,"slots";r=0'
    assert free(limits) == 1


def test_an_exception_beyond_the_application_gives_its_slot_back():
    limits = slots()

    def app(environ, start_response):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        LimitMiddleware(app, limits)({"REMOTE_ADDR": "127.0.0.1"}, None)
    assert free(limits) == 1


def test_a_stream_holds_its_slot_until_it_is_closed():
    limits = slots()
    client = app_of(limits).test_client()
    answer = client.get("/stream")
    assert answer.data == b"000"
    answer.close()
    assert free(limits) == 1
    answer = client.get("/stream")
    assert free(limits) == 0 and client.get("/").status_code == 429
    # Before its body began.
    answer.close()
    assert free(limits) == 1


def test_an_address_of_ipv6_is_its_network():
    assert client_address({"REMOTE_ADDR": "2001:db8:1:2:3::4"}) == "2001:db8:1:2::"
    assert client_address({}) == "unknown"


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *words):
        pass


def test_a_client_that_goes_away_in_the_middle_of_a_stream_gives_its_slot_back():
    limits = slots()

    def endless(environ, start_response):
        start_response("200 OK", [])
        while True:
            yield b"part" * 10_000

    app = LimitMiddleware(endless, limits)
    with wsgiref.simple_server.make_server("127.0.0.1", 0, app, handler_class=Quiet) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with socket.create_connection(server.server_address) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert b"200 OK" in client.recv(64)
            assert free(limits) == 0
        # It waits until the server has noticed.
        limits.acquire(timeout=60, key="127.0.0.1").release()
        thread.join()


def test_a_body_that_raises_is_a_request_that_failed():
    limits = slots()

    def app(environ, start_response):
        start_response("200 OK", [])
        yield b"begun"
        raise KeyError("mine")

    body = LimitMiddleware(app, limits)({"REMOTE_ADDR": "127.0.0.1"}, lambda *_: None)
    with pytest.raises(KeyError, match="mine"):
        list(body)
    assert free(limits) == 0
    body.close()
    assert limits.stats()["dropped"] == 1
    assert free(limits) == 1


def test_a_wait_that_ends_without_a_turn_says_where_the_limits_stand():
    limits, said = LimitSet([CallLimit(1, "per_day", name="calls")]), []
    app = LimitMiddleware(lambda environ, start: start("200 OK", []) or [], limits, timeout=30)
    app({"REMOTE_ADDR": "127.0.0.1"}, lambda *_: None).close()
    app({"REMOTE_ADDR": "127.0.0.1"}, lambda status, headers, *_: said.append((status, dict(headers))))
    [(status, headers)] = said
    assert status.startswith("429") and headers["RateLimit-Policy"] == '"calls";q=1;w=86400'
    assert headers["RateLimit"].startswith('"calls";r=0;t=8')


def test_without_a_timeout_a_request_waits_for_as_long_as_it_takes():
    limits, said = slots(), []
    app = LimitMiddleware(lambda environ, start: start("200 OK", []) or [], limits, timeout=None)
    held = limits.acquire(key=http.key_of_address("127.0.0.1"))

    def asks():
        app({"REMOTE_ADDR": "127.0.0.1"}, lambda status, *_: said.append(status)).close()

    thread = threading.Thread(target=asks)
    thread.start()
    while limits.stats()["waiting"] == 0:
        time.sleep(0.001)
    assert said == []
    held.release()
    thread.join()
    assert said == ["200 OK"]


def test_a_timeout_below_zero_waits_not_at_all():
    app, said = LimitMiddleware(lambda environ, start: start("200 OK", []) or [], LimitSet("1/day"), timeout=-1), []
    for _ in range(2):
        list(app({"REMOTE_ADDR": "127.0.0.1"}, lambda status, *_: said.append(status)))
    assert [status[:3] for status in said] == ["200", "429"]
