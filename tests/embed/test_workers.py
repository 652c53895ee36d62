"""Workers read and crop: the same squares in any process, in order, and no process left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.image_trees import draw
from PIL import Image

from marc.embed.workers import PixelSpec, Prepared, ViewPlan, Workers
from marc.errors import MarcError
from marc.pictures.crops import Crop
from marc.pictures.decoding import _DAMAGED, _MISSING
from marc.pictures.image_set import FileBytes
from marc.pictures.views import make_views

SMALL, LARGE = Crop(8, 8), Crop(16, 20)
SPEC = PixelSpec((SMALL, LARGE), (SMALL, ViewPlan("VC", 3, 7)), True)


@pytest.fixture
def pieces(tmp_path):
    names = [f"{number}.png" for number in range(7)]
    for seed, name in enumerate(names):
        draw(tmp_path / name, seed)
    (tmp_path / "3.png").write_bytes((tmp_path / "3.png").read_bytes()[:-30])
    (tmp_path / "5.png").unlink()
    places = [FileBytes(str(tmp_path / name)) for name in names]
    return [(tuple(names[s : s + 2]), tuple(places[s : s + 2])) for s in range(0, 7, 2)]


def test_a_piece_has_the_squares_and_views_of_each_picture(pieces):
    whole = Prepared.joined([SPEC.prepare(piece) for piece in pieces])
    assert whole.status.tolist() == [0, 0, 0, _DAMAGED, 0, _MISSING, 0]
    assert {crop: squares.shape for crop, squares in whole.squares.items()} == {
        SMALL: (7, 8, 8, 3),
        LARGE: (7, 16, 16, 3),
    }
    names, places = (sum(parts, ()) for parts in zip(*pieces, strict=True))
    for row in (0, 1, 2, 4, 6):
        with Image.open(places[row].path) as picture:
            plain = picture.convert("RGB")
        assert np.array_equal(whole.squares[LARGE][row], LARGE.cut(plain))
        views = make_views(plain, SMALL, "VC", 3, key=names[row], seed=7)
        assert np.array_equal(whole.views[row], views)
    assert not whole.squares[LARGE][3].any()
    assert not whole.views[5].any()
    # the content of a damaged file is known, that of a missing one is not
    assert len({row.tobytes() for row in whole.content}) == 7
    assert not whole.content[5].any()


def test_floats_of_mixed_views_survive_a_piece_that_cannot_be_read(pieces):
    spec = PixelSpec((), (SMALL, ViewPlan("VD", 2, 0)), True)
    parts = [spec.prepare(piece) for piece in [*pieces[:2], ((pieces[2][0][1],), pieces[2][1][1:])]]
    whole = Prepared.joined(parts)
    assert whole.views.dtype == np.float32
    assert np.array_equal(whole.views[:2], parts[0].views)


def test_processes_give_what_this_process_gives_in_order(pieces):
    work = [(piece, SPEC) for piece in pieces] * 4
    with Workers(2) as processes, Workers(0) as none:
        for there, here in zip(processes.prepare(work), none.prepare(work), strict=True):
            assert np.array_equal(there.content, here.content)
            assert np.array_equal(there.squares[LARGE], here.squares[LARGE])
            assert np.array_equal(there.views, here.views)


ORPHANS = """
import sys, time
from marc.embed.workers import Workers
if __name__ == "__main__":
    with Workers(2) as workers:
        futures = [workers._pool.submit(time.sleep, 0) for _ in range(4)]
        [each.result() for each in futures]
        print(*workers._pool._processes, flush=True)
        time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
def test_workers_end_with_a_killed_parent(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(ORPHANS)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        children = parent.stdout.readline().split()
        assert len(children) == 2
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while any(alive(child) for child in children):
        assert time.monotonic() < deadline, "a worker waits for a parent that is gone"
        time.sleep(0.05)


def alive(process):
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


def test_a_process_that_is_killed_from_outside_is_told(pieces):
    with Workers(1) as workers:
        ready = workers.prepare((piece, SPEC) for piece in pieces * 50)
        next(ready)
        [process] = workers._pool._processes.values()
        process.kill()
        with pytest.raises(MarcError, match=r"ended from outside(.|\n)*--workers"):
            list(ready)


def test_views_are_as_many_as_may_be_drawn():
    assert ViewPlan("VC", 4096, 0).n_views == 4096
    for wrong in ({"n_views": 4097}, {"n_views": 2, "seed": -1}, {"n_views": 2, "seed": 2**53}):
        with pytest.raises(MarcError, match="must be an integer"):
            ViewPlan("VC", **wrong)
