"""The `openai` SDK, unchanged but for its base URL."""

import asyncio
import json

import pytest
from gateways import cut_is_charged, sdk, wish

httpx = sdk("httpx")
openai = sdk("openai")

ASKED = {"model": "m", "messages": [{"role": "user", "content": "How high is the tide?"}], "max_tokens": 40}
TOOL = {
    "type": "object",
    "properties": {"harbour": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["harbour", "days"],
}
CHAT_TOOLS = [{"type": "function", "function": {"name": "tide", "parameters": TOOL}}]
TOOLS = [{"type": "function", "name": "tide", "parameters": TOOL, "strict": False}]

#: Before its first token a stream of chat has one event, which says who speaks.
BEFORE = 1


def client_of(account, **more):
    more.setdefault("max_retries", 0)
    return openai.OpenAI(base_url=f"{account.gateway.url}/v1", api_key=account.secret, **more)


def async_client_of(account):
    return openai.AsyncOpenAI(base_url=f"{account.gateway.url}/v1", api_key=account.secret, max_retries=0)


def words(chunks):
    return sum(1 for chunk in chunks if chunk.choices and chunk.choices[0].delta.content)


def test_plain_calls_are_charged_what_the_provider_billed(at_openai):
    client = client_of(at_openai)
    for output in [7, 40, 90]:
        answer = client.chat.completions.create(**ASKED, extra_headers=wish(output=output))
        assert answer.usage.completion_tokens == min(output, 40)
        assert len(answer.choices[0].message.content.split()) == min(output, 40)
        assert answer.choices[0].finish_reason == ("stop" if output <= 40 else "length")
    assert at_openai.settles() == at_openai.billed()
    assert at_openai.billed().calls == 3


def test_a_stream_passes_unchanged_and_is_charged_for_its_usage(at_openai):
    client = client_of(at_openai)
    chunks = list(client.chat.completions.create(**ASKED, stream=True, extra_headers=wish(output=9)))
    assert words(chunks) == 9
    assert all(chunk.usage is None and chunk.choices for chunk in chunks), "it has not asked for usage"
    chunks = list(
        client.chat.completions.create(
            **ASKED, stream=True, stream_options={"include_usage": True}, extra_headers=wish(output=11)
        )
    )
    assert chunks[-1].usage.completion_tokens == 11
    with client.chat.completions.stream(**ASKED, extra_headers=wish(output=5)) as stream:
        final = stream.get_final_completion()
    assert len(final.choices[0].message.content.split()) == 5
    assert at_openai.settles() == at_openai.billed()
    assert at_openai.billed().output == 9 + 11 + 5


def test_tools_are_called_whole_and_as_a_stream(at_openai):
    client = client_of(at_openai)
    answer = client.chat.completions.create(**ASKED, tools=CHAT_TOOLS)
    assert answer.choices[0].finish_reason == "tool_calls"
    (call,) = answer.choices[0].message.tool_calls
    assert (call.function.name, set(json.loads(call.function.arguments))) == ("tide", {"harbour", "days"})

    result = {"role": "tool", "tool_call_id": call.id, "content": "3.2 m"}
    messages = [*ASKED["messages"], answer.choices[0].message, result]
    asked = {**ASKED, "messages": messages, "tools": CHAT_TOOLS}
    last = client.chat.completions.create(**asked, extra_headers=wish(output=8))
    assert last.choices[0].finish_reason == "stop"

    with client.chat.completions.stream(**ASKED, tools=CHAT_TOOLS) as stream:
        (streamed,) = stream.get_final_completion().choices[0].message.tool_calls
    assert streamed.function.arguments == call.function.arguments
    assert at_openai.settles() == at_openai.billed()


def test_responses_whole_streamed_and_with_tools(at_openai):
    client = client_of(at_openai)
    asked = {"model": "m", "input": "How high is the tide?", "max_output_tokens": 30}
    answer = client.responses.create(**asked, extra_headers=wish(output=6))
    assert len(answer.output_text.split()) == answer.usage.output_tokens == 6
    with client.responses.stream(**asked, extra_headers=wish(output=8)) as stream:
        deltas = sum(event.type == "response.output_text.delta" for event in stream)
        final = stream.get_final_response()
    assert deltas == final.usage.output_tokens == 8
    called = client.responses.create(**asked, tools=TOOLS)
    assert (called.output[0].type, called.output[0].name) == ("function_call", "tide")
    with client.responses.stream(**asked, tools=TOOLS) as stream:
        streamed = stream.get_final_response()
    assert streamed.output[0].arguments == called.output[0].arguments
    assert at_openai.settles() == at_openai.billed()
    assert at_openai.billed().calls == 4


def test_embeddings_are_charged_for_their_prompt_alone(at_openai):
    client = client_of(at_openai)
    answer = client.embeddings.create(model="m", input=["high", "low"], encoding_format="float")
    assert len(answer.data) == 2
    charged = at_openai.settles()
    assert charged == at_openai.billed()
    assert (charged.input, charged.output) == (answer.usage.prompt_tokens, 0)


def test_a_stream_that_is_closed_in_the_middle_is_charged_for_what_came(at_openai):
    client = client_of(at_openai)
    client.chat.completions.create(**ASKED, extra_headers=wish(output=3))
    how = wish(output=40, gap="10ms", silence=8)
    stream = client.chat.completions.create(**ASKED, stream=True, extra_headers=how)
    came = 0
    for chunk in stream:
        came += words([chunk])
        if came == 4:
            break
    stream.close()
    cut_is_charged(at_openai, came, before=BEFORE)


def test_a_task_that_is_cancelled_in_the_middle_is_charged_for_what_came(at_openai):
    async def cancelled():
        async with async_client_of(at_openai) as client:
            await client.chat.completions.create(**ASKED, extra_headers=wish(output=3))
            came, enough = 0, asyncio.Event()

            async def read():
                nonlocal came
                how = wish(output=40, gap="10ms", silence=8)
                async for chunk in await client.chat.completions.create(**ASKED, stream=True, extra_headers=how):
                    came += words([chunk])
                    if came == 4:
                        enough.set()

            task = asyncio.create_task(read())
            await enough.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return came

    cut_is_charged(at_openai, asyncio.run(cancelled()), before=BEFORE)


def test_a_client_process_that_is_killed_in_the_middle_is_charged_for_what_came(at_openai, killed):
    client = client_of(at_openai)
    client.chat.completions.create(**ASKED, extra_headers=wish(output=3))
    came = killed("openai", at_openai, ASKED)
    cut_is_charged(at_openai, came, before=BEFORE)


def test_a_provider_that_dies_in_the_middle_is_charged_for_what_came(at_openai):
    client = client_of(at_openai)
    client.chat.completions.create(**ASKED, extra_headers=wish(output=3))
    came = 0
    with pytest.raises((openai.APIError, httpx.RemoteProtocolError)):
        for chunk in client.chat.completions.create(**ASKED, stream=True, extra_headers=wish(output=40, cut=6)):
            came += words([chunk])
    assert came == 6
    charged, billed = at_openai.settles(), at_openai.billed()
    assert at_openai.ledger()["broken"] == 1
    assert billed.output == 3 + 6
    assert (charged.calls, charged.input, charged.output) == (2, billed.input, billed.output + BEFORE)


def test_a_stream_that_says_it_failed_is_an_error_and_charged_for_what_came(at_openai):
    client = client_of(at_openai)
    client.chat.completions.create(**ASKED, extra_headers=wish(output=3))
    with pytest.raises(openai.APIError):
        list(client.chat.completions.create(**ASKED, stream=True, extra_headers=wish(output=40, error=6)))
    charged, billed = at_openai.settles(), at_openai.billed()
    assert billed.output == 3 + 6
    # The event that says so counts as one, too.
    assert (charged.calls, charged.input, charged.output) == (2, billed.input, billed.output + BEFORE + 1)


def test_an_answer_that_breaks_off_was_used_as_reserved(at_openai):
    client = client_of(at_openai)
    client.chat.completions.create(**ASKED, extra_headers=wish(output=3))
    with pytest.raises((openai.APIError, httpx.RemoteProtocolError)):
        client.chat.completions.create(**ASKED, extra_headers=wish(output=40, cut=6))
    charged, billed = at_openai.settles(), at_openai.billed()
    assert at_openai.ledger()["broken"] == 1
    assert (charged.calls, charged.input, charged.output) == (2, billed.input, 3 + 40)


def test_a_client_that_gives_up_before_the_answer_has_used_what_was_reserved(at_openai):
    client_of(at_openai).chat.completions.create(**ASKED, extra_headers=wish(output=3))
    client = client_of(at_openai, timeout=0.5)
    with pytest.raises(openai.APITimeoutError):
        client.chat.completions.create(**ASKED, extra_headers=wish(first="1h"))
    charged = at_openai.settles()
    assert at_openai.ledger()["cut_by_client"] == 1
    assert (charged.calls, charged.output) == (2, 3 + 40)


def test_a_failure_of_the_provider_is_charged_nothing(at_openai):
    client = client_of(at_openai)
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(**ASKED, extra_headers=wish(status=500))
    assert at_openai.ledger()["failed"] == 3, "the gateway asks three times"
    charged = at_openai.settles()
    assert (charged.calls, charged.input, charged.output, charged.millionths) == (0, 0, 0, 0)
