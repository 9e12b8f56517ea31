"""Clients of a real server."""

import asyncio
import gc
import hashlib
import json
import os
import pickle
import signal
import socket
import threading
import time
import urllib.request
from datetime import datetime, timezone
from decimal import Decimal

import pytest
from serving import POLICIES, Server
from tidegate import (
    AcquireTimeout,
    AsyncClient,
    Client,
    Conflict,
    Forbidden,
    ImpossibleRequest,
    InvalidRequest,
    LeaseEnded,
    LimitSet,
    NamespaceDeleted,
    ResourceLimit,
    ServerTimeout,
    ServerUnavailable,
    StoreUnavailable,
    Unauthorized,
    UnknownPolicy,
)


def until(done):
    """Some twenty seconds at most."""
    for _ in range(1_000):
        if done():
            return
        time.sleep(0.02)
    pytest.fail("it never came")


def free(client):
    return client.peek("jobs").remaining["slots"]


def test_a_check_is_admitted_or_refused_and_says_why(server):
    client = Client(server.url)
    answer = client.check("chat", {"tokens": 600}, key="alice")
    assert answer and answer.admitted and not answer.degraded
    assert answer.remaining == {"rpm": 99, "tokens": 400}
    refused = client.check("chat", {"tokens": 600}, key="alice")
    assert not refused
    assert refused.limit == "tokens" and 600 < refused.retry_after <= 720
    assert client.check("chat", {"tokens": 600}, key=b"\xff")


def test_amounts_are_whole_numbers_or_decimals(server):
    client = Client(server.url)
    assert client.check("spend", {"usd": 0.25}).remaining == {"usd": 9.75}
    assert client.check("spend", {"usd": Decimal("0.75")}).remaining == {"usd": 9.0}
    assert client.check("spend", cost=1.0)
    for wrong in (-1, float("nan"), True, "many"):
        with pytest.raises(InvalidRequest):
            client.check("spend", {"usd": wrong})


def test_the_other_verbs(server):
    client = Client(server.url)
    assert client.forecast("chat", {"tokens": 100}) == {"rpm": 100, "tokens": 10}
    assert client.peek("chat", {"tokens": 1_000})
    debit = client.debit("chat", {"tokens": 1_500})
    assert not debit and debit.debt["tokens"] == 500
    client.reset("chat")
    answers = client.check_many(
        [
            {"policy": "chat", "requested": {"tokens": 900}},
            {"policy": "chat", "requested": {"tokens": 900}},
            {"policy": "typo"},
        ]
    )
    assert [bool(answer) for answer in answers[:2]] == [True, False]
    assert isinstance(answers[2], UnknownPolicy)


def test_a_check_takes_no_slots(server):
    client = Client(server.url)
    with pytest.raises(InvalidRequest, match="take it with acquire"):
        client.check("jobs")
    assert free(client) == 1


def test_a_client_that_waits_says_for_how_long(server):
    for client in (Client(server.url), AsyncClient(server.url)):
        with pytest.raises(TypeError, match="try_acquire"):
            client.acquire("jobs", timeout=None)
    assert free(Client(server.url)) == 1
    with pytest.raises(InvalidRequest, match="300"):
        Client(server.url).acquire("jobs", timeout=301)
    with pytest.raises(TypeError, match="timeout is a number of seconds, not '5'"):
        Client(server.url).acquire("jobs", timeout="5")


@pytest.mark.parametrize(
    "wrong, named", [({"policy": 7}, "policy"), ({"key": 5}, "key"), ({"requested": [1]}, "requested")]
)
def test_an_argument_of_a_wrong_type_is_named(server, wrong, named):
    asked = {"policy": "jobs", **wrong}
    client = Client(server.url)
    for verb in (client.check, client.peek, client.acquire, client.try_acquire):
        with pytest.raises(TypeError, match=named):
            verb(**asked)


