"""Names, imports and layering of the package as a whole."""

import pkgutil
import subprocess
import sys

import pytest

import marc

HEAVY = ("torch", "timm", "open_clip", "onnxruntime", "matplotlib", "fastapi", "numba", "scipy")


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


def test_importing_every_module_hides_no_public_name():
    code = """import importlib, pkgutil, marc
for module in pkgutil.walk_packages(marc.__path__, 'marc.'):
    importlib.import_module(module.name)
print([n for n in marc.__all__ if n not in ('geometry', 'stats', 'transforms')
       and type(getattr(marc, n)).__name__ == 'module'])"""
    assert python(code).stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        marc.nothing  # noqa: B018


def test_no_module_is_longer_than_a_reader_likes():
    for module in pkgutil.walk_packages(marc.__path__, "marc."):
        spec = module.module_finder.find_spec(module.name)
        with open(spec.origin) as file:  # noqa: PTH123
            assert sum(1 for _ in file) <= 300, module.name
