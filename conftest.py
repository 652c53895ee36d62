"""Settings of the whole test run, doctests of README and docstrings included."""

import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: the first example of a test may compile a kernel. In continuous integration the
# examples are the same every time, so that a red run can be repeated.
settings.register_profile("marc", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("marc")

# modules that are written in torch have no examples to run where it is not installed
if importlib.util.find_spec("torch") is None:
    sources = (Path(__file__).parent / "src").rglob("*.py")
    collect_ignore = [str(p) for p in sources if "\nimport torch\n" in p.read_text("utf-8")]


@pytest.fixture(autouse=True)
def _examples_write_into_a_folder_of_their_own(request, monkeypatch, tmp_path):
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def _pictures_of_the_lab_are_kept_for_this_run_alone(tmp_path_factory):
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base  # drawn once for all
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARC_CACHE", str(shared / "cache"))
        yield