def test_checks_that_make_no_sense_are_not_sent(server):
    client = Client(server.url)
    good = {"policy": "chat", "requested": {"tokens": 900}}
    for wrong in (
        [],
        [good] * 1_001,
        [good, {"policy": "chat", "requested": {"tokens": -1}}],
        [good, {"policy": "chat", "requested": {"tokens": float("nan")}}],
        [good, {"policy": "chat", "key": "bob", "entity": "alice"}],
    ):
        with pytest.raises(InvalidRequest):
            client.check_many(wrong)
    with pytest.raises(TypeError):
        client.check_many([good, {"policy": "chat", "typo": 1}])
    assert client.peek("chat", cost=0).remaining["tokens"] == 1_000


def post(server, path, said):
    request = urllib.request.Request(f"{server.url}{path}", json.dumps(said).encode())
    request.add_header("Content-Type", "application/json")
    urllib.request.urlopen(request).close()


def create(server, entity, parent=None):
    post(server, "/v1/entities", {"id": entity} if parent is None else {"id": entity, "parent": parent})


def test_a_client_acts_in_the_namespace_that_it_names(server):
    post(server, "/v1/namespaces", {"name": "acme"})
    acme, plain = Client(server.url, namespace="acme"), Client(server.url)
    assert acme.check("chat", {"tokens": 600}, key="alice").remaining["tokens"] == 400
    assert plain.peek("chat", {"tokens": 0}, key="alice").remaining["tokens"] == 1_000
    again = pickle.loads(pickle.dumps(acme))
    assert again.peek("chat", {"tokens": 0}, key="alice").remaining["tokens"] == 400
    with pytest.raises(UnknownPolicy):
        Client(server.url, namespace="none").check("chat", key="alice")
    with pytest.raises(ValueError):
        Client(server.url, namespace="\n")


def test_entities_are_listed_in_pages_and_shown(tmp_path):
    served = family(tmp_path)
    client = Client(served.url)
    first = client.list_entities(limit=2)
    second = client.list_entities(limit=2, cursor=first["cursor"])
    assert [one["id"] for one in first["entities"] + second["entities"]] == ["acme", "alice", "bob"]
    assert second["cursor"] is None
    children = client.list_entities(parent="acme")["entities"]
    assert [one["id"] for one in children] == ["alice", "bob"]
    assert client.entity("alice")["parent"] == "acme"
    with pytest.raises(UnknownPolicy):
        client.entity("nobody")
    with pytest.raises(InvalidRequest):
        client.list_entities(limit=0)

    async def awaited():
        asked = AsyncClient(served.url)
        page = await asked.list_entities(parent="acme")
        return page["entities"], await asked.entity("alice")

    assert asyncio.run(awaited()) == (children, client.entity("alice"))
    served.kill()


def test_overrides_are_set_on_a_version_listed_and_removed_and_events_tell_of_it(tmp_path):
    served = family(tmp_path)
    client = Client(served.url)
    user = {"user": {"calls": 7, "per": "1h"}}
    first = client.set_override(user, policy="chat", key="acme/x", reason="trial", expires_in=3600)
    assert (first["level"], first["reason"]) == ("key_and_policy", "trial")
    with pytest.raises(Conflict):
        client.set_override(user, policy="chat", key="acme/x", if_version=first["version"] + 1)
    client.set_override(user, policy="chat", key="acme/x", if_version=first["version"])
    assert client.peek("chat", key="acme/x").remaining["user"] == 7
    with pytest.raises(InvalidRequest):
        client.set_override(user)
    with pytest.raises(InvalidRequest):
        client.set_override(user, policy="chat", everywhere=True)
    with pytest.raises(InvalidRequest, match="it must be a whole number"):
        client.set_override({"user": {"calls": "many"}}, policy="chat")
    everyone = client.set_override(user, everywhere=True)
    assert everyone["level"] == "everything"
    listed = client.list_overrides(limit=1)
    rest = client.list_overrides(cursor=listed["cursor"])
    assert len(listed["overrides"]) + len(rest["overrides"]) == 2
    client.remove_override(everywhere=True)
    client.remove_override(policy="chat", key=b"acme/x", reason="over")
    with pytest.raises(UnknownPolicy):
        client.remove_override(policy="chat", key="acme/x")
    events = client.list_audit(policy="chat", key="acme/x")["events"]
    assert [event["action"] for event in events] == ["set_override", "set_override", "remove_override"]
    assert (events[0]["by"], events[0]["reason"], events[2]["reason"]) == ("anyone", "trial", "over")
    assert client.list_audit(until="2020-01-01T00:00:00Z")["events"] == []

    async def awaited():
        asked = AsyncClient(served.url)
        await asked.set_override(user, policy="chat")
        listed = await asked.list_overrides(policy="chat")
        await asked.remove_override(policy="chat")
        return [one["level"] for one in listed["overrides"]], await asked.list_audit(policy="chat", key="acme/x")

    levels, page = asyncio.run(awaited())
    assert levels == ["policy"]
    assert page["events"] == events
    served.kill()


