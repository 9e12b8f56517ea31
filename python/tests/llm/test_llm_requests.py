"""Calls by Requests."""

import copy
import gc
import gzip
import io
import json
import pickle
import socket
import threading

import pytest
from gateways import cut_is_charged, sdk, wish
from metered import NOTHING, PRICES, Account

from tidegate import CallLimit, LimitSet, RateLimit

requests = sdk("requests")

import urllib3  # noqa: E402

from tidegate.llm.requests import LlmAdapter  # noqa: E402

ASKED = {"model": "m", "messages": [{"role": "user", "content": "How high is the tide?"}], "max_tokens": 40}
ENDLESS = {"output": 40, "gap": "10ms", "silence": 8}


@pytest.fixture
def session():
    with requests.Session() as session:
        session.trust_env = False
        yield session


@pytest.fixture
def post(session, of_openai):
    session.mount("http://", LlmAdapter(of_openai.limits, prices=PRICES))

    def post(how, stream=False, **more):
        headers = {"authorization": f"Bearer {of_openai.secret}", **wish(**how)}
        url = f"{of_openai.provider.url}/v1/chat/completions"
        return session.post(url, json={**ASKED, "stream": stream, **more}, headers=headers, stream=stream)

    return post


def test_answers_are_charged_what_the_provider_billed(post, of_openai):
    assert post({"output": 7}).json()["usage"]["completion_tokens"] == 7
    with post({"output": 9}, stream=True, stream_options={"include_usage": True}) as answer:
        assert b"[DONE]" in answer.content
    assert of_openai.used()["running"] == 0
    assert of_openai.settles() == of_openai.billed()
    assert of_openai.billed().output == 7 + 9


#: As adapters that sign for AWS do, ``Accept-Encoding`` included.
SIGNED = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/bedrock/aws4_request, SignedHeaders={}, Signature=00"


@pytest.mark.parametrize("signed, encoding", [("accept-encoding;host", "gzip"), ("host", "identity")])
def test_a_header_that_is_signed_stays_as_it_is(monkeypatch, session, signed, encoding):
    """It was changed behind the signature: the provider refused each such call."""
    said = json.dumps({"usage": {"input_tokens": 9, "output_tokens": 3}}).encode()

    def send(self, request, *arguments, **named):
        asked.append(request.headers["Accept-Encoding"])
        is_packed = asked[-1] == "gzip"
        headers = {"content-encoding": "gzip"} if is_packed else {}
        body = io.BytesIO(gzip.compress(said) if is_packed else said)
        raw = urllib3.HTTPResponse(body=body, headers=headers, status=200, preload_content=False)
        return self.build_response(request, raw)

    asked = []
    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
    limits = LimitSet([RateLimit("tokens", 1_000, 86_400, "first_use_window")])
    session.mount("https://", LlmAdapter(limits))
    headers = {"authorization": SIGNED.format(signed), "accept-encoding": "gzip"}
    answer = session.post("https://bedrock/model/m/invoke", json={"max_tokens": 400, "messages": []}, headers=headers)
    assert answer.content == said and asked == [encoding]
    assert limits.peek()["tokens"]["remaining"] == 1_000 - 12


def by(read):
    """All that a function reads, call by call, until it reads nothing."""
    return b"".join(iter(read, b""))


def into(raw, buffer):
    return bytes(buffer[: raw.readinto(buffer)])


def buffered(raw):
    # Or urllib3 calls what was read to its end closed.
    raw.auto_close = False
    reader = io.BufferedReader(raw, 16)
    return by(lambda: reader.read(7))


READINGS = {
    "all": lambda raw: raw.read(),
    "parts": lambda raw: by(lambda: raw.read(7)),
    "read1": lambda raw: by(raw.read1),
    "read1 parts": lambda raw: by(lambda: raw.read1(7)),
    "readinto": lambda raw: by(lambda: into(raw, bytearray(7))),
    "buffered": buffered,
    "readline": lambda raw: by(raw.readline),
    "lines": lambda raw: b"".join(raw),
    "stream": lambda raw: b"".join(raw.stream(7)),
    "data": lambda raw: raw.data,
    "json": lambda raw: json.dumps(raw.json()).encode(),
}


