"""Many calls of all kinds at once, by both SDKs: what was charged, and what was billed.

    cargo xtask mixed --requests 10000

It starts a gateway and a simulated provider for each SDK (TIDEGATE and TIDEGATE_PROVIDER say where the
programs are), and ends with 1 if anything was charged twice, or not, or a slot is lost. The kinds of calls
have an account each, so that each is compared by itself."""

from __future__ import annotations

import argparse
import asyncio
import collections
import dataclasses
import json
import pathlib
import random
import sys
import tempfile
import time

import anthropic
import openai
from gateways import Account, Gateway, Provider, Spent, wish

MESSAGES = [{"role": "user", "content": "How high is the tide?"}]
BOUND = 40
SCHEMA = {"type": "object", "properties": {"harbour": {"type": "string"}}, "required": ["harbour"]}

#: A stream that is left before its end does not end by itself, however late its reader is.
ENDLESS: dict[str, object] = {"output": BOUND, "gap": "10ms", "silence": 20}

#: What is 0 when all has ended.
METRICS = ('tidegate_leases{policy="llm"}', "tidegate_gateway_unsettled_leases_total ")

#: So many calls are under way at once.
AT_ONCE = 32


@dataclasses.dataclass
class Kind:
    """Calls of one kind by one SDK."""

    sdk: str
    name: str
    account: Account
    calls: int = 0
    #: Tokens that came of streams that broke off.
    came: int = 0
    #: Of these each has so many events before its first token, and behind its last.
    events: int = 0


class OpenAi:
    """Deeds of the `openai` SDK."""

    before = 1

    def __init__(self, account: Account) -> None:
        url = f"{account.gateway.url}/v1"
        self.client = openai.AsyncOpenAI(base_url=url, api_key=account.secret, max_retries=0)

    async def create(self, how: dict[str, object], **more: object):
        asked = {"model": "m", "messages": MESSAGES, "max_tokens": BOUND, **more}
        return await self.client.chat.completions.create(**asked, extra_headers=wish(**how))

    @staticmethod
    def is_token(chunk) -> bool:
        return bool(chunk.choices and chunk.choices[0].delta.content)

    async def tools(self, stream: bool) -> None:
        tools = [{"type": "function", "function": {"name": "tide", "parameters": SCHEMA}}]
        answer = await self.create({"gap": "0ms"}, tools=tools, stream=stream)
        if stream:
            async for _ in answer:
                pass
        else:
            json.loads(answer.choices[0].message.tool_calls[0].function.arguments)

    async def other(self, output: int) -> None:
        if output % 2:
            await self.client.embeddings.create(model="m", input=["high", "low"], encoding_format="float")
        else:
            asked = {"model": "m", "input": "How high is the tide?", "max_output_tokens": BOUND}
            await self.client.responses.create(**asked, extra_headers=wish(output=output))


class Anthropic:
    """Deeds of the `anthropic` SDK."""

    before = 3

    def __init__(self, account: Account) -> None:
        url = account.gateway.url
        self.client = anthropic.AsyncAnthropic(base_url=url, api_key=account.secret, max_retries=0)

    async def create(self, how: dict[str, object], **more: object):
        asked = {"model": "m", "messages": MESSAGES, "max_tokens": BOUND, **more}
        return await self.client.messages.create(**asked, extra_headers=wish(**how))

    @staticmethod
    def is_token(event) -> bool:
        return event.type == "content_block_delta"

    async def tools(self, stream: bool) -> None:
        tools = [{"name": "tide", "input_schema": SCHEMA}]
        answer = await self.create({"gap": "0ms"}, tools=tools, stream=stream)
        if stream:
            async for _ in answer:
                pass
        else:
            assert set(answer.content[0].input) == {"harbour"}

    async def other(self, output: int) -> None:
        asked = {"model": "m", "messages": MESSAGES, "max_tokens": BOUND}
        async with self.client.messages.stream(**asked, extra_headers=wish(output=output)) as stream:
            await stream.get_final_message()


SDKS = {"openai": OpenAi, "anthropic": Anthropic}