def test_entities_are_created_changed_and_deleted(tmp_path):
    served = family(tmp_path)
    client = Client(served.url)
    made = client.create_entity("ads", parent="acme", name="Ads", metadata={"tier": "gold"}, reason="new")
    assert (made["parent"], made["name"], made["metadata"]) == ("acme", "Ads", {"tier": "gold"})
    with pytest.raises(Conflict):
        client.create_entity("ads")
    changed = client.change_entity("ads", charge_parents=False, if_version=made["version"])
    assert (changed["name"], changed["charge_parents"]) == ("Ads", False)
    with pytest.raises(Conflict):
        client.change_entity("ads", name="B", if_version=made["version"])
    with pytest.raises(Conflict):
        client.delete_entity("acme")
    client.delete_entity("ads", reason="over")
    with pytest.raises(UnknownPolicy):
        client.delete_entity("ads")
    events = client.list_audit(entity="ads")["events"]
    assert [event["action"] for event in events] == ["create_entity", "change_entity", "delete_entity"]
    served.kill()


def test_namespaces_are_created_deleted_restored_and_purged(server):
    client = Client(server.url)
    assert client.create_namespace("kept", reason="a customer")["state"] == "active"
    with pytest.raises(Conflict):
        client.create_namespace("kept")
    inside = Client(server.url, namespace="kept")
    assert inside.check("chat", {"tokens": 600}, key="alice")
    assert client.delete_namespace("kept")["state"] == "deleted"
    with pytest.raises(NamespaceDeleted):
        inside.check("chat", {"tokens": 1}, key="alice")
    assert client.restore_namespace("kept")["state"] == "active"
    assert not inside.check("chat", {"tokens": 600}, key="alice")
    with pytest.raises(Conflict):
        client.purge_namespace("kept")
    assert client.namespace("kept")["name"] == "kept"
    names = [one["name"] for one in client.list_namespaces()["namespaces"]]
    assert "kept" in names


def test_usage_is_listed_by_key_and_by_hour(tmp_path):
    limits = "tokens = { rate = 1000, per = '1h' }"
    served = Server(tmp_path, config=f"[policy.chat]\nusage = '30d'\n[policy.chat.limits]\n{limits}\n")
    client = Client(served.url)
    for key in ("alice", b"\xff"):
        assert client.check("chat", {"tokens": 600}, key=key)
    of_alice = client.list_usage("chat", key="alice", since="2020-01-01T00:00:00Z")
    assert [(one["key"], one["limit"], one["amount"]) for one in of_alice["usage"]] == [("alice", "tokens", 600)]
    assert of_alice["cursor"] is None
    assert len(client.list_usage("chat", key=b"\xff")["usage"]) == 1
    (month,) = client.list_usage("chat", key="alice", by="month")["usage"]
    assert month["amount"] == 600 and month["hour"].endswith("-01T00:00:00Z")
    with pytest.raises(InvalidRequest):
        client.list_usage("chat", by="week")
    assert len(client.list_usage("chat")["usage"]) == 2
    long_ago = datetime(2020, 1, 1, tzinfo=timezone.utc)
    assert client.list_usage("chat", until=long_ago)["usage"] == []
    with pytest.raises(ValueError):
        client.list_usage("chat", since=datetime(2020, 1, 1))
    with pytest.raises(UnknownPolicy):
        client.list_usage("none")
    assert asyncio.run(AsyncClient(served.url).list_usage("chat", key="alice")) == of_alice
    served.kill()


