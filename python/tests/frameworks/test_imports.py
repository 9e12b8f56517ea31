"""A helper needs its own framework, and no other."""

import importlib
import subprocess
import sys

import pytest

FRAMEWORKS = ["aiohttp", "celery", "django", "fastapi", "httpx", "langchain_core", "requests", "rest_framework", "starlette"]


@pytest.mark.parametrize(
    "module, needed, install",
    [
        ("aiohttp", "aiohttp", "aiohttp"),
        ("django", "django", "django"),
        ("fastapi", "fastapi", "fastapi"),
        ("httpx", "httpx", "httpx"),
        ("langchain", "langchain_core", "langchain-core"),
        ("requests", "requests", "requests"),
    ],
)
def test_without_its_framework_a_helper_says_what_to_install(monkeypatch, module, needed, install):
    for name in [name for name in sys.modules if name.split(".")[0] == needed]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, needed, None)
    monkeypatch.delitem(sys.modules, f"tidegate.frameworks.{module}", raising=False)
    with pytest.raises(ImportError, match=f"pip install {install}$"):
        importlib.import_module(f"tidegate.frameworks.{module}")


@pytest.mark.parametrize("module", ["", ".http", ".asgi", ".wsgi", ".rest_framework"])
def test_what_needs_no_framework_imports_none(module):
    program = f"import sys, tidegate.frameworks{module}; print(*sorted(set({FRAMEWORKS}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
