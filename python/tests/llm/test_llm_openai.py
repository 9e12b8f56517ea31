"""The `openai` SDK, unchanged but for the transport of its client."""

import asyncio
import concurrent.futures
import gc
import gzip
import json
import os
import pathlib
import subprocess
import sys
import threading
import uuid

import pytest
from gateways import PATIENCE, cut_is_charged, fetch, sdk, wait_until, wish
from metered import LIMITS, NOTHING, PRICES, Account

from tidegate import CallLimit, InvalidRequest, LimitPool, LimitSet, RateLimit, ResourceLimit
from tidegate.llm import TokenWeight

httpx = sdk("httpx")
httpx2 = sdk("httpx2")
openai = sdk("openai")

import tidegate.llm.httpx  # noqa: E402
import tidegate.llm.httpx2  # noqa: E402

ASKED = {"model": "m", "messages": [{"role": "user", "content": "How high is the tide?"}], "max_tokens": 40}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}

#: Before its first token a stream of chat has one event, which says who speaks.
BEFORE = 1

#: What a stream that its reader leaves is like: it does not end by itself.
ENDLESS = wish(output=40, gap="10ms", silence=8)


def by_httpx2(limits, **more):
    return httpx2.Client(transport=tidegate.llm.httpx2.LlmTransport(limits, **more))


def by_httpx(limits, **more):
    return httpx.Client(transport=tidegate.llm.httpx.LlmTransport(limits, **more))


def client_of(account, open_client=by_httpx2, limits=None, **more):
    http = open_client(limits or account.limits, prices=PRICES if limits is None else None, **more)
    url = f"{account.provider.url}/v1"
    return openai.OpenAI(base_url=url, api_key=account.secret, max_retries=0, http_client=http)


def async_client_of(account):
    transport = tidegate.llm.httpx2.AsyncLlmTransport(account.limits, prices=PRICES)
    http = httpx2.AsyncClient(transport=transport)
    url = f"{account.provider.url}/v1"
    return openai.AsyncOpenAI(base_url=url, api_key=account.secret, max_retries=0, http_client=http)


def words(chunks):
    return sum(1 for chunk in chunks if chunk.choices and chunk.choices[0].delta.content)


def create(client, *, how, **more):
    return client.chat.completions.create(**{**ASKED, **more}, extra_headers=how)


def some_of(stream):
    """Its first tokens; it is left open."""
    came = 0
    for chunk in stream:
        came += words([chunk])
        if came == 4:
            break
    return came


@pytest.fixture(params=[by_httpx2, by_httpx])
def open_client(request):
    return request.param


def test_plain_calls_are_charged_what_the_provider_billed(of_openai, open_client):
    client = client_of(of_openai, open_client)
    for output in [7, 40, 90]:
        answer = create(client, how=wish(output=output))
        assert answer.usage.completion_tokens == min(output, 40)
    client.responses.create(model="m", input="How high is the tide?", max_output_tokens=30, extra_headers=wish(output=6))
    client.embeddings.create(model="m", input=["high", "low"], encoding_format="float")
    assert of_openai.settles() == of_openai.billed()
    assert of_openai.billed().calls == 5


def test_a_stream_to_its_end_is_charged_for_its_usage(of_openai, open_client):
    client = client_of(of_openai, open_client)
    assert words(create(client, how=wish(output=9), **USAGE)) == 9
    with client.responses.stream(model="m", input="How high?", extra_headers=wish(output=8)) as stream:
        assert stream.get_final_response().usage.output_tokens == 8
    assert of_openai.settles() == of_openai.billed()
    assert of_openai.billed().output == 9 + 8


def test_a_stream_that_was_not_asked_for_its_usage_is_charged_for_what_came(of_openai):
    client = client_of(of_openai)
    create(client, how=wish(output=3))
    assert words(create(client, how=wish(output=9), stream=True)) == 9
    charged, billed = of_openai.settles(), of_openai.billed()
    assert (charged.calls, charged.input) == (billed.calls, billed.input)
    # One event more says who speaks, one why it ends, one that it has ended.
    assert charged.output == 3 + 9 + BEFORE + 2


