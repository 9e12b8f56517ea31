"""The axes of `examples/axes` in Python say what they promise."""

import os
import pathlib
import subprocess
import sys

import pytest
from serving import Server

AXES = pathlib.Path(__file__).parents[2] / "examples/axes"
SAYS = {
    "rate": ["call 3: admitted", "call 4: refused, next in 1"],
    "cost": ["3000 came back", "12,000 used: one more fits: False"],
    "concurrency": ["first: True, second: False", "ended: True"],
    "all_at_once": ["8000 tokens: refused by tokens", "1000 tokens: refused by slots"],
    "forecast": ["tokens: 2 requests for 2,000 fit now", "one for 9,000 fits in 14"],
    "debit": ["9000 charged; more may start: True", "4000 charged; more may start: False"],
    "many": ["alice, 7000: admitted = True", "bob, 7000: admitted = True", "alice, 7000: admitted = False"],
}
URL = "http://127.0.0.1:7400"


@pytest.fixture
def axes_server(tmp_path):
    """A server with the policies beside the examples."""
    server = Server(tmp_path, config=(AXES / "limits.toml").read_text())
    yield server.url
    server.kill()


@pytest.mark.parametrize("axis", SAYS)
def test_an_axis_says_what_it_promises(axis, request):
    program = (AXES / f"{axis}.py").read_text()
    if URL in program:
        program = program.replace(URL, request.getfixturevalue("axes_server"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [said for said in SAYS[axis] if said in done.stdout] == SAYS[axis], done.stdout


def test_no_axis_is_left_out():
    languages = [{path.stem for path in AXES.glob(f"*.{kind}")} - {"main"} for kind in ("py", "rs", "sh")]
    assert languages == [set(SAYS)] * 3