STREAMED = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize(
    ("reading", "stream"),
    [(reading, stream) for reading in READINGS for stream in (False, True) if (reading, stream) != ("json", True)],
)
def test_a_body_is_charged_however_it_is_read(session, of_openai, reading, stream):
    session.mount("http://", LlmAdapter(of_openai.limits, prices=PRICES))
    url = f"{of_openai.provider.url}/v1/chat/completions"
    headers = {"authorization": f"Bearer {of_openai.secret}", **wish(output=11)}
    answer = session.post(url, json={**ASKED, **(STREAMED if stream else {})}, headers=headers, stream=True)
    assert READINGS[reading](answer.raw).endswith(b"[DONE]\n\n" if stream else b"}")
    # Its reading has ended the call: nobody has closed it or let it go.
    assert of_openai.settles() == of_openai.billed()
    assert of_openai.billed().output == 11
    answer.close()


def test_chunks_that_are_read_are_charged(session, of_openai):
    session.mount("http://", LlmAdapter(of_openai.limits, prices=PRICES))
    url = f"{of_openai.provider.url}/v1/chat/completions"
    headers = {"authorization": f"Bearer {of_openai.secret}", **wish(output=11)}
    answer = session.post(url, json={**ASKED, **STREAMED}, headers=headers, stream=True)
    assert b"[DONE]" in b"".join(answer.raw.read_chunked())
    assert of_openai.settles() == of_openai.billed()


@pytest.mark.parametrize("leave", ["close", "collect"])
def test_a_stream_that_is_left_is_charged_for_what_came(post, of_openai, leave):
    post({"output": 3})
    answer = post(ENDLESS, stream=True)
    assert of_openai.used()["running"] == 1
    came = sum(1 for line, _ in zip(answer.iter_lines(chunk_size=None), range(10)) if line)
    if leave == "close":
        answer.close()
    del answer
    gc.collect()
    # Of the events that came one says who speaks.
    cut_is_charged(of_openai, came - 1, before=1)


def test_an_answer_that_breaks_off_has_used_what_was_reserved(post, of_openai):
    post({"output": 3})
    with pytest.raises(requests.RequestException):
        post({"output": 40, "cut": 6})
    charged, billed = of_openai.settles(), of_openai.billed()
    assert (charged.calls, charged.input, charged.output) == (2, billed.input, 3 + 40)


@pytest.mark.parametrize("status", [429, 500])
def test_what_the_provider_refuses_is_charged_nothing(post, of_openai, status):
    assert post({"status": status}).status_code == status
    assert of_openai.settles() == NOTHING


def test_a_call_that_reaches_nobody_is_charged_nothing(session, of_openai):
    session.mount("http://", LlmAdapter(of_openai.limits, prices=PRICES))
    with pytest.raises(requests.ConnectionError):
        # Nobody listens at that port.
        session.post("http://127.0.0.1:1/v1/chat/completions", json=ASKED)
    assert of_openai.settles() == NOTHING


@pytest.fixture
def one_connection():
    """Starts what does something with the first connection to a port and is then gone; answers the port."""
    listeners, threads = [], []

    def start(serve):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run():
            connection, _ = listener.accept()
            listener.close()
            with connection:
                serve(connection)

        thread = threading.Thread(target=run)
        threads.append(thread)
        thread.start()
        return listener.getsockname()[1]

    yield start
    for thread in threads:
        thread.join()


def hears_a_request(connection):
    assert b"\r\n\r\n" in connection.recv(65_536)


def says_nothing(connection):
    while connection.recv(65_536):
        pass


