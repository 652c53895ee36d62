"""Ray workers fill a store with the bytes of a run in one process."""

import pytest
from helpers.commands import tree
from helpers.embedding_trees import draw_lab_folder, embed_plan, make_plan

from marc import MarcError
from marc.embed.ray import _as_chosen, _Filler, embed_with_ray
from marc.embed.store import FeatureStore


@pytest.mark.filterwarnings("ignore")  # Ray has warnings of its own
def test_two_ray_workers_write_the_bytes_of_a_serial_run(tmp_path):
    pytest.importorskip("ray")
    pictures = draw_lab_folder(tmp_path / "pictures")
    serial = make_plan(pictures, tmp_path / "serial", n_views=20)
    shared = make_plan(pictures, tmp_path / "shared", n_views=20)
    embed_plan(serial)
    seen = []
    done = embed_with_ray(
        shared, shared.load(), 2, on_progress=lambda what, n, total: seen.append((n, total))
    )
    assert (done.n_chunks, done.timing.images) == (3 * 4, 14)
    assert next(event for event in seen if event[1] == 14) == (0, 14)
    assert seen[-1] == (14, 14)
    assert tree(shared.store) == tree(serial.store)
    again = embed_with_ray(shared, shared.load(), 0)
    assert again.n_chunks == 0


def test_a_worker_writes_a_chunk_once(tmp_path):
    plan = make_plan(draw_lab_folder(tmp_path / "pictures"), tmp_path / "s")
    embed_plan(plan)
    before = tree(plan.store)
    assert _Filler(plan)({"chunk": [0, 3]})["n_images"] == [4, 2]
    assert tree(plan.store) == before


def test_a_worker_with_other_weights_is_refused(tmp_path):
    plan = make_plan(draw_lab_folder(tmp_path / "pictures"), tmp_path / "s")
    embed_plan(plan)
    store = FeatureStore(plan.store)
    made = store.attributes("spaces/pixels")["made"]
    made["precision"] = "bfloat16"
    store.prepare("spaces/pixels", (768,), "float32", made=made)
    with pytest.raises(MarcError, match="precision: stored bfloat16, now float32"):
        _Filler(plan)


def test_what_was_chosen_here_is_what_workers_are_told(tmp_path):
    plan = make_plan(draw_lab_folder(tmp_path / "pictures"), tmp_path / "s")
    jobs = plan.load()
    told = _as_chosen(plan, jobs)
    for spec, job in zip((told.predictor, *told.spaces), jobs, strict=True):
        assert (spec.precision, spec.batch) == (job.encoder.precision, job.encoder.batch)
    assert [job.made for job in told.load()] == [job.made for job in jobs]