def test_a_stream_that_is_closed_in_the_middle_is_charged_for_what_came(of_openai, open_client):
    client = client_of(of_openai, open_client)
    create(client, how=wish(output=3))
    with create(client, how=ENDLESS, stream=True) as stream:
        came = some_of(stream)
    cut_is_charged(of_openai, came, before=BEFORE)


def test_a_stream_that_was_left_and_collected_is_charged_for_what_came(of_openai, open_client):
    client = client_of(of_openai, open_client)
    create(client, how=wish(output=3))
    stream = create(client, how=ENDLESS, stream=True)
    came = some_of(stream)
    del stream
    gc.collect()
    cut_is_charged(of_openai, came, before=BEFORE)


def test_a_response_that_nobody_read_is_settled_when_it_is_collected(of_openai, open_client):
    client = client_of(of_openai)
    create(client, how=wish(output=3))
    http = open_client(of_openai.limits, prices=PRICES)
    url, headers = f"{of_openai.provider.url}/v1/chat/completions", {"authorization": f"Bearer {of_openai.secret}"}
    request = http.build_request("POST", url, json={**ASKED, "stream": True}, headers={**headers, **ENDLESS})
    response = http.send(request, stream=True)
    assert of_openai.used()["running"] == 1
    del response, request
    gc.collect()
    assert of_openai.used()["running"] == 0
    http.close()
    charged = of_openai.settles()
    assert (charged.calls, charged.output) == (2, 3), "nothing came"
    assert charged.input > of_openai.billed().input // 2, "its prompt as well"


def test_a_task_that_is_cancelled_in_the_middle_is_charged_for_what_came(of_openai):
    async def cancelled():
        async with async_client_of(of_openai) as client:
            await create(client, how=wish(output=3))
            came, enough = 0, asyncio.Event()

            async def read():
                nonlocal came
                async for chunk in await create(client, how=ENDLESS, stream=True):
                    came += words([chunk])
                    if came == 4:
                        enough.set()

            task = asyncio.create_task(read())
            await enough.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return came

    cut_is_charged(of_openai, asyncio.run(cancelled()), before=BEFORE)


@pytest.mark.parametrize("status", [429, 500])
def test_a_task_that_is_cancelled_behind_a_refusal_keeps_no_connection(openai_provider, redis_url, status):
    """What was not read yet was nobody's to close."""

    class Cancelling(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request):
            response = await super().handle_async_request(request)
            if response.status_code != 200:
                asyncio.current_task().cancel()
            return response

    async def run():
        inner = Cancelling(limits=httpx2.Limits(max_connections=1))
        transport = tidegate.llm.httpx2.AsyncLlmTransport(account.limits, inner, prices=PRICES)
        url, headers = f"{openai_provider.url}/v1/chat/completions", {"authorization": f"Bearer {account.secret}"}
        async with httpx2.AsyncClient(transport=transport, timeout=httpx2.Timeout(PATIENCE, pool=5)) as client:
            refused = client.post(url, json=ASKED, headers={**headers, **wish(status=status)})
            with pytest.raises(asyncio.CancelledError):
                await asyncio.create_task(refused)
            assert (await client.post(url, json=ASKED, headers=headers)).status_code == 200

    account = Account.at(openai_provider, name=f"cancelled behind {status}", store=redis_url)
    asyncio.run(run())