def speaks_no_tls(connection):
    connection.recv(65_536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


DEAD = "http://127.0.0.1:1"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_call_that_no_proxy_takes_is_charged_nothing(session, of_openai, scheme):
    session.mount(f"{scheme}://", LlmAdapter(of_openai.limits, prices=PRICES))
    with pytest.raises(requests.exceptions.ProxyError):
        session.post(f"{scheme}://provider/v1/chat/completions", json=ASKED, proxies={scheme: DEAD})
    assert of_openai.settles() == NOTHING


def test_a_call_that_its_proxy_does_not_let_through_is_charged_nothing(session, of_openai, one_connection):
    session.mount("https://", LlmAdapter(of_openai.limits, prices=PRICES))
    # It has heard of a `CONNECT`, and nothing of the call.
    port = one_connection(hears_a_request)
    with pytest.raises(requests.ConnectionError):
        session.post(
            "https://provider/v1/chat/completions", json=ASKED, proxies={"https": f"http://127.0.0.1:{port}"}
        )
    assert of_openai.settles() == NOTHING


@pytest.mark.parametrize("serve", [speaks_no_tls, says_nothing])
def test_a_call_that_finds_no_tls_is_charged_nothing(session, of_openai, one_connection, serve):
    session.mount("https://", LlmAdapter(of_openai.limits, prices=PRICES))
    port = one_connection(serve)
    with pytest.raises((requests.exceptions.SSLError, requests.Timeout)):
        session.post(f"https://127.0.0.1:{port}/v1/chat/completions", json=ASKED, timeout=0.5)
    assert of_openai.settles() == NOTHING


@pytest.mark.parametrize("by_proxy", [False, True])
@pytest.mark.parametrize("retries", [0, 1])
def test_a_call_that_went_out_is_charged_though_nobody_answers(
    session, of_openai, one_connection, by_proxy, retries
):
    again = urllib3.Retry(retries, allowed_methods=None)
    session.mount("http://", LlmAdapter(of_openai.limits, prices=PRICES, max_retries=again))
    # What is sent again finds nobody: the first may have been served all the same.
    there = f"http://127.0.0.1:{one_connection(hears_a_request)}"
    with pytest.raises(requests.ConnectionError):
        session.post(
            f"{'http://provider' if by_proxy else there}/v1/chat/completions",
            json=ASKED,
            proxies={"http": there} if by_proxy else None,
        )
    assert (of_openai.settles().calls, of_openai.settles().output) == (1, 40)


def test_a_limit_refuses_in_the_words_of_the_provider(session, of_openai):
    session.mount("http://", LlmAdapter(LimitSet([CallLimit(1, "per_day")]), timeout=0))
    url = f"{of_openai.provider.url}/v1/chat/completions"
    headers = {"authorization": f"Bearer {of_openai.secret}"}
    assert session.post(url, json=ASKED, headers=headers).status_code == 200
    refused = session.post(url, json=ASKED, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert int(refused.headers["retry-after"]) > 0
    assert of_openai.ledger()["calls"] == 1


@pytest.mark.parametrize("lines", [iter, requests.Response.iter_lines])
def test_a_stream_that_is_read_by_lines_is_charged_for_its_usage(post, of_openai, lines):
    """The end of its connection had no lines."""
    with post({"output": 9}, stream=True, stream_options={"include_usage": True}) as answer:
        read = list(lines(answer.raw if lines is iter else answer))
    assert read[-2].strip() == b"data: [DONE]"
    assert of_openai.settles() == of_openai.billed()


def is_charged(session, account, adapter):
    session.mount("http://", adapter)
    url = f"{account.provider.url}/v1/chat/completions"
    headers = {"authorization": f"Bearer {account.secret}", **wish(output=7)}
    assert session.post(url, json=ASKED, headers=headers).status_code == 200
    assert account.settles() == account.billed()
    assert account.billed().output == 7


def test_a_copy_of_an_adapter_has_its_limits(session, of_openai):
    """It had none, and failed with its first call; so did what was pickled."""
    is_charged(session, of_openai, copy.copy(LlmAdapter(of_openai.limits, prices=PRICES)))


def test_an_adapter_goes_to_another_process_with_its_limits(session, openai_provider, store_url):
    account = Account.at(openai_provider, name="pickled", store=store_url)
    adapter = LlmAdapter(account.limits, prices=PRICES, pool_maxsize=3)
    is_charged(session, account, pickle.loads(pickle.dumps(adapter)))


def test_two_threads_that_come_to_a_pool_at_once_mark_its_connections_once(of_openai):
    """The later one failed: between two looks at the pool the earlier one had marked it."""

    class Pool(urllib3.HTTPConnectionPool):
        looks = 0

        @property
        def ConnectionCls(self):
            self.looks += 1
            return urllib3.connection.HTTPConnection if self.looks == 1 else self.marked

        @ConnectionCls.setter
        def ConnectionCls(self, marked):
            self.marked = marked

    adapter, pool = LlmAdapter(of_openai.limits, prices=PRICES), Pool("127.0.0.1")
    adapter.cert_verify(pool, "http://127.0.0.1", False, None)
    marked, pool.looks = pool.marked, 0
    adapter.cert_verify(pool, "http://127.0.0.1", False, None)
    assert len(pool.marked.__mro__) == len(marked.__mro__)