def family(tmp_path):
    """A server with an entity and one that belongs to it."""
    limits = "org = { calls = 3, per = '1h', level = 'org' }\nuser = { calls = 2, per = '1h' }"
    slots = "slots = { concurrency = 1 }"
    served = Server(
        tmp_path,
        config=f"[policy.chat]\nkey = 'org/user'\n[policy.chat.limits]\n{limits}\n"
        f"[policy.jobs]\nkey = 'org/user'\n[policy.jobs.limits]\n{slots}\n",
    )
    create(served, "acme")
    create(served, "alice", "acme")
    create(served, "bob", "acme")
    return served


def test_an_entity_is_asked_by_its_id_and_its_ancestors_with_it(tmp_path):
    served = family(tmp_path)
    client = Client(served.url)
    assert client.check("chat", entity="alice").entity is None
    assert not client.debit("chat", {"org": 1, "user": 1}, entity="alice")
    refused = client.check("chat", entity="alice")
    assert not refused and (refused.limit, refused.level, refused.entity) == ("user", "user", "alice")
    assert client.forecast("chat", entity="bob") == {"org": 1, "user": 2}
    [_, above] = client.check_many([{"policy": "chat", "entity": "bob"}] * 2)
    assert not above and above.entity == "acme"
    assert client.peek("chat", entity="bob").entity == "acme"
    client.reset("chat", entity="bob")
    with client.acquire("jobs", entity="alice", timeout=5) as lease:
        assert lease.adjust({"slots": 1})
        assert not client.try_acquire("jobs", entity="alice")
        assert client.try_acquire("jobs", key="acme/bob")
    with pytest.raises(UnknownPolicy, match="there is no entity `nobody`"):
        client.check("chat", entity="nobody")
    with pytest.raises(InvalidRequest, match="not both"):
        client.check("chat", key="acme/bob", entity="bob")
    for wrong in (None, 5):
        with pytest.raises(TypeError):
            client.check("chat", entity=wrong)
        with pytest.raises(TypeError):
            client.reset("chat", entity=wrong)
    served.kill()


def test_an_entity_is_asked_in_an_event_loop(tmp_path):
    served = family(tmp_path)

    async def main():
        client = AsyncClient(served.url)
        async with await client.acquire("jobs", entity="alice", timeout=5):
            assert not await client.try_acquire("jobs", entity="alice")
        assert await client.check("chat", entity="alice")
        assert not await client.debit("chat", {"user": 1}, entity="alice")
        assert (await client.peek("chat", entity="alice")).entity == "alice"
        assert await client.forecast("chat", entity="bob") == {"org": 2, "user": 2}
        await client.reset("chat", entity="alice")
        assert await client.check("chat", entity="alice")

    asyncio.run(main())
    served.kill()


def test_a_lease_is_settled_with_what_was_used(server):
    client = Client(server.url)
    with client.acquire("chat", {"tokens": 700}, timeout=5, key="alice") as lease:
        assert lease and lease.is_held
        assert lease.adjust({"tokens": 800})
        assert not client.check("chat", {"tokens": 300}, key="alice")
        lease.settle({"tokens": 300})
    assert lease.reclaimed == {"tokens": 500}
    assert not lease.is_held
    assert client.peek("chat", cost=0, key="alice").remaining["tokens"] == 700
    with pytest.raises(LeaseEnded):
        lease.settle({"tokens": 1})
    lease.release()


