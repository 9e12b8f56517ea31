"""Grants of a real server, and what spends them."""

import asyncio
import subprocess
import sys
import threading
import time
from decimal import Decimal

import pytest
from serving import POLICIES
from tidegate import AsyncClient, Client, InvalidRequest, LeaseEnded, ServerUnavailable

assert "[policy.chat.limits]" in POLICIES


def left(client, limit="rpm", policy="chat"):
    return client.peek(policy, cost=0).remaining[limit]


def until(done):
    """Some twenty seconds at most."""
    for _ in range(1_000):
        if done():
            return
        time.sleep(0.02)
    pytest.fail("it never came")


def test_a_grant_is_spent_and_returned_once(server):
    client = Client(server.url)
    grant = client.grant("chat", {"rpm": 20, "tokens": 5_000}, least={"tokens": 100}, hold=60)
    assert grant and grant.admitted
    assert grant.amounts == {"rpm": 20, "tokens": 1_000}
    assert grant.calls == ["rpm"] and 0 < grant.good_for < 60
    refused = client.grant("chat", {"tokens": 10}, hold=60)
    assert not refused and refused.limit == "tokens" and refused.retry_after > 0
    assert refused.amounts == {} and refused.good_for == 0
    for _ in range(2):
        client.return_grant(grant, {"rpm": 5, "tokens": 400})
    assert (left(client), left(client, "tokens")) == (95, 600)
    with pytest.raises(LeaseEnded):
        client.return_grant(refused)
    with pytest.raises(InvalidRequest, match="no grant is made of `slots`"):
        client.grant("jobs")
    with pytest.raises(InvalidRequest, match="hold_ms"):
        client.grant("chat", {"rpm": 1}, hold=61)


def test_threads_spend_one_grant_and_the_rest_goes_back(server):
    client = Client(server.url)
    took = []
    with client.spender("chat", {"rpm": 40}, hold=60, idle=60, low_water=0) as spender:
        threads = [threading.Thread(target=lambda: took.append(spender.take({"rpm": 1}))) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(took) == 20 and all(took)
        assert left(client) == 60
    assert left(client) == 80
    with client.spender("chat", {"rpm": 40}, hold=60, idle=60) as spender:
        assert sum(bool(spender.take({"rpm": 1})) for _ in range(100)) == 80
        refused = spender.take({"rpm": 1})
        assert not refused and refused.limit == "rpm" and refused.retry_after > 0


def test_what_is_known_afterwards_is_charged_once(server):
    client = Client(server.url)
    spender = client.spender("spend", {"usd": 1}, hold=60, idle=60, low_water=0)
    spender.spend({"usd": 0.25})
    assert left(client, "usd", "spend") == 9.75
    assert spender.take({"usd": Decimal("0.01")})
    spender.spend({"usd": 0.5})
    assert left(client, "usd", "spend") == 8.75
    spender.spend({"usd": 2})
    assert left(client, "usd", "spend") == 7.24
    spender.close()
    assert left(client, "usd", "spend") == 7.24


def test_a_spender_that_is_dropped_gives_the_rest_back(server):
    client = Client(server.url)
    spender = client.spender("chat", {"rpm": 40}, hold=60, idle=60)
    assert spender.take({"rpm": 1})
    del spender
    until(lambda: left(client) == 99)


def test_a_process_that_is_killed_strands_what_it_held_and_no_more(server):
    client = Client(server.url)
    program = (
        "import sys\n"
        "from tidegate import Client\n"
        "spender = Client(sys.argv[1]).spender('chat', {'rpm': 10}, hold=60, idle=60, low_water=0)\n"
        "while spender.take({'rpm': 1}):\n"
        "    print('took', flush=True)\n"
        "    sys.stdin.readline()\n"
    )
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process = subprocess.Popen([sys.executable, "-c", program, server.url], **pipes)
    for _ in range(23):
        assert process.stdout.readline() == "took\n"
        process.stdin.write("\n")
        process.stdin.flush()
    process.kill()
    process.communicate()
    # Three grants, of which it has taken 23 or one more.
    assert left(client) == 70
    with client.spender("chat", {"rpm": 40}, hold=60, idle=60) as spender:
        assert sum(bool(spender.take({"rpm": 1})) for _ in range(100)) == 70
    assert left(client) == 0


def test_tasks_spend_one_grant(server):
    async def main():
        client = AsyncClient(server.url)
        grant = await client.grant("chat", {"rpm": 10}, hold=60)
        await client.return_grant(grant, {"rpm": 1})
        async with client.spender("chat", {"rpm": 30}, hold=60, idle=60, low_water=0) as spender:
            took = await asyncio.gather(*(spender.take({"rpm": 1}) for _ in range(25)))
            assert all(took)
            await spender.spend({"rpm": 2})
            assert (await client.peek("chat")).remaining["rpm"] == 69
        assert (await client.peek("chat")).remaining["rpm"] == 72

    asyncio.run(main())


def test_a_server_that_is_gone_is_told(server):
    client = Client(server.url, timeout=2)
    spender = client.spender("chat", {"rpm": 2}, hold=60, idle=60, low_water=0)
    assert spender.take({"rpm": 1})
    server.process.kill()
    server.process.wait()
    assert spender.take({"rpm": 1}), "what is held is spent"
    with pytest.raises(ServerUnavailable):
        spender.take({"rpm": 1})