async def plain(kind: Kind, sdk, draw: random.Random) -> None:
    await sdk.create({"output": draw.randint(1, 60)})


async def stream(kind: Kind, sdk, draw: random.Random) -> None:
    output = draw.randint(1, BOUND)
    came = [sdk.is_token(part) async for part in await sdk.create({"output": output}, stream=True)]
    assert sum(came) == output


async def tools(kind: Kind, sdk, draw: random.Random) -> None:
    await sdk.tools(stream=draw.random() < 0.5)


async def other(kind: Kind, sdk, draw: random.Random) -> None:
    await sdk.other(draw.randint(1, BOUND))


async def closed(kind: Kind, sdk, draw: random.Random) -> None:
    """A stream that its reader closes."""
    enough = draw.randint(1, 8)
    stream = await sdk.create(ENDLESS, stream=True)
    came = 0
    async with stream:
        async for part in stream:
            came += sdk.is_token(part)
            if came == enough:
                break
    broke_off(kind, sdk, came)


async def cancelled(kind: Kind, sdk, draw: random.Random) -> None:
    """A stream whose task is cancelled."""
    enough = draw.randint(1, 8)
    came, reached = 0, asyncio.Event()

    async def read() -> None:
        nonlocal came
        async for part in await sdk.create(ENDLESS, stream=True):
            came += sdk.is_token(part)
            if came == enough:
                reached.set()

    task = asyncio.create_task(read())
    await reached.wait()
    task.cancel()
    (ended,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError), f"{came} came: {ended!r}"
    broke_off(kind, sdk, came)


async def killed(kind: Kind, sdk, draw: random.Random) -> None:
    """A client process that is killed in the middle of its stream."""
    asked = json.dumps({"model": "m", "messages": MESSAGES, "max_tokens": BOUND})
    program = pathlib.Path(__file__).with_name("killed.py")
    words = [str(program), kind.sdk, kind.account.gateway.url, kind.account.secret, asked]
    client = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)
    for _ in range(4):
        assert await client.stdout.readline() == b"token\n"
    client.kill()
    rest = await client.stdout.read()
    await client.wait()
    broke_off(kind, sdk, 4 + rest.count(b"token\n"))


async def broken(kind: Kind, sdk, draw: random.Random) -> None:
    """A stream whose provider dies, or says that it failed."""
    after, how = draw.randint(1, 30), draw.choice(["cut", "error"])
    came = 0
    try:
        async for part in await sdk.create({"output": BOUND, how: after}, stream=True):
            came += sdk.is_token(part)
    except Exception:
        assert came == after
    else:
        raise AssertionError("it is told of the break")
    broke_off(kind, sdk, came)
    kind.events += how == "error"


async def failed(kind: Kind, sdk, draw: random.Random) -> None:
    """A call that the provider does not answer."""
    status = draw.choice([400, 500, 529])
    try:
        await sdk.create({"status": status})
    except (openai.APIStatusError, anthropic.APIStatusError) as refused:
        assert refused.status_code == status
    else:
        raise AssertionError("it is told of the failure")


async def impatient(kind: Kind, sdk, draw: random.Random) -> None:
    """A client that leaves before the answer begins: nobody tells it what was used."""
    call = asyncio.create_task(sdk.create({"first": "400ms", "output": 3}))
    await asyncio.wait([call], timeout=draw.choice([0, 0.01, 0.1]))
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


def broke_off(kind: Kind, sdk, came: int) -> None:
    kind.came += came
    kind.events += sdk.before


#: Of a hundred calls so many are of each kind; `killed` starts a process for each.
SHARES = {
    plain: 25,
    stream: 25,
    tools: 10,
    other: 10,
    closed: 9,
    cancelled: 9,
    broken: 8,
    failed: 1,
    impatient: 2.5,
    killed: 0.5,
}

#: What is charged for these is what the provider billed, to the token.
EXACT = {"plain", "stream", "tools", "other", "failed"}