class Odd(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """The body of an answer with a status that is none."""

    is_closed = False

    def close(self):
        self.is_closed = True

    async def aclose(self):
        self.is_closed = True


def test_an_answer_that_makes_no_sense_is_closed_and_counts_as_used():
    url, asked = "http://provider/v1/chat/completions", {"json": {**ASKED, "max_tokens": 400}}
    limits = LimitSet([RateLimit("tokens", 1_000, 86_400, "first_use_window"), ResourceLimit("running", 1)])
    odd = [Odd(), Odd()]
    inner = httpx2.MockTransport(lambda request: httpx2.Response(70_000, stream=odd[0]))
    with pytest.raises(OverflowError):
        httpx2.Client(transport=tidegate.llm.httpx2.LlmTransport(limits, inner)).post(url, **asked)

    async def run():
        inner = httpx2.MockTransport(lambda request: httpx2.Response(70_000, stream=odd[1]))
        transport = tidegate.llm.httpx2.AsyncLlmTransport(limits, inner)
        await httpx2.AsyncClient(transport=transport).post(url, **asked)

    with pytest.raises(OverflowError):
        asyncio.run(run())
    assert [one.is_closed for one in odd] == [True, True]
    peeked = limits.peek()
    assert peeked["running"]["remaining"] == 1 and peeked["tokens"]["remaining"] <= 200


#: As the SDKs of Bedrock sign.
SIGNED = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/bedrock/aws4_request, SignedHeaders={}, Signature=00"


@pytest.mark.parametrize("open_client", [by_httpx2, by_httpx])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("signed, encoding", [("accept;accept-encoding;host", "gzip"), ("accept;host", "identity")])
def test_a_header_that_is_signed_stays_as_it_is(open_client, is_async, signed, encoding):
    """It was changed behind the signature: the provider refused each such call."""
    library = {by_httpx2: httpx2, by_httpx: httpx}[open_client]
    ours = {by_httpx2: tidegate.llm.httpx2, by_httpx: tidegate.llm.httpx}[open_client]
    said = json.dumps({"usage": {"input_tokens": 9, "output_tokens": 3}}).encode()

    def answer(request):
        is_packed = request.headers["accept-encoding"] == "gzip"
        body = gzip.compress(said) if is_packed else said
        parts = [body[:20], body[20:]]
        headers = {"content-encoding": "gzip"} if is_packed else {}
        asked.append(request.headers["accept-encoding"])
        return library.Response(200, headers=headers, content=in_parts(parts) if is_async else iter(parts))

    async def in_parts(parts):
        for part in parts:
            yield part

    asked, inner = [], library.MockTransport(answer)
    limits = LimitSet([RateLimit("tokens", 1_000, 86_400, "first_use_window")])
    headers = {"authorization": SIGNED.format(signed), "accept-encoding": "gzip"}
    call = ("POST", "https://bedrock/model/m/invoke")
    more = {"json": {"max_tokens": 400, "messages": []}, "headers": headers}

    async def run():
        async with library.AsyncClient(transport=ours.AsyncLlmTransport(limits, inner)) as client:
            return await client.request(*call, **more)

    if is_async:
        response = asyncio.run(run())
    else:
        with library.Client(transport=ours.LlmTransport(limits, inner)) as client:
            response = client.request(*call, **more)
    assert response.content == said and asked == [encoding]
    assert limits.peek()["tokens"]["remaining"] == 1_000 - 12


@pytest.mark.parametrize("open_client", [by_httpx2, by_httpx])
def test_an_answer_that_its_library_cannot_read_says_so(open_client):
    """It lost its ``Content-Encoding``: its caller took what is compressed for the answer."""
    library = {by_httpx2: httpx2, by_httpx: httpx}[open_client]
    ours = {by_httpx2: tidegate.llm.httpx2, by_httpx: tidegate.llm.httpx}[open_client]
    headers = {"content-encoding": "gzip, x-unheard-of"}
    inner = library.MockTransport(lambda _: library.Response(200, headers=headers, content=iter([b"packed"])))
    limits = LimitSet([RateLimit("tokens", 1_000, 86_400, "first_use_window")])
    signed = {"authorization": SIGNED.format("accept-encoding;host"), "accept-encoding": "gzip, x-unheard-of"}
    with library.Client(transport=ours.LlmTransport(limits, inner)) as client:
        call = ("POST", "https://bedrock/model/m/invoke")
        with client.stream(*call, json={"max_tokens": 40}, headers=signed) as answer:
            assert answer.headers["content-encoding"] == headers["content-encoding"]
            assert b"".join(answer.iter_raw()) == b"packed"


async def some_of_async(stream):
    came = 0
    async for chunk in stream:
        came += words([chunk])
        if came == 4:
            break
    return came


def test_async_streams_are_settled_at_their_end_and_when_they_are_left(of_openai):
    async def run():
        async with async_client_of(of_openai) as client:
            await create(client, how=wish(output=3))
            async for _ in await create(client, how=wish(output=9), **USAGE):
                pass
            assert of_openai.used()["running"] == 0
            async with await create(client, how=ENDLESS, stream=True) as stream:
                came = await some_of_async(stream)
            assert of_openai.used()["running"] == 0
            return came

    cut_is_charged(of_openai, asyncio.run(run()), before=BEFORE, whole=3 + 9)


def test_an_async_stream_that_is_collected_is_settled_in_its_loop(of_openai):
    async def run():
        async with async_client_of(of_openai) as client:
            await create(client, how=wish(output=3))
            stream = await create(client, how=ENDLESS, stream=True)
            came = await some_of_async(stream)
            del stream
            await asyncio.wait_for(collected(), PATIENCE)
            return came

    async def collected():
        while of_openai.used()["running"]:
            # What has read it is closed in a task of its own.
            await asyncio.sleep(0.01)
            gc.collect()

    cut_is_charged(of_openai, asyncio.run(run()), before=BEFORE)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_an_async_stream_whose_loop_has_gone_is_settled_when_it_is_collected(of_openai):
    create(client_of(of_openai), how=wish(output=3))
    client = async_client_of(of_openai)

    async def begin():
        stream = await create(client, how=ENDLESS, stream=True)
        return stream, await some_of_async(stream)

    loop = asyncio.new_event_loop()
    stream, came = loop.run_until_complete(begin())
    loop.close()
    assert of_openai.used()["running"] == 1
    del stream, client, begin
    gc.collect()
    charged = of_openai.settles()
    assert charged.calls == 2 and charged.output >= 3 + came


@pytest.mark.parametrize("status", [429, 500])
@pytest.mark.parametrize("more", [{}, {"stream": True}])
def test_what_the_provider_refuses_is_charged_nothing(of_openai, open_client, status, more):
    client = client_of(of_openai, open_client)
    with pytest.raises(openai.APIStatusError) as refused:
        create(client, how=wish(status=status), **more)
    assert refused.value.status_code == status
    assert of_openai.ledger()["failed"] == 1
    assert of_openai.settles() == NOTHING


def test_a_provider_that_says_when_to_come_again_is_not_asked_before(tmp_path, openai_provider):
    provider = type(openai_provider)(tmp_path, "--limit", "requests=1/1h")
    try:
        account = Account.at(provider)
        client = client_of(account, timeout=0)
        create(client, how={})
        for _ in range(2):
            with pytest.raises(openai.RateLimitError) as refused:
                create(client, how={})
        assert 0 < int(refused.value.response.headers["retry-after"]) <= 300
        assert account.ledger()["refused_rate"] == 1, "the second was not sent"
        assert account.settles() == account.billed()
    finally:
        provider.kill()


def test_a_stream_whose_connection_dies_is_charged_for_what_came(of_openai):
    client = client_of(of_openai)
    create(client, how=wish(output=3))
    came = 0
    with pytest.raises((openai.APIError, httpx2.RemoteProtocolError)):
        for chunk in create(client, how=wish(output=40, cut=6), stream=True):
            came += words([chunk])
    assert came == 6
    charged, billed = of_openai.settles(), of_openai.billed()
    assert of_openai.ledger()["broken"] == 1
    assert (charged.calls, charged.input, charged.output) == (2, billed.input, billed.output + BEFORE)


def test_an_answer_that_breaks_off_or_does_not_come_has_used_what_was_reserved(of_openai):
    client = client_of(of_openai)
    create(client, how=wish(output=3))
    with pytest.raises((openai.APIError, httpx2.RemoteProtocolError)):
        create(client, how=wish(output=40, cut=6))
    with pytest.raises(openai.APITimeoutError):
        create(client.with_options(timeout=0.5), how=wish(first="1h"))
    charged, billed = of_openai.settles(), of_openai.billed()
    assert (charged.calls, charged.input, charged.output) == (3, billed.input, 3 + 40 + 40)


def test_a_call_that_reaches_nobody_is_charged_nothing(of_openai):
    http = by_httpx2(of_openai.limits, prices=PRICES)
    # Nobody listens at that port.
    client = openai.OpenAI(base_url="http://127.0.0.1:1/v1", api_key="sk", max_retries=0, http_client=http)
    with pytest.raises(openai.APIConnectionError):
        create(client, how={})
    assert of_openai.settles() == NOTHING


def test_a_limit_refuses_in_the_words_of_the_provider_and_nothing_is_sent(of_openai, open_client):
    limits = LimitSet([CallLimit(1, "per_day"), RateLimit("tpm", 1_000, "per_day")])
    client = client_of(of_openai, open_client, limits, timeout=0)
    create(client, how={})
    with pytest.raises(openai.RateLimitError) as refused:
        create(client, how={})
    assert refused.value.code == "rate_limit_exceeded" and refused.value.type == "rate_limit_error"
    assert "limit `calls` has not as much left" in refused.value.message
    assert 0 < int(refused.value.response.headers["retry-after"]) <= 86_400
    with pytest.raises(openai.BadRequestError) as never:
        create(client, how={}, messages=[{"role": "user", "content": "high " * 5_000}])
    assert "shorten the prompt" in never.value.message
    with pytest.raises(openai.BadRequestError) as no_price:
        client_of(of_openai).chat.completions.create(model="other", messages=ASKED["messages"])
    assert "no price" in no_price.value.message
    assert of_openai.ledger()["calls"] == 1


def test_a_bound_that_is_larger_than_the_limit_locks_nobody_out(of_openai):
    limits = LimitSet([RateLimit("tokens", 200, "per_day")])
    client = client_of(of_openai, limits=limits, timeout=0)
    create(client, how=wish(output=5), max_tokens=4_000)
    used = 200 - limits.peek()["tokens"]["remaining"]
    assert used == of_openai.billed().input + 5


def test_calls_wait_for_their_turn(of_openai):
    limits = LimitSet([ResourceLimit("at once", 1)])
    client, most, lock = client_of(of_openai, limits=limits), 0, threading.Lock()

    def call(_):
        nonlocal most
        with create(client, how=wish(output=3), stream=True) as stream:
            next(stream)
            with lock:
                most = max(most, of_openai.ledger()["open"])
            list(stream)

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(call, range(8)))
    assert most <= 1
    wait_until(lambda: of_openai.ledger()["whole"] == 8, "not all were answered")
    assert limits.peek()["at once"]["remaining"] == 1


