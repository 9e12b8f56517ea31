"""A transport needs its own library, and no other."""

import importlib
import subprocess
import sys

import pytest

LIBRARIES = ["httpx", "httpx2", "requests"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_without_its_library_a_transport_says_what_to_install(monkeypatch, library):
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"tidegate.llm.{library}", raising=False)
    with pytest.raises(ImportError, match=f"pip install {library}$"):
        importlib.import_module(f"tidegate.llm.{library}")


@pytest.mark.parametrize("library", [None, *LIBRARIES])
def test_a_transport_imports_its_library_and_no_other(library):
    if library is not None:
        pytest.importorskip(library)
    module = "tidegate.llm" if library is None else f"tidegate.llm.{library}"
    program = f"import sys, {module}; print(*sorted(set({LIBRARIES}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ([] if library is None else [library])