async def run(gateways: dict[str, Gateway], requests: int, seed: int) -> list[Kind]:
    """So many calls, of kinds as they are drawn."""
    draw = random.Random(seed)
    kinds = {
        (name, deed): Kind(name, deed.__name__, gateway.account())
        for name, gateway in gateways.items()
        for deed in SHARES
    }
    sdks = {key: SDKS[key[0]](kind.account) for key, kind in kinds.items()}
    # From one answer on prompts are known by their true length.
    await asyncio.gather(*(sdk.create({"output": 3}) for sdk in sdks.values()))
    # Each kind once at least.
    drawn = [*kinds]
    for deed in draw.choices(list(SHARES), weights=list(SHARES.values()), k=max(0, requests - len(drawn))):
        drawn.append((draw.choice(list(gateways)), deed))
    calls = iter([(*key, draw.random()) for key in drawn])

    async def work() -> None:
        for name, deed, own in calls:
            kind = kinds[name, deed]
            kind.calls += 1
            await deed(kind, sdks[name, deed], random.Random(own))

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    await asyncio.gather(*(sdk.client.close() for sdk in sdks.values()))
    return list(kinds.values())


def faults(kind: Kind) -> tuple[Spent, Spent, list[str]]:
    """What was charged and billed, and what is wrong with that, once all has ended."""
    charged, billed = kind.account.settles(), kind.account.billed()
    wrong = []
    if kind.name in EXACT:
        if charged != billed:
            wrong.append("charged is not billed")
    elif kind.name == "impatient":
        # A call that left as it was being sent may be charged though the provider never saw it.
        if not billed.calls <= charged.calls <= 1 + kind.calls:
            wrong.append("more or fewer calls are charged than came")
        if charged.output > 3 + BOUND * kind.calls or charged.output < billed.output:
            wrong.append("more is charged than was reserved, or less than was billed")
    else:
        if (charged.calls, charged.input) != (billed.calls, billed.input):
            wrong.append("calls and prompts that are charged are not those that are billed")
        if charged.calls != 1 + kind.calls:
            wrong.append("not each call is charged once")
        # What breaks off is charged by the length of its texts, too: of the simulator's words eight
        # are nine tokens by that.
        least = kind.came + 3 + kind.events
        most = billed.output * 9 // 8 + kind.calls + kind.events
        if not least <= charged.output <= most:
            wrong.append(f"{charged.output} tokens are charged, not between {least} and {most}")
    return charged, billed, wrong


def started(folder: pathlib.Path) -> dict[str, Gateway]:
    gateways: dict[str, Gateway] = {}
    for sdk in SDKS:
        (folder / sdk).mkdir()
        provider = Provider(folder / sdk, "--dialect", sdk)
        gateways[sdk] = Gateway(folder / sdk, provider, sdk)
    return gateways


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000, help="how many calls (default: 10,000)")
    parser.add_argument("--seed", type=int, default=1, help="what their kinds are drawn by")
    told = parser.parse_args()
    wrong: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        gateways = started(pathlib.Path(folder))
        try:
            begun = time.monotonic()
            kinds = asyncio.run(run(gateways, told.requests, told.seed))
            took = time.monotonic() - begun
            print(f"{told.requests} calls, {AT_ONCE} at once, in {took:.0f} s\n")
            print("| sdk | kind | calls | charged: calls, prompt, answer | billed: calls, prompt, answer | wrong |")
            print("|---|---|---|---|---|---|")
            for kind in kinds:
                charged, billed, told_wrong = faults(kind)
                wrong.update(told_wrong)
                both = [f"{one.calls}, {one.input}, {one.output}" for one in (charged, billed)]
                print(f"| {kind.sdk} | {kind.name} | {kind.calls} | {both[0]} | {both[1]} | {'; '.join(told_wrong)} |")
            for sdk, gateway in gateways.items():
                held, unsettled = (gateway.metric(name) for name in METRICS)
                print(f"\n{sdk}: {held:.0f} leases held, {unsettled:.0f} unsettled")
                wrong.update(held=int(held), unsettled=int(unsettled))
        finally:
            for gateway in gateways.values():
                gateway.kill()
                gateway.provider.kill()
    return 1 if wrong.total() else 0


if __name__ == "__main__":
    sys.exit(main())
