"""What the pages show runs as it stands there."""

import inspect
import os
import pathlib
import re
import subprocess
import sys
import types
import uuid

import pytest
from serving import Server

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / page for page in ("README.md", "docs/python.md", "docs/python/client.md", "docs/python/workers.md")]
PAGES.append(ROOT / "python/README.md")
PAGES += sorted(ROOT.glob("docs/python/frameworks/*.md"))
FENCE = re.compile(r"(?:<!-- needs (a Redis server|a server|Ray) -->\n)?```python\n(.*?)```", re.DOTALL)
EXAMPLES = [example for page in PAGES for example in FENCE.findall(page.read_text())]


@pytest.fixture
def page_server(tmp_path):
    """A server with the policies that the page shows."""
    page = (ROOT / "docs/python/client.md").read_text()
    policies = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    server = Server(tmp_path, config=policies.group(1))
    yield server.url
    server.kill()


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(number, request, tmp_path, monkeypatch):
    needed, example = EXAMPLES[number]
    if needed == "a Redis server":
        example = example.replace("redis://localhost", request.getfixturevalue("redis_url"))
    if needed == "a server":
        example = example.replace("http://127.0.0.1:7400", request.getfixturevalue("page_server"))
    if needed == "Ray" and "TIDEGATE_REQUIRE_RAY" not in os.environ:
        pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
    # Shared memory has what an earlier run has used.
    example = re.sub(r'name="([^"]+)", mode=', rf'name="\1 {uuid.uuid4()}", mode=', example)
    # What a page shows needs none, and it takes long to start.
    example = example.replace("ray.init()", "ray.init(include_dashboard=False)")
    if needed == "Ray" or "__main__" in example:
        runs_as_a_program(example, tmp_path / "example.py")
        return
    module = types.ModuleType("example")
    # Frameworks look for names of annotations there.
    monkeypatch.setitem(sys.modules, "example", module)
    names = vars(module)
    exec(compile(example, f"example {number}", "exec"), names)
    for name, shown in list(names.items()):
        if name.startswith("test_"):
            fixtures = inspect.signature(shown).parameters
            shown(**{fixture: request.getfixturevalue(fixture) for fixture in fixtures})


def runs_as_a_program(example, path):
    path.write_text(example)
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_raylet_start_wait_time_s": "600"}
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=900, env=environment)
    assert done.returncode == 0, done.stderr


def test_the_packages_own_page_begins_as_the_docs_do():
    """But for its title, where wheels come from, and its last line."""
    page = (ROOT / "docs/python.md").read_text()
    own = (ROOT / "python/README.md").read_text().split("\n\n")
    assert own.pop(0) == "# tidegate for Python" and own.pop().startswith("The whole page: `docs/python.md`")
    title, *begin = page[: page.index("\n\n## ")].split("\n\n")
    assert [part for part in begin if not part.startswith("`cargo xtask wheels`")] == own


def test_there_are_examples():
    assert len(EXAMPLES) >= 5
