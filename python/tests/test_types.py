"""The package and its examples pass the type checkers, and the stub is what the module has."""

import os
import pathlib
import subprocess
import sys

import pytest
from test_pages import FENCE, ROOT

PACKAGE = pathlib.Path(__file__).parents[1]
TYPED = pathlib.Path(__file__).with_name("typed.py")


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What the pages of sets and locks show, each example in a file of its own."""
    folder = tmp_path_factory.mktemp("shown")
    pages = [ROOT / "README.md", ROOT / "docs/python.md", PACKAGE / "README.md"]
    examples = [example for page in pages for _, example in FENCE.findall(page.read_text())]
    for number, example in enumerate(examples):
        (folder / f"example_{number}.py").write_text(example)
    return folder


def run(module, *arguments):
    # Each kind of checker is a package of its own; without them the types are not tested.
    pytest.importorskip(module.split(".")[0])
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "MYPYPATH": str(PACKAGE)}
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=PACKAGE, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    cache = tmp_path_factory.mktemp("mypy")
    return lambda *arguments: run("mypy", "--strict", "--cache-dir", cache, *arguments)


def test_mypy_passes_the_package_and_its_examples(mypy):
    mypy("tidegate", TYPED)


def test_mypy_passes_what_the_pages_show(mypy, shown):
    # An example has no annotations of its own.
    leave = ["--config-file=", "--allow-untyped-defs", "--allow-untyped-calls", "--allow-untyped-decorators"]
    leave += ["--disable-error-code", "var-annotated"]
    mypy(*leave, *sorted(shown.iterdir()))


def test_pyright_passes_the_examples():
    run("pyright", TYPED)


def test_the_stub_is_what_the_module_has():
    run("mypy.stubtest", "tidegate._core")
