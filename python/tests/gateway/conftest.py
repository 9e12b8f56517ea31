"""Processes that tests of SDKs share."""

import json
import pathlib
import subprocess
import sys

import pytest
from gateways import Gateway, Provider, killed_after_four


# Programs: one that is killed, and one that needs both SDKs.
collect_ignore = ["killed.py", "mixed.py"]


def _started(tmp_path_factory, dialect, *flags):
    folder = tmp_path_factory.mktemp(dialect)
    provider = Provider(folder, "--dialect", dialect, *flags)
    try:
        gateway = Gateway(folder, provider, dialect)
    except BaseException:
        provider.kill()
        raise
    return gateway


@pytest.fixture(scope="session")
def _openai(tmp_path_factory):
    gateway = _started(tmp_path_factory, "openai")
    yield gateway
    gateway.kill()
    gateway.provider.kill()


@pytest.fixture(scope="session")
def _anthropic(tmp_path_factory):
    gateway = _started(tmp_path_factory, "anthropic")
    yield gateway
    gateway.kill()
    gateway.provider.kill()


@pytest.fixture
def at_openai(_openai):
    """An account of its own, behind a gateway to a provider that speaks like OpenAI."""
    return _openai.account()


@pytest.fixture
def at_anthropic(_anthropic):
    """An account of its own, behind a gateway to a provider that speaks like Anthropic."""
    return _anthropic.account()


@pytest.fixture
def killed():
    """Kills a client process in the middle of its stream: how many tokens it had seen."""

    def kill(sdk, account, asked):
        program = pathlib.Path(__file__).with_name("killed.py")
        words = [sys.executable, program, sdk, account.gateway.url, account.secret, json.dumps(asked)]
        return killed_after_four(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))

    return kill
