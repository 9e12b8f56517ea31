"""A gateway before a simulated provider, each a process, and what both say of an account."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import urllib.request
import uuid
from decimal import Decimal

import pytest

BUILT = pathlib.Path(__file__).parents[3] / "target/debug"

#: Limits that refuse nobody and give nothing back by themselves: what is used of them is what was charged.
POLICY = """
[policy.llm.limits]
requests      = { calls = 10_000_000, per = "30d", algorithm = "first_use_window" }
tokens        = { budget = 1_000_000_000, per = "30d", algorithm = "first_use_window" }
input-tokens  = { budget = 1_000_000_000, per = "30d", algorithm = "first_use_window" }
output-tokens = { budget = 1_000_000_000, per = "30d", algorithm = "first_use_window" }
usd           = { budget = 100_000, per = "30d", unit = "0.000001", algorithm = "first_use_window" }
running       = { concurrency = 64, ttl = "10m" }
"""

#: Of a million tokens of prompt and of answer: a token costs whole millionths, and nothing is rounded.
PRICE = (1, 10)

#: How long to wait for what is to happen by itself, in seconds; no test is done sooner for it.
PATIENCE = 60


def sdk(name: str):
    """An SDK; without it the module that asks is skipped, unless TIDEGATE_REQUIRE_SDKS is set."""
    if "TIDEGATE_REQUIRE_SDKS" in os.environ:
        return importlib.import_module(name)
    return pytest.importorskip(name)


def program(name: str, variable: str) -> str:
    """Where a program of ours is; without it the test is skipped, unless the variable names it."""
    path = os.environ.get(variable, str(BUILT / name))
    if shutil.which(path) is None:
        if variable in os.environ:
            pytest.fail(f"{path}, which {variable} names, is not there")
        pytest.skip(f"{path} is not built")
    return path


class Process:
    """A program that says where it is on a line that begins with `word`."""

    def __init__(self, words: list[str], folder: pathlib.Path, *, first: list[str]) -> None:
        self.process = subprocess.Popen(
            words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        self.said: dict[str, str] = {}
        for line in self.process.stdout:
            named, _, rest = line.strip().partition(" ")
            if rest.strip().startswith("http://"):
                self.said[named] = rest.split()[0]
            elif named.startswith("http://"):
                self.said["at"] = named
            if all(name in self.said for name in first):
                return
        pytest.fail(f"{words[0]} ended before it said where it is")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Provider(Process):
    """The simulated provider."""

    def __init__(self, folder: pathlib.Path, *flags: str) -> None:
        price = ",".join(str(price * 1_000_000) for price in PRICE)
        words = [program("provider", "TIDEGATE_PROVIDER"), "--price", price, *flags]
        super().__init__(words, folder, first=["at"])
        self.url = self.said["at"]

    def ledger(self, account: str) -> dict[str, int]:
        return dict(fetch(f"{self.url}/sim/ledger").get(account, {}))


class Gateway(Process):
    """`tidegate gateway` before one provider."""

    def __init__(self, folder: pathlib.Path, provider: Provider, dialect: str, *flags: str) -> None:
        (folder / "tidegate.toml").write_text(POLICY)
        words = [program("tidegate", "TIDEGATE"), "gateway", "--upstream", f"sim={dialect}@{provider.url}"]
        words += ["--config", "tidegate.toml", "--store", "memory:", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        words += ["--grpc", "off", "--resp", "off", "--price", f"m={PRICE[0]},{PRICE[1]}", *flags]
        super().__init__(words, folder, first=["HTTP", "LLM"])
        self.provider = provider
        self.dialect = dialect
        self.url = self.said["LLM"]
        self.http = self.said["HTTP"]

    def account(self) -> Account:
        """A caller of its own: nothing of others counts against it."""
        return Account(self, f"sk-{uuid.uuid4().hex}")

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"{self.http}/metrics", timeout=PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


@dataclasses.dataclass(frozen=True)
class Spent:
    """What an account has used, by either side."""

    calls: int
    input: int
    output: int
    millionths: int


@dataclasses.dataclass(frozen=True)
class Account:
    """A credential: what the gateway charged it, and what the provider billed."""

    gateway: Gateway
    secret: str

    def key(self) -> str:
        return f"credential-{hashlib.sha256(self.secret.encode()).hexdigest()[:16]}"

    def ledger(self) -> dict[str, int]:
        return self.gateway.provider.ledger(self.secret)

    def charged(self) -> Spent:
        """What the store has: of each limit what is not left."""
        request = {"policy": "llm", "key": self.key(), "amounts": {"requests": 1}}
        peeked = fetch(f"{self.gateway.http}/v1/peek", request)
        used = {
            name: Decimal(str(limit["limit"])) - Decimal(str(limit["remaining"])) + Decimal(str(limit["debt"]))
            for name, limit in peeked["limits"].items()
        }
        assert used["running"] == self.held(), used
        assert used["tokens"] == used["input-tokens"] + used["output-tokens"], used
        return Spent(
            calls=int(used["requests"]),
            input=int(used["input-tokens"]),
            output=int(used["output-tokens"]),
            millionths=int(used["usd"] * 1_000_000),
        )

    def billed(self) -> Spent:
        """What the provider has."""
        ledger = self.ledger()
        return Spent(
            calls=ledger["admitted"],
            input=ledger["input_tokens"],
            output=ledger["output_tokens"],
            millionths=ledger["spent_millionths"],
        )

    def held(self) -> int:
        """How many calls hold something at the gateway."""
        leases = fetch(f"{self.gateway.http}/v1/leases?policy=llm&key={self.key()}")["leases"]
        return len(leases)

    def settles(self) -> Spent:
        """What was charged, once nothing is under way on either side: no slot is lost."""
        wait_until(lambda: self.ledger().get("open", 0) == 0, "the provider has a call under way")
        wait_until(lambda: self.held() == 0, "the gateway holds a slot")
        return self.charged()


def cut_is_charged(account: Account, came: int, before: int, whole: int = 3) -> None:
    """Whether a stream that its client left is charged once, behind a call of `whole` tokens: its prompt,
    and of the answer at least what `came` to the client and at most what the provider made, with the
    `before` events that come before the first token and count as one each."""
    charged, billed = account.settles(), account.billed()
    assert account.ledger()["cut_by_client"] == 1
    assert (charged.calls, charged.input) == (billed.calls, billed.input)
    made = billed.output - whole
    assert came <= charged.output - whole - before <= made <= 8


def killed_after_four(client: subprocess.Popen) -> int:
    """Kills a client that says `token` for each that comes once it has said four: how many it has said."""
    for _ in range(4):
        assert client.stdout.readline() == "token\n"
    client.kill()
    rest = client.stdout.read()
    # By that signal, and not by itself before.
    assert client.wait() == -signal.SIGKILL
    return 4 + rest.count("token\n")


def fetch(url: str, body: object = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)


def wait_until(holds, why: str) -> None:
    """Until it holds; what does not within the patience never will."""
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, f"{why} after {PATIENCE} s"
        time.sleep(0.01)


def wish(**wishes: object) -> dict[str, str]:
    """The header by which a test tells the provider how to answer one call."""
    return {"x-sim": ",".join(f"{name}={value}" for name, value in wishes.items())}