def test_other_requests_count_as_calls_and_use_no_tokens(of_openai):
    client = client_of(of_openai)
    with pytest.raises(openai.NotFoundError):
        client.models.list()
    assert of_openai.settles() == NOTHING
    http = by_httpx2(LimitSet([CallLimit(2, "per_day"), RateLimit("tokens", 5, "per_day")]), timeout=0)
    ledger = f"{of_openai.provider.url}/sim/ledger"
    assert [http.get(ledger).status_code for _ in range(3)] == [200, 200, 429]
    free = by_httpx2(LimitSet([RateLimit("tokens", 5, "per_day")]), timeout=0)
    assert free.get(ledger).status_code == 200


def test_each_key_has_limits_of_its_own(of_openai):
    def whose(request):
        return request.headers["x-tenant"]

    client = client_of(of_openai, limits=LimitSet([CallLimit(1, "per_day")]), key=whose, timeout=0)
    for tenant in ("ann", "ben"):
        create(client, how={"x-tenant": tenant})
    with pytest.raises(openai.RateLimitError):
        create(client, how={"x-tenant": "ann"})


@pytest.mark.parametrize(
    "limits, more, told",
    [
        ([RateLimit("beans", 10, 60)], {}, "what limit \"beans\" counts"),
        ([RateLimit("usd", 10, 60, places=6)], {}, "give prices"),
        ([RateLimit("usd", 10, 60)], {"prices": PRICES}, "places=6"),
        ([RateLimit("tokens", 10, 60)], {"counts": {"calls": "tokens"}}, "no rate or budget \"calls\""),
        ([RateLimit("tokens", 10, 60)], {"counts": {"tokens": "beans"}}, "what limit \"tokens\" counts"),
        ([RateLimit("tokens", 10, 60)], {"provider": "opnai"}, "no provider"),
    ],
)
def test_what_makes_no_sense_is_told_before_anything_is_sent(limits, more, told):
    with pytest.raises(InvalidRequest, match=told):
        tidegate.llm.httpx2.LlmTransport(LimitSet(limits), **more)


