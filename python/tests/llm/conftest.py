"""A provider of each dialect, for tests of calls that go to it without a gateway."""

import pathlib
import sys

import pytest

# What starts the provider and reads its ledger.
sys.path.append(str(pathlib.Path(__file__).parents[1] / "gateway"))

from gateways import Provider  # noqa: E402
from metered import Account  # noqa: E402

# A program of its own process.
collect_ignore = ["beside.py"]


@pytest.fixture(scope="session")
def openai_provider(tmp_path_factory):
    provider = Provider(tmp_path_factory.mktemp("openai"), "--dialect", "openai")
    yield provider
    provider.kill()


@pytest.fixture(scope="session")
def anthropic_provider(tmp_path_factory):
    provider = Provider(tmp_path_factory.mktemp("anthropic"), "--dialect", "anthropic")
    yield provider
    provider.kill()


@pytest.fixture
def of_openai(openai_provider):
    """An account of its own, and limits."""
    return Account.at(openai_provider)


@pytest.fixture
def of_anthropic(anthropic_provider):
    """An account of its own, and limits."""
    return Account.at(anthropic_provider)
