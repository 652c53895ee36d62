"""Ray workers fill a store with the bytes of a run in one process."""

import pytest
from commands import tree
from embedding_trees import draw_lab_folder, embed_plan, make_plan

from marc.embedding_plan import load_jobs

pytest.importorskip("ray")

from marc.scaling import embed_with_ray


@pytest.mark.filterwarnings("default")  # Ray has warnings of its own
def test_two_ray_workers_write_the_bytes_of_a_serial_run(tmp_path):
    pictures = draw_lab_folder(tmp_path / "pictures")
    serial = make_plan(pictures, tmp_path / "serial", n_views=2)
    shared = make_plan(pictures, tmp_path / "shared", n_views=2)
    embed_plan(serial)
    seen = []
    done = embed_with_ray(
        shared, load_jobs(shared), 2, on_progress=lambda what, n, total: seen.append((n, total))
    )
    assert (done.n_chunks, done.timing.images) == (3 * 4, 14)
    assert next(event for event in seen if event[1] == 14) == (0, 14)
    assert seen[-1] == (14, 14)
    assert tree(shared.store) == tree(serial.store)
    again = embed_with_ray(shared, load_jobs(shared), 2)
    assert again.n_chunks == 0