def test_a_limit_of_any_name_counts_what_is_said(of_openai):
    limits = LimitSet([RateLimit("beans", 1_000, "per_day")])
    create(client_of(of_openai, limits=limits, counts={"beans": "output-tokens"}), how=wish(output=7))
    assert limits.peek()["beans"]["remaining"] == 1_000 - 7


def test_processes_share_what_they_have_used(openai_provider, store_url):
    account = Account.at(openai_provider, name="shared by calls", store=store_url)
    beside = pathlib.Path(__file__).with_name("beside.py")
    folders = os.pathsep.join([str(beside.parent), str(beside.parents[1] / "gateway")])
    words = [sys.executable, beside, openai_provider.url, account.secret, "shared by calls", store_url]
    other = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": folders})
    client = client_of(account)
    for output in range(7, 12):
        create(client, how=wish(output=output))
    assert other.wait() == 0
    assert account.settles() == account.billed()
    assert account.billed().calls == 10
    assert {limit.name for limit in LIMITS} == set(account.used())


def test_of_a_pool_the_set_that_was_refused_pauses(tmp_path, openai_provider):
    provider = type(openai_provider)(tmp_path, "--limit", "requests=1/1h")
    try:
        sets = {name: LimitSet([RateLimit("tokens", 1_000, "per_day")]) for name in ("eu", "us")}
        client = client_of(Account.at(provider), limits=LimitPool(sets), timeout=0)
        create(client, how={})
        for _ in range(3):
            with pytest.raises(openai.RateLimitError):
                create(client, how={})
        (ledger,) = [ledger for ledger in fetch(f"{provider.url}/sim/ledger").values()]
        assert ledger["refused_rate"] == 2, "each set was refused once, and the third call was not sent"
    finally:
        provider.kill()


