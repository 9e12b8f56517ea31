"""The `anthropic` SDK, unchanged but for the transport of its client."""

import asyncio
import gc

import pytest
from gateways import cut_is_charged, sdk, wish
from metered import NOTHING, PRICES

from tidegate import CallLimit, LimitSet, RateLimit

anthropic = sdk("anthropic")
httpx2 = sdk("httpx2")

from tidegate.llm.httpx2 import AsyncLlmTransport, LlmTransport  # noqa: E402

ASKED = {"model": "m", "messages": [{"role": "user", "content": "How high is the tide?"}], "max_tokens": 40}

#: Before its first token a stream has three events: the message begins, its block begins, a ping.
BEFORE = 3

ENDLESS = wish(output=40, gap="10ms", silence=8)


def client_of(account, **more):
    more.setdefault("limits", account.limits)
    http = httpx2.Client(transport=LlmTransport(prices=PRICES, **more))
    url = account.provider.url
    return anthropic.Anthropic(base_url=url, api_key=account.secret, max_retries=0, http_client=http)


def create(client, *, how, **more):
    return client.messages.create(**ASKED, **more, extra_headers=how)


def is_token(event):
    return event.type == "content_block_delta"


def some_of(stream):
    came = 0
    for event in stream:
        came += is_token(event)
        if came == 4:
            break
    return came


def test_plain_calls_and_streams_are_charged_what_the_provider_billed(of_anthropic):
    client = client_of(of_anthropic)
    for output in [7, 90]:
        assert create(client, how=wish(output=output)).usage.output_tokens == min(output, 40)
    assert sum(map(is_token, create(client, how=wish(output=9), stream=True))) == 9
    with client.messages.stream(**ASKED, extra_headers=wish(output=11)) as stream:
        assert stream.get_final_message().usage.output_tokens == 11
    assert of_anthropic.settles() == of_anthropic.billed()
    assert of_anthropic.billed().output == 7 + 40 + 9 + 11


@pytest.mark.parametrize("leave", ["close", "collect"])
def test_a_stream_that_is_left_is_charged_for_what_came(of_anthropic, leave):
    client = client_of(of_anthropic)
    create(client, how=wish(output=3))
    if leave == "close":
        with client.messages.stream(**ASKED, extra_headers=ENDLESS) as stream:
            came = some_of(stream)
    else:
        stream = create(client, how=ENDLESS, stream=True)
        came = some_of(stream)
        del stream
        gc.collect()
    cut_is_charged(of_anthropic, came, before=BEFORE)


def test_a_task_that_is_cancelled_in_the_middle_is_charged_for_what_came(of_anthropic):
    async def cancelled():
        http = httpx2.AsyncClient(transport=AsyncLlmTransport(of_anthropic.limits, prices=PRICES))
        url = of_anthropic.provider.url
        async with anthropic.AsyncAnthropic(
            base_url=url, api_key=of_anthropic.secret, max_retries=0, http_client=http
        ) as client:
            await create(client, how=wish(output=3))
            came, enough = 0, asyncio.Event()

            async def read():
                nonlocal came
                async with client.messages.stream(**ASKED, extra_headers=ENDLESS) as stream:
                    async for event in stream:
                        came += is_token(event)
                        if came == 4:
                            enough.set()

            task = asyncio.create_task(read())
            await enough.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return came

    cut_is_charged(of_anthropic, asyncio.run(cancelled()), before=BEFORE)


@pytest.mark.parametrize(("how", "more"), [("cut", 0), ("error", 1), ("end", 0)])
def test_a_provider_that_dies_in_the_middle_is_charged_for_what_came(of_anthropic, how, more):
    client = client_of(of_anthropic)
    create(client, how=wish(output=3))
    came = 0
    # Whatever the SDK makes of it: of a body that just ends it makes nothing.
    try:
        for event in create(client, how=wish(output=40, **{how: 6}), stream=True):
            came += is_token(event)
    except Exception:
        assert how != "end"
    else:
        assert how == "end"
    assert came == 6
    charged, billed = of_anthropic.settles(), of_anthropic.billed()
    assert of_anthropic.ledger()["broken"] == 1
    assert (charged.calls, charged.input, charged.output) == (2, billed.input, billed.output + BEFORE + more)


@pytest.mark.parametrize("status", [429, 500, 529])
def test_what_the_provider_refuses_is_charged_nothing(of_anthropic, status):
    with pytest.raises(anthropic.APIStatusError) as refused:
        create(client_of(of_anthropic), how=wish(status=status))
    assert refused.value.status_code == status
    assert of_anthropic.settles() == NOTHING


def test_a_limit_refuses_in_the_words_of_the_provider(of_anthropic):
    limits = LimitSet([CallLimit(1, "per_day"), RateLimit("itpm", 1_000, "per_day")])
    client = client_of(of_anthropic, limits=limits, timeout=0)
    create(client, how={})
    with pytest.raises(anthropic.RateLimitError) as refused:
        create(client, how={})
    assert refused.value.body["error"]["type"] == "rate_limit_error"
    assert int(refused.value.response.headers["retry-after"]) > 0
    assert of_anthropic.ledger()["calls"] == 1