def test_an_end_without_a_settlement_was_used_as_taken_and_a_cancelled_one_not_at_all(server):
    client = Client(server.url)
    with client.acquire("chat", cost=100):
        pass
    with pytest.raises(ZeroDivisionError), client.acquire("chat", cost=100):
        raise ZeroDivisionError
    client.acquire("chat", cost=100).cancel()
    assert client.peek("chat", cost=0).remaining["tokens"] == 800


def test_who_waits_is_served_when_the_holder_ends(server):
    client = Client(server.url)
    first = client.acquire("jobs")
    refused = client.try_acquire("jobs")
    assert not refused and refused.limit == "slots"
    with pytest.raises(AcquireTimeout) as told:
        client.acquire("jobs", timeout=0.05)
    assert told.value.limit == "slots"
    fences = []
    waits = threading.Thread(target=lambda: fences.append(client.acquire("jobs").fence))
    waits.start()
    first.release()
    waits.join()
    assert fences[0] > first.fence


def test_a_lease_that_is_dropped_comes_back(server):
    client = Client(server.url)
    lease = client.acquire("jobs")
    assert free(client) == 0
    del lease
    gc.collect()
    until(lambda: free(client) == 1)


def test_a_lease_is_renewed_while_it_is_held(server):
    client = Client(server.url)
    with client.acquire("jobs", ttl=3) as lease:
        until(lambda: client.peek("jobs").retry_after < 2.5)
        until(lambda: client.peek("jobs").retry_after > 2.5)
        assert lease.is_held


def test_a_lease_that_is_renewed_by_its_holder_lasts_so_long_from_then_on(server):
    client = Client(server.url)
    lease = client.acquire("jobs", ttl=600)
    # For longer, and then for shorter: each later renewal is for as long.
    lease.renew(1_200)
    assert client.peek("jobs").retry_after > 1_000
    lease.renew(6)
    until(lambda: client.peek("jobs").retry_after < 5)
    until(lambda: client.peek("jobs").retry_after > 5)
    assert lease.is_held and client.peek("jobs").retry_after <= 6
    for wrong in (0, 40_000_000, -1, float("nan")):
        with pytest.raises(InvalidRequest):
            lease.renew(wrong)
    assert lease.is_held
    lease.release()
    with pytest.raises(LeaseEnded):
        lease.renew(3)
    with client.acquire("jobs"), pytest.raises(LeaseEnded):
        client.try_acquire("jobs").renew(3)

    async def main():
        async with await AsyncClient(server.url).acquire("jobs", ttl=600) as lease:
            await lease.async_renew(30)
            assert client.peek("jobs").retry_after <= 30

    asyncio.run(main())


def test_an_answer_says_that_the_servers_store_is_away(tmp_path, mortal_redis):
    url, redis = mortal_redis
    limits = "limits.rpm = { calls = 1, per = '1h' }"
    config = f"[policy.admits]\nfailure_mode = 'admit'\n{limits}\n[policy.refuses]\n{limits}\n"
    server = Server(tmp_path, "--store", url, config=config)
    client = Client(server.url)
    assert not client.check("admits").degraded
    refused = client.check("admits")
    assert not refused and not refused.degraded
    redis.kill()
    redis.wait()
    answer = client.check("admits")
    assert answer and answer.degraded
    with client.acquire("admits", timeout=5) as lease:
        assert lease and lease.degraded and not lease.is_held
        assert repr(lease) == "<ServerLease: degraded>"
    with pytest.raises(StoreUnavailable):
        client.check("refuses")

    async def main():
        assert (await AsyncClient(server.url).check("admits")).degraded

    asyncio.run(main())
    server.kill()


