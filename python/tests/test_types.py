"""The package and its examples pass the type checkers, and the stub is what the module has."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from test_pages import EXAMPLES, ROOT

PACKAGE = pathlib.Path(__file__).parents[1]
TYPED = pathlib.Path(__file__).with_name("typed.py")


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What the pages show, each example in a file of its own, and the axes."""
    folder = tmp_path_factory.mktemp("shown")
    for number, (_, example) in enumerate(EXAMPLES):
        (folder / f"example_{number}.py").write_text(example)
    return [*sorted(folder.iterdir()), *sorted((ROOT / "examples/axes").glob("*.py"))]


def run(module, *arguments):
    # Each kind of checker is a package of its own; without them the types are not tested.
    pytest.importorskip(module.split(".")[0])
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "MYPYPATH": str(PACKAGE)}
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=PACKAGE, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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
    # Django and its REST framework have no types.
    leave += ["--disable-error-code", "import-untyped", "--allow-subclassing-any"]
    mypy(*leave, *shown)


def test_pyright_passes_the_package_and_its_examples():
    # Without an interpreter it finds no framework.
    run("pyright", "--pythonpath", sys.executable, "tidegate", TYPED)


def test_pyright_passes_what_the_pages_show(shown, tmp_path):
    for example in shown:
        shutil.copy(example, tmp_path)
    # Of what has no types of its own it is not to guess any.
    settings = {"include": ["."], "extraPaths": [str(PACKAGE)], "useLibraryCodeForTypes": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    told = run("pyright", "--pythonpath", sys.executable, "--project", tmp_path, "--outputjson")
    assert json.loads(told)["summary"]["filesAnalyzed"] == len(shown)


def test_the_stub_is_what_the_module_has():
    run("mypy.stubtest", "tidegate._core")
