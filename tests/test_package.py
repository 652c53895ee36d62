"""Names, sizes, imports and layering of the packages as a whole."""

import ast
import os
import re
import subprocess
import sys

import pytest
from helpers.repository import ROOT

import marc

HEAVY = ("torch", "timm", "open_clip", "onnxruntime", "matplotlib", "fastapi", "numba", "scipy")
PAPER_ALONE = {"margins", "repair_sets", "stability", "substitution", "warm_up"}
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_import_loads_nothing_heavy():
    code = f"import marc, sys; print([name for name in {HEAVY} if name in sys.modules])"
    assert python(code).stdout.strip() == "[]"


def test_the_core_names_load_nothing_heavy():
    code = f"""import marc, sys
marc.MARC, marc.Stream, marc.sweep, marc.replay, marc.run, marc.stats
print([name for name in {HEAVY} if name in sys.modules])"""
    assert python(code).stdout.strip() == "[]"


@pytest.mark.parametrize("name", marc.__all__)
def test_every_public_name_is_there(name):
    assert getattr(marc, name) is not None
    assert name in dir(marc)


def test_public_names_are_few_and_none_is_for_the_paper_alone():
    assert len(marc.__all__) <= 50
    assert not PAPER_ALONE & set(marc.__all__)


def test_importing_every_module_hides_no_public_name():
    code = """import importlib, pkgutil, marc
before = {n: getattr(marc, n) for n in marc.__all__}
for module in pkgutil.walk_packages(marc.__path__, 'marc.'):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name != 'torch':  # what is written in torch needs it
            raise
print([n for n in marc.__all__ if getattr(marc, n) is not before[n]])"""
    assert python(code).stdout.strip() == "[]"


TYPES = {
    'marc.load_stream("lab/sketch-12")': "marc.stream.stream.Stream",
    'marc.embed("folder/photos", encoders=["dinov2-b"])': "marc.stream.stream.Stream",
    'marc.run(marc.MARC("good"), marc.synthetic_stream())': "marc.types.Run",
    'marc.replay(marc.MARC("good"), marc.synthetic_stream())': "marc.types.Run",
    "marc.sweep(marc.synthetic_stream())": "marc.replay.sweep.Sweep",
    "marc.select(marc.synthetic_stream())": "marc.spaces.selection.Selection",
}


def test_a_type_checker_sees_the_types_of_the_top_level(tmp_path):
    lines = [*(f"reveal_type({call})" for call in TYPES), *(f"marc.{n}" for n in marc.__all__)]
    (tmp_path / "theirs.py").write_text("\n".join(["import marc", *lines]))
    command = [sys.executable, "-m", "mypy", "--config-file=", "theirs.py"]
    path = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert re.findall('Revealed type is "(.*)"', done.stdout) == list(TYPES.values())


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        marc.nothing  # noqa: B018


def test_the_rooms_are_attributes():
    code = "import marc; print(marc.admission.__name__, marc.sources.__name__)"
    assert python(code).stdout.split() == ["marc.admission", "marc.sources"]


def lines(folder=""):
    """Lines of Python by file."""
    chosen = [path for path in SOURCES if path.is_relative_to(ROOT / "src" / folder)]
    return {path: path.read_text(encoding="utf-8").count("\n") for path in chosen}


def test_no_module_is_longer_than_a_reader_likes():
    assert {path: n for path, n in lines().items() if n > 400} == {}


def test_the_packages_stay_small():
    assert sum(lines("marc").values()) <= 48_900
    assert sum(lines().values()) <= 65_200


def test_the_top_level_is_what_a_reader_sees_first():
    entries = [each for each in (ROOT / "src" / "marc").iterdir() if each.name != "__pycache__"]
    assert sum(each.suffix == ".py" for each in entries) <= 12
    assert sum(each.is_dir() for each in entries) <= 14


def test_a_name_without_an_underscore_is_one_that_others_need():
    assert sum(len(public_names(path)) for path in SOURCES) < 1130


def public_names(path):
    """Functions, classes and constants of a module that begin without an underscore."""
    names = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    return [name for name in names if not name.startswith("_")]
