"""The axes of `examples/axes` in Python say what they promise."""

import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parents[1]
AXES = PACKAGE.parent / "examples/axes"
SAYS = {
    "rate": ["call 3: admitted", "call 4: refused, next in 1"],
    "cost": ["3000 came back", "12,000 used: one more fits: False"],
    "concurrency": ["first: True, second: False", "ended: True"],
    "all_at_once": ["8000 tokens: refused by tokens", "1000 tokens: refused by slots"],
}


@pytest.mark.parametrize("axis", SAYS)
def test_an_axis_says_what_it_promises(axis):
    program = [sys.executable, AXES / f"{axis}.py"]
    done = subprocess.run(program, env={"PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [said for said in SAYS[axis] if said in done.stdout] == SAYS[axis], done.stdout


def test_no_axis_is_left_out():
    assert {path.stem for path in AXES.glob("*.py")} == set(SAYS)
