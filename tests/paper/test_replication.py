"""The arithmetic of bytes and hours, and the pipeline that writes no store."""

from argparse import Namespace
from dataclasses import replace

import pytest
from helpers.embedding_trees import draw_lab_folder, make_plan

from marc.embed.store import FeatureStore
from marc.embed.workers import ViewPlan, Workers
from marc.pictures import NAMED_SETS
from marc_paper import replication
from marc_paper.replication import _Measured
from marc_paper.study.plan import Plan

SPACES = ["clip-b16", "dinov2-s", "resnet50"]
RATES = {
    "clip-b16-text": _Measured(1, 4, 640.0, 320.0),
    "clip-b16": _Measured(1, 4, 100.0),
    "dinov2-s": _Measured(1, 4, 50.0),
}


def small_plan():
    """Three streams of two sets; the second predictor has no rate."""
    more = {"group": "main", "views": 64, "dataset": "dtd"}
    return Plan.of(
        {
            "title": "Small",
            "predictor": "clip-b16-text",
            "streams": {
                "dtd": {"source": "dtd", **more},
                "pets": {"source": "oxford-pets", **more, "dataset": "oxford-pets", "views": 1},
                "again": {"source": "store/again", **more, "predictor": "clip-rn50-text"},
            },
            "spaces": {
                "all": SPACES,
                "controls": ["clip-b16"],
                "own": "clip-b16",
                "deployed": "dinov2-s",
                "strong": "resnet50",
            },
        }
    )


def test_a_store_is_two_bytes_a_number_of_views_and_four_of_spaces():
    views = [[bytes(2) for _ in range(5)] for _ in range(3 * 7)]
    spaces = [bytes(4) for _ in range(3 * (11 + 13))]
    direct = sum(map(len, spaces)) + sum(len(number) for view in views for number in view)
    assert replication._store_bytes(3, 7, 5, [11, 13]) == direct


@pytest.mark.parametrize(("from_files", "seconds"), [(320.0, 200.0), (6400.0, 100.0)])
def test_the_slower_of_encoder_and_pipeline_decides(from_files, seconds):
    predictor = _Measured(1, 4, 640.0, from_files)
    assert replication._embedding_hours(1000, 64, predictor, []) == pytest.approx(seconds / 3600)


def test_hours_are_those_of_every_encoder_in_turn():
    spaces = [RATES["clip-b16"], RATES["dinov2-s"]]
    hours = replication._embedding_hours(1000, 64, RATES["clip-b16-text"], spaces)
    assert hours == pytest.approx((1000 * 64 / 320 + 1000 / 100 + 1000 / 50) / 3600)


def test_a_row_for_each_stream_and_their_sums():
    rows = replication._data_rows(small_plan(), RATES)
    assert [row[0] for row in rows] == ["`dtd`", "`pets`", "`again`", "all"]
    textures, pets = NAMED_SETS["dtd"].images, NAMED_SETS["oxford-pets"].images
    assert [row[1] for row in rows] == [f"{textures:,}", f"{pets:,}", f"{textures:,}", ""]
    assert [row[2] for row in rows] == ["64", "1", "64", ""]
    # what two streams share is downloaded once
    assert [row[3] for row in rows] == ["0.63", "0.79", "", "1.42"]
    keys = 4 * (512 + 384 + 2048)
    sizes = [textures * (keys + 2 * 64 * 512), pets * (keys + 2 * 512)]
    sizes.append(textures * (keys + 2 * 64 * 1024))
    assert [row[4] for row in rows] == [f"{n / 1e9:.2f}" for n in (*sizes, sum(sizes))]
    # a space and a predictor without a rate are not counted
    hours = [textures * (64 / 320 + 3 / 100) / 3600, pets * (1 / 320 + 3 / 100) / 3600]
    assert [row[5] for row in rows] == [*(f"{h:.2f}" for h in hours), "", f"{sum(hours):.2f}"]


def test_sizes_of_weights_are_added_up():
    measured = {
        "a": _Measured(86_000_000, 344_000_000, 5542.4),
        "b": _Measured(22, 56_000_000, 3.3),
    }
    assert replication._encoder_rows(measured) == [
        ["`a`", "86", "344", "5,542"],
        ["`b`", "0", "56", "3.3"],
        ["all", "", "400", ""],
    ]


def test_views_are_shown_by_image():
    assert replication._view_rows(RATES, 16) == [["`clip-b16-text`", "20", "40"]]


def test_every_set_of_the_papers_plan_has_a_download():
    plan = Plan.read(Plan.SHIPPED / "paper.toml")
    assert {entry.dataset for entry in plan.streams.values()} == set(replication._DOWNLOADS)
    names = replication._encoders_of(plan)
    assert names[:2] == ["clip-b16-text", "clip-rn50-text"]
    assert len(names) == len(set(names)) == 18


def test_what_was_not_measured_is_reported():
    measured = {"clip-b16": _Measured(1, 4, 100.0), "clip-b16-text": RATES["clip-b16-text"]}
    arguments = Namespace(
        device="cpu", workers=2, precision="bfloat16", images=8, files=2, views=16
    )
    last = replication._report(small_plan(), measured, arguments).splitlines()[-1]
    assert "of clip-rn50-text, dinov2-s, resnet50," in last
    every = {name: measured["clip-b16"] for name in replication._encoders_of(small_plan())}
    text = replication._report(small_plan(), every, arguments)
    assert text.count("\n\n") == 3
    assert "not measured" not in text


def test_a_store_that_forgets_has_the_rows_of_one_that_does_not():
    store = replication._Unwritten(FeatureStore.CHUNK + 3)
    assert [*store.rows(0), *store.rows(1)] == list(range(FeatureStore.CHUNK + 3))
    assert len(store.rows(0)) == FeatureStore.CHUNK


def test_every_view_of_every_file_is_encoded_and_nothing_is_written(tmp_path, monkeypatch):
    root = draw_lab_folder(tmp_path / "pictures", count=5)
    plan = make_plan(root, tmp_path / "store", spaces=(), n_views=1)
    job = replace(plan.load().predictor, views=ViewPlan("VC", 3, 0))
    seen = []
    encode = type(job.encoder).encode
    monkeypatch.setattr(
        type(job.encoder), "encode", lambda self, p: seen.append(len(p)) or encode(self, p)
    )
    asked = []
    monkeypatch.setattr(replication, "rate", lambda count, work: asked.append(count) or work())
    with Workers(0) as workers:
        timing = replication._views_from_files(job, plan.images, workers)
    assert asked == [15]
    assert sum(seen) == 15
    assert timing.images == 5
    assert not (tmp_path / "store").exists()
