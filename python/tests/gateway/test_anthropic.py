"""The `anthropic` SDK, unchanged but for its base URL."""

import asyncio

import pytest
from gateways import cut_is_charged, sdk, wish

anthropic = sdk("anthropic")

ASKED = {"model": "m", "messages": [{"role": "user", "content": "How high is the tide?"}], "max_tokens": 40}
TOOLS = [
    {
        "name": "tide",
        "input_schema": {
            "type": "object",
            "properties": {"harbour": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["harbour", "days"],
        },
    }
]

#: Before its first token a stream has three events: the message begins, its block begins, a ping.
BEFORE = 3


def client_of(account, **more):
    more.setdefault("max_retries", 0)
    return anthropic.Anthropic(base_url=account.gateway.url, api_key=account.secret, **more)


def words(events):
    return sum(event.type == "content_block_delta" for event in events)


def test_plain_calls_are_charged_what_the_provider_billed(at_anthropic):
    client = client_of(at_anthropic)
    for output in [7, 40, 90]:
        answer = client.messages.create(**ASKED, extra_headers=wish(output=output))
        assert answer.usage.output_tokens == len(answer.content[0].text.split()) == min(output, 40)
        assert answer.stop_reason == ("end_turn" if output <= 40 else "max_tokens")
    assert at_anthropic.settles() == at_anthropic.billed()
    assert at_anthropic.billed().calls == 3


def test_a_stream_passes_and_is_charged_for_its_usage(at_anthropic):
    """Elsewhere streams of messages skipped tokens and freed their slots early (aisix #688, #690)."""
    client = client_of(at_anthropic)
    assert words(client.messages.create(**ASKED, stream=True, extra_headers=wish(output=9))) == 9
    with client.messages.stream(**ASKED, extra_headers=wish(output=11)) as stream:
        assert len("".join(stream.text_stream).split()) == 11
        assert stream.get_final_message().usage.output_tokens == 11
    assert at_anthropic.settles() == at_anthropic.billed()
    assert at_anthropic.billed().output == 9 + 11


def test_tools_are_called_whole_and_as_a_stream(at_anthropic):
    client = client_of(at_anthropic)
    answer = client.messages.create(**ASKED, tools=TOOLS)
    assert answer.stop_reason == "tool_use"
    (call,) = answer.content
    assert (call.name, set(call.input)) == ("tide", {"harbour", "days"})

    result = {"type": "tool_result", "tool_use_id": call.id, "content": "3.2 m"}
    messages = [
        *ASKED["messages"],
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": [result]},
    ]
    last = client.messages.create(**{**ASKED, "messages": messages}, tools=TOOLS, extra_headers=wish(output=8))
    assert last.stop_reason == "end_turn"

    with client.messages.stream(**ASKED, tools=TOOLS) as stream:
        (streamed,) = stream.get_final_message().content
    assert streamed.input == call.input
    assert at_anthropic.settles() == at_anthropic.billed()


def test_a_stream_that_is_closed_in_the_middle_is_charged_for_what_came(at_anthropic):
    client = client_of(at_anthropic)
    client.messages.create(**ASKED, extra_headers=wish(output=3))
    came = 0
    with client.messages.create(**ASKED, stream=True, extra_headers=wish(output=40, gap="10ms", silence=8)) as stream:
        for event in stream:
            came += words([event])
            if came == 4:
                break
    cut_is_charged(at_anthropic, came, before=BEFORE)


def test_a_task_that_is_cancelled_in_the_middle_is_charged_for_what_came(at_anthropic):
    async def cancelled():
        async with anthropic.AsyncAnthropic(
            base_url=at_anthropic.gateway.url, api_key=at_anthropic.secret, max_retries=0
        ) as client:
            await client.messages.create(**ASKED, extra_headers=wish(output=3))
            came, enough = 0, asyncio.Event()

            async def read():
                nonlocal came
                how = wish(output=40, gap="10ms", silence=8)
                async with client.messages.stream(**ASKED, extra_headers=how) as stream:
                    async for event in stream:
                        came += words([event])
                        if came == 4:
                            enough.set()

            task = asyncio.create_task(read())
            await enough.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return came

    cut_is_charged(at_anthropic, asyncio.run(cancelled()), before=BEFORE)


def test_a_client_process_that_is_killed_in_the_middle_is_charged_for_what_came(at_anthropic, killed):
    client = client_of(at_anthropic)
    client.messages.create(**ASKED, extra_headers=wish(output=3))
    came = killed("anthropic", at_anthropic, ASKED)
    cut_is_charged(at_anthropic, came, before=BEFORE)


@pytest.mark.parametrize(("how", "more"), [("cut", 0), ("error", 1), ("end", 0)])
def test_a_provider_that_dies_in_the_middle_is_charged_for_what_came(at_anthropic, how, more):
    client = client_of(at_anthropic)
    client.messages.create(**ASKED, extra_headers=wish(output=3))
    came = 0
    # Whatever the SDK makes of it: of a body that just ends it makes nothing.
    try:
        for event in client.messages.create(**ASKED, stream=True, extra_headers=wish(output=40, **{how: 6})):
            came += words([event])
    except Exception:
        assert how != "end"
    else:
        assert how == "end"
    assert came == 6
    charged, billed = at_anthropic.settles(), at_anthropic.billed()
    assert at_anthropic.ledger()["broken"] == 1
    assert billed.output == 3 + 6
    assert (charged.calls, charged.input, charged.output) == (2, billed.input, billed.output + BEFORE + more)


def test_an_overloaded_provider_is_charged_nothing(at_anthropic):
    client = client_of(at_anthropic)
    with pytest.raises(anthropic.APIStatusError) as refused:
        client.messages.create(**ASKED, extra_headers=wish(status=529))
    assert refused.value.status_code == 529
    assert at_anthropic.ledger()["failed"] == 3, "the gateway asks three times"
    charged = at_anthropic.settles()
    assert (charged.calls, charged.input, charged.output, charged.millionths) == (0, 0, 0, 0)
