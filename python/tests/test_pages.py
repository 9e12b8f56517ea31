"""What the pages show runs as it stands there."""

import inspect
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / page for page in ("README.md", "docs/python.md", "python/README.md")]
FENCE = re.compile(r"(<!-- needs a Redis server -->\n)?```python\n(.*?)```", re.DOTALL)
EXAMPLES = [example for page in PAGES for example in FENCE.findall(page.read_text())]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(number, request):
    redis, example = EXAMPLES[number]
    if redis:
        example = example.replace("redis://localhost", request.getfixturevalue("redis_url"))
    names = {"__name__": "example"}
    exec(compile(example, f"example {number}", "exec"), names)
    for name, shown in list(names.items()):
        if name.startswith("test_"):
            fixtures = inspect.signature(shown).parameters
            shown(**{fixture: request.getfixturevalue(fixture) for fixture in fixtures})


def test_there_are_examples():
    assert len(EXAMPLES) >= 5
