"""How many images a choice needs: each number against batches measured one by one."""

import numpy as np
import pytest
from helpers.online_answers import best_gains
from helpers.studies import SPACES, cell, column, tiny_plan, tiny_work, without

from marc.spaces.geometry import pseudo_labels, purity
from marc.stats import spearman
from marc_paper.study.tables import batches


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def table(work):
    return batches._make(work)[0]


def measured(stream, kind, rows):
    labels = stream.row_labels if kind == "purity@10" else pseudo_labels(stream)
    part = stream.subset(rows)
    return [purity(part.features.keys(space), labels[rows], 10) for space in SPACES]


@pytest.mark.parametrize("stream", ["first", "second"])
@pytest.mark.parametrize("measure", batches._MEASURES)
def test_rows_are_what_single_batches_give(work, table, stream, measure):
    gains = [best_gains(work, stream, space)[0] for space in SPACES]
    features = work.stream(stream)
    for size in (20, 40):
        correlations, hits = [], []
        for replicate in range(8):
            order = np.random.default_rng([0, replicate]).permutation(90)
            values = measured(features, measure, np.sort(order[:size]))
            correlations.append(spearman(values, gains))
            hits.append(gains[int(np.argmax(values))] == max(gains))
        where = {"stream": stream, "measure": measure, "n": str(size)}
        found = cell(table, "correlation", **where)
        assert found.value == pytest.approx(np.mean(correlations))
        assert (found.low, found.high) == pytest.approx(np.quantile(correlations, (0.025, 0.975)))
        assert cell(table, "zero regret", **where) == pytest.approx(np.mean(hits))
    values = measured(features, measure, np.arange(90))
    where["n"] = "all"
    assert cell(table, "correlation", **where) == pytest.approx(spearman(values, gains))
    hit = gains[int(np.argmax(values))] == max(gains)
    assert cell(table, "zero regret", **where) == hit


def test_notes_say_what_is_chosen_on_all_images(table):
    said = " ".join(table.notes)
    assert "On all images of first, purity@10 chooses best, which has the highest G*." in said
    assert "On all images of first, pseudo_purity@10 chooses own and loses" in said


def test_sizes_that_are_too_large_are_named():
    plan = without(tiny_plan(draws={"sizes": [20, 500]}, seeds={"orders": [0]}), "second")
    [table] = batches._make(tiny_work(plan))
    assert set(column(table, "n")) == {"20", "all"}
    assert "first is too small for batches of 500." in table.notes


def test_a_stream_that_is_too_small_for_every_size_has_batches_of_half_of_it():
    plan = without(tiny_plan(draws={"sizes": [500, 900]}, seeds={"orders": [0]}), "second")
    [table] = batches._make(tiny_work(plan))
    assert set(column(table, "n")) == {"45", "all"}
    assert "first is too small for batches of 500, 900; batches of 45 are drawn." in table.notes


def test_gains_are_those_of_the_first_order_alone(work, table):
    alone = tiny_plan(seeds={"orders": [0]})
    [same] = batches._make(tiny_work(alone))
    assert same.rows == table.rows
    assert table.settings["seeds"] == same.settings["seeds"] == (0,)
    [other] = batches._make(tiny_work(tiny_plan(seeds={"orders": [1]})))
    assert other.rows != table.rows


def test_its_pieces_are_those_it_uses():
    work = tiny_work()
    batches._make(work)
    assert set(work.used) == set(batches._EXPERIMENT.pieces(work.plan))
