"""Calls of all kinds at once by both SDKs: each is settled once, and no slot is lost.

`cargo xtask mixed` is the same with more."""

import asyncio

from gateways import sdk

sdk("openai")
sdk("anthropic")

import mixed  # noqa: E402


def test_calls_of_all_kinds_are_settled_once_and_lose_no_slot(_openai, _anthropic):
    gateways = {"openai": _openai, "anthropic": _anthropic}
    kinds = asyncio.run(mixed.run(gateways, requests=300, seed=1))
    told = {f"{kind.sdk} {kind.name}": mixed.faults(kind) for kind in kinds}
    wrong = {name: of for name, of in told.items() if of[2]}
    assert not wrong
    for gateway in gateways.values():
        assert [gateway.metric(name) for name in mixed.METRICS] == [0, 0]
