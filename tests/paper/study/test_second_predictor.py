"""Views and memory with another predictor, against online runs."""

import numpy as np
import pytest
from helpers.odd_studies import declares_its_work, odd_plan
from helpers.studies import cell, column, tiny_plan, tiny_work

from marc import MARC, run
from marc_paper.study.tables import second_predictor
from marc_paper.study.tables.second_predictor import _EXPERIMENT

STREAMS = {
    "small": {"source": "arrays/a.npz", "group": "predictor", "views": 8, "predictor": "rn"},
    "plain": {"source": "arrays/b.npz", "group": "predictor", "views": 1},
}


@pytest.fixture(scope="module")
def work():
    return tiny_work(tiny_plan(streams=STREAMS), n_images=60)


@pytest.fixture(scope="module")
def table(work):
    [found] = second_predictor._make(work)
    return found


def _runs(work, stream, views):
    features = work.stream(stream, views)
    return [run(MARC("good", 16, 10.0), features.shuffled(seed)) for seed in (0, 1, 2)]


@pytest.mark.parametrize("views", [1, 8])
def test_a_row_is_what_online_runs_give(work, table, views):
    runs = _runs(work, "small", views)
    where = {"stream": "small", "views": str(views)}
    accuracies = [each.accuracy for each in runs]
    one = _runs(work, "small", 1)[0].base_accuracy
    assert cell(table, "predictor", **where) == "rn"
    assert cell(table, "accuracy", **where).value == pytest.approx(np.mean(accuracies))
    assert cell(table, "accuracy", **where).sd == pytest.approx(np.std(accuracies, ddof=1))
    assert cell(table, "no memory", **where) == pytest.approx(runs[0].base_accuracy)
    gain = cell(table, "gain", **where)
    assert gain.value == pytest.approx(np.mean([each.gain for each in runs]))
    both = cell(table, "over one view without memory", **where)
    assert both.value == pytest.approx(np.mean(accuracies) - one)
    alone = cell(table, "from views alone", **where)
    if views == 1:
        assert alone is None
    else:
        assert alone.value == pytest.approx(runs[0].base_accuracy - one, abs=1e-12)


def test_the_mean_takes_a_stream_of_one_view_as_it_is(table):
    assert column(table, "views", stream="plain") == ["1"]
    assert column(table, "predictor", stream="plain") == ["tiny"]
    assert column(table, "views", stream="mean") == ["1", "1 to 8"]
    parts = [("small", "8"), ("plain", "1")]
    values = [cell(table, "accuracy", stream=name, views=views).value for name, views in parts]
    found = cell(table, "accuracy", stream="mean", views="1 to 8")
    assert found.value == pytest.approx(np.mean(values))


def test_it_declares_its_work_and_says_what_is_missing(work):
    assert declares_its_work(_EXPERIMENT, tiny_work(work.plan, n_images=30))
    assert _EXPERIMENT.missing(work.plan) == ""
    assert "predictor" in _EXPERIMENT.missing(odd_plan())
    assert _EXPERIMENT.pieces(odd_plan()) == []