def test_what_is_wrong_is_an_exception_of_its_kind(server):
    client = Client(server.url)
    with pytest.raises(UnknownPolicy, match="typo"):
        client.check("typo")
    with pytest.raises(InvalidRequest, match="typo"):
        client.check("chat", {"typo": 1})
    with pytest.raises(ImpossibleRequest):
        client.acquire("chat", {"tokens": 1_001})
    for url in ("127.0.0.1", "ftp://x", "http://user:secret@x"):
        with pytest.raises(ValueError) as told:
            Client(url)
        assert "secret" not in str(told.value)
    with pytest.raises(ValueError, match="Client"):
        LimitSet([ResourceLimit("slots", 1)], name="x", store=server.url)


def test_a_token_is_needed_where_the_server_has_any(tmp_path):
    hashed = hashlib.sha256(b"tg-right").hexdigest()
    token = f"[[token]]\nname = 'a'\nsha256 = '{hashed}'\nscopes = ['decide']\npolicies = ['chat']\n"
    server = Server(tmp_path, config=token + POLICIES)
    try:
        for wrong in (None, "tg-wrong"):
            with pytest.raises(Unauthorized):
                Client(server.url, wrong).check("chat", cost=1)
        client = Client(server.url, token="tg-right")
        assert client.check("chat", cost=1)
        with pytest.raises(Forbidden):
            client.check("jobs")
        assert "tg-right" not in repr(client)
    finally:
        server.kill()


def test_a_server_that_hangs_is_given_up_and_one_that_is_away_is_told():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(ServerTimeout) as told:
            Client(url, timeout=0.2).check("chat")
        assert isinstance(told.value, TimeoutError)
    with pytest.raises(ServerUnavailable):
        Client(url).check("chat")


def test_a_server_that_is_started_again_gives_the_same_lease(tmp_path):
    store = ("--store", "file:limits?sync=always")
    server = Server(tmp_path, *store)
    client = Client(server.url)
    first = client.acquire("jobs", idempotency_key="order-4711")
    server.kill()
    server = Server(tmp_path, *store, http=server.url[len("http://") :])
    try:
        again = client.acquire("jobs", idempotency_key="order-4711")
        assert again.fence == first.fence
        again.release()
    finally:
        server.kill()


def test_an_end_that_the_server_did_not_hear_is_said_again(tmp_path):
    store = ("--store", "file:limits?sync=always")
    server = Server(tmp_path, *store)
    client = Client(server.url)
    lease = client.acquire("chat", {"tokens": 700}, key="alice")
    with pytest.raises(ServerUnavailable), client.acquire("spend", {"usd": 5}, key="alice") as spent:
        server.kill()
        # The end of the body says it once more, and hides nothing.
        spent.settle({"usd": 2})
    with pytest.raises(ServerUnavailable):
        lease.settle({"tokens": 300})
    assert not lease.is_held
    server = Server(tmp_path, *store, http=server.url[len("http://") :])
    try:
        lease.settle({"tokens": 300})
        spent.settle({"usd": 1.5})
        assert (lease.reclaimed, spent.reclaimed) == ({"tokens": 400}, {"usd": 3.5})
        for ended in (lease, spent):
            with pytest.raises(LeaseEnded):
                ended.settle({})
    finally:
        server.kill()


def test_a_settlement_that_makes_no_sense_leaves_the_lease_to_be_settled(server):
    client = Client(server.url)
    with pytest.raises(InvalidRequest), client.acquire("jobs") as lease:
        lease.settle({"typo": 1})
    # The end of the body has released it.
    assert free(client) == 1
    lease = client.acquire("chat", {"tokens": 700}, key="alice")
    with pytest.raises(InvalidRequest):
        lease.settle({"typo": 1})
    lease.settle({"tokens": 300})
    assert lease.reclaimed == {"tokens": 400}


def test_ctrl_c_interrupts_who_waits(server):
    client = Client(server.url)
    # It is ignored in what a script has begun in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with client.acquire("jobs"):
            with pytest.raises(KeyboardInterrupt):
                # Wherever in this block it comes, it interrupts it.
                threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
                client.acquire("jobs", timeout=60)
    finally:
        signal.signal(signal.SIGINT, before)
    until(lambda: free(client) == 1)


