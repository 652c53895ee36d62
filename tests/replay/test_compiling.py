"""Where nothing can be kept: no folder beside the program, no home."""

import subprocess
import sys

import pytest

NO_ROOM = """
import sys, warnings
import numba.core.caching as caching
for kind in vars(caching).values():  # as on a read-only installation under a foreign user
    if isinstance(kind, type) and "_locator_classes" in vars(kind):
        kind._locator_classes = []
"""
WORK = """
import marc
stream = marc.synthetic_stream(n_images=60, n_views=1)
print(marc.sweep(stream, seeds=(0,), capacities=(2,)).accuracy.sum())
print(marc.select(stream).to_dict())
"""
MAIN = """
from marc.cli.app import main
sys.argv = ["marc", "sweep", {pack!r}, "--seed", "0", "--json", "-o", {out!r}]
main()
"""


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def with_room():
    return python(WORK)


def test_functions_are_compiled_each_time_with_one_warning(with_room):
    done = python(NO_ROOM + WORK)
    assert done.returncode == 0, done.stderr
    assert done.stdout == with_room.stdout
    assert done.stderr.count("no folder can be written to") == 1


def test_a_command_says_it_in_one_line(tmp_path):
    import marc
    from marc.sources.pack import write_pack

    write_pack(marc.synthetic_stream(n_images=60, n_views=1), tmp_path / "a.npz")
    pack, out = f"arrays/{tmp_path / 'a.npz'}", str(tmp_path / "out")
    done = python(NO_ROOM + MAIN.format(pack=pack, out=out))
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "NUMBA_CACHE_DIR=DIR" in done.stderr
