"""Calls by Requests."""

import copy
import gc
import pickle

import pytest
from gateways import cut_is_charged, sdk, wish
from metered import NOTHING, PRICES, Account

from tidegate import CallLimit, LimitSet

requests = sdk("requests")

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