def test_a_forked_child_and_a_pickled_client_connect_anew(server):
    client = Client(server.url)
    lease = client.acquire("jobs")
    child = os.fork()
    if child == 0:
        ok = client.check("chat", cost=1) and not client.try_acquire("jobs")
        lease.release()  # its parent's: nothing happens
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert free(client) == 0
    assert pickle.loads(pickle.dumps(client)).peek("chat", cost=0).remaining["tokens"] == 999
    lease.release()
    assert free(client) == 1


def test_an_event_loop_awaits(server):
    async def main():
        client = AsyncClient(server.url)
        assert await client.check("chat", {"tokens": 10})
        order = []

        async def work(number):
            async with await client.acquire("jobs"):
                order.append(number)

        await asyncio.gather(*(work(number) for number in range(20)))
        assert sorted(order) == list(range(20))
        async with await client.acquire("chat", {"tokens": 90}) as lease:
            assert await lease.async_adjust({"tokens": 100})
            await lease.async_settle({"tokens": 40})
        assert lease.reclaimed == {"tokens": 60}
        assert (await client.forecast("chat", {"tokens": 95}))["tokens"] == 10
        with pytest.raises(UnknownPolicy):
            await client.peek("typo")

        async with await client.acquire("jobs"):
            waits = asyncio.ensure_future(client.acquire("jobs"))
            await asyncio.sleep(0.1)
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
        for _ in range(1_000):
            if (await client.peek("jobs")).remaining["slots"] == 1:
                return
            await asyncio.sleep(0.02)
        pytest.fail("what was given up never came back")

    asyncio.run(main())


async def is_left(client, key, left):
    """Until so much is left of a key's money: what is given back is on its way."""
    for _ in range(1_000):
        remaining = (await client.peek("spend", {"usd": Decimal("0.01")}, key=key)).remaining["usd"]
        if remaining == left:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{remaining} is left, not {left}")


def test_an_end_that_nobody_waits_for_any_more_is_carried_out(server):
    async def main():
        client = AsyncClient(server.url)
        for number in range(20):
            lease = await client.acquire("spend", {"usd": 9}, key=str(number))

            async def settle(lease=lease):
                await lease.async_settle({"usd": 0.01})

            # The server stands still until then, so that no answer comes before the task is cancelled.
            with server.paused():
                task = asyncio.ensure_future(settle())
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            del lease, settle, task
        for number in range(20):
            await is_left(client, str(number), 9.99)

    asyncio.run(main())


def test_what_was_granted_to_a_task_that_was_cancelled_is_given_back_whole(server):
    async def main():
        client = AsyncClient(server.url)
        observer = Client(server.url)
        # The server stands still until the task waits: it is not granted at once.
        with server.paused():
            task = asyncio.ensure_future(client.acquire("spend", {"usd": 5}, key="k"))
            await asyncio.sleep(0)
        # The loop is busy until it is granted, and the task is cancelled before it hears of that.
        while observer.peek("spend", {"usd": Decimal("0.01")}, key="k").remaining["usd"] != 5:
            pass
        time.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await is_left(client, "k", 10)

    asyncio.run(main())


def test_a_proxy_of_the_environment_gets_nothing(server, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert Client(server.url).check("chat", {"tokens": 1})


def test_a_password_in_a_url_is_shown_by_no_error():
    for url in ("http://user:hush@host:99999", "user:hush@127.0.0.1:7400", "http://user:hush@ho st:1"):
        with pytest.raises(ValueError) as raised:
            Client(url)
        assert "hush" not in str(raised.value)


def test_a_decimal_with_an_exponent_is_an_amount(server):
    client = Client(server.url)
    assert str(Decimal("10").normalize()) == "1E+1"
    assert client.peek("spend", {"usd": Decimal("10").normalize()})