def test_a_pool_whose_sets_count_otherwise_is_refused():
    pool = LimitPool([LimitSet([RateLimit("tokens", 10, 60)]), LimitSet([CallLimit(1, 60)])])
    with pytest.raises(InvalidRequest, match="not in every set"):
        tidegate.llm.httpx2.LlmTransport(pool)


def test_tokens_count_by_their_weight(openai_provider):
    account = Account(openai_provider, LimitSet([RateLimit("tokens", 1_000, 86_400)]), f"sk-{uuid.uuid4().hex}")
    client = client_of(account, limits=account.limits, weights={"m": TokenWeight(output=5)})
    create(client, how=wish(output=7))
    wait_until(lambda: account.ledger().get("open", 0) == 0, "the provider has a call under way")
    billed, standing = account.billed(), account.limits.peek()["tokens"]
    assert standing["capacity"] - standing["remaining"] == billed.input + 5 * 7
    client.close()


def test_a_weight_that_cannot_be_is_refused():
    limits = LimitSet([RateLimit("tokens", 1_000, 86_400)])
    for weight in (-1, 1_001, "1e", 0.0000001):
        with pytest.raises(InvalidRequest, match="weight of m"):
            tidegate.llm.httpx2.LlmTransport(limits, weights={"m": TokenWeight(output=weight)})
