"""A provider that refuses, and what its SDK sees of that."""

import concurrent.futures

import pytest
from gateways import Gateway, Provider, sdk

openai = sdk("openai")

ASKED = {"model": "m", "messages": [{"role": "user", "content": "How high is the tide?"}], "max_tokens": 40}


@pytest.fixture
def before(tmp_path):
    """An account at a gateway before a provider with these flags."""
    running = []

    def start(*flags):
        running.append(Provider(tmp_path, *flags))
        running.append(Gateway(tmp_path, running[0], "openai"))
        return running[1].account()

    yield start
    for process in running:
        process.kill()


def client_of(account, **more):
    return openai.OpenAI(base_url=f"{account.gateway.url}/v1", api_key=account.secret, **more)


def test_refusals_of_the_provider_are_waited_out_and_charged_once(before):
    account = before("--limit", "requests=5/1s")
    client = client_of(account, max_retries=0)
    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        calls = [threads.submit(client.chat.completions.create, **ASKED) for _ in range(12)]
    assert all(call.result().usage for call in calls)
    assert account.settles() == account.billed()
    assert account.billed().calls == 12


def test_money_that_is_spent_is_refused_at_once_and_not_asked_for_again(before):
    account = before("--spend-cap", "100")
    client = client_of(account)
    client.chat.completions.create(**ASKED)
    with pytest.raises(openai.RateLimitError) as refused:
        client.chat.completions.create(**ASKED)
    assert refused.value.code == "insufficient_quota"
    assert account.ledger()["refused_spend"] == 1, "neither the gateway nor the SDK asks again"
    assert account.settles() == account.billed()


def test_a_days_quota_is_not_asked_for_by_the_minute(before):
    account = before("--limit", "requests=1/1d")
    client = client_of(account, max_retries=0)
    client.chat.completions.create(**ASKED)
    with pytest.raises(openai.RateLimitError) as refused:
        client.chat.completions.create(**ASKED)
    assert int(refused.value.response.headers["retry-after"]) > 0
    assert account.ledger()["refused_quota"] == 1
    assert account.settles() == account.billed()
