"""The strongest keys of base errors, each share against a loop over online memories."""

import io

import numpy as np
import pytest
from helpers.studies import cell, column, table_of, tiny_plan, tiny_stream, tiny_work, without

from marc import MARC, run
from marc.report.style import drawing
from marc.stats import wilson
from marc_paper.study.figures import dominant_keys
from marc_paper.study.figures.dominant_keys import _BANDS, _EXPERIMENT, _votes_of
from marc_paper.study.work import Work, _Held


@pytest.fixture(scope="module")
def work():
    return tiny_work(tiny_plan(seeds={"orders": [2, 0]}))


@pytest.fixture(scope="module")
def made(work):
    return dominant_keys._make(work)


def looked_up(stream, space, capacity):
    """For each base error the strongest key, its cosine, and whether fusion is right."""
    found = run(MARC(space, capacity), stream)
    keys, labels = stream.features.keys(space), stream.row_labels
    errors = []
    for position, row in enumerate(stream.order):
        held = found.trajectory.retained(position, capacity)
        if not held or found.base_correct[position]:
            continue
        cosine, item, stored = max(
            (float(keys[item] @ keys[row]), item, label)
            for label, items in held.items()
            for item in items
        )
        errors.append(
            {
                "stored label true": stored == labels[row],
                "true label true": labels[item] == labels[row],
                "stored as base prediction": stored == found.base_predictions[position],
                "cosine": cosine,
                "repaired at w": bool(found.correct[position]),
            }
        )
    return errors


@pytest.mark.parametrize("capacity", [1, 4, 16])
@pytest.mark.parametrize("space", ["own", "best"])
def test_shares_are_those_of_the_online_memory(work, made, space, capacity):
    table, figure = table_of(made, "dominant-keys"), table_of(made, "dominant-keys-bands")
    errors = looked_up(work.stream("first").shuffled(2), space, capacity)
    where = {"stream": "first", "space": space, "K": str(capacity)}
    assert cell(table, "base errors", **where) == len(errors) == figure.data["images"]
    names = ["stored label true", "true label true", "stored as base prediction"]
    for name in [*names, "repaired at w"]:
        found = cell(table, name, **where)
        wanted = wilson(sum(each[name] for each in errors), len(errors))
        assert (found.value, found.low, found.high) == pytest.approx(tuple(wanted))
    none = sum(not any(each[name] for name in names) for each in errors)
    assert cell(table, "none of these", **where).value == pytest.approx(none / len(errors))
    cosines = [each["cosine"] for each in errors]
    assert cell(table, "median cosine", **where) == pytest.approx(np.median(cosines), abs=1e-6)
    first = [next((i for i, name in enumerate(names) if each[name]), 3) for each in errors]
    place = work.plan.grids.capacities.index(capacity)
    shares = figure.data["shares"][space][place]
    assert shares == pytest.approx(np.bincount(first, minlength=4) / len(errors))


def test_the_first_image_has_no_strongest_key():
    stream = tiny_work().stream("first")
    wrong = stream.features.base.label != stream.row_labels
    seed = next(seed for seed in range(99) if wrong[stream.shuffled(seed).order[0]])
    figure, table = dominant_keys._make(tiny_work(tiny_plan(seeds={"orders": [seed]})))
    assert figure.data["images"] == wrong.sum() - 1
    assert set(column(table, "base errors")) == {wrong.sum() - 1}


def test_bands_take_the_first_name_that_holds():
    stored, labels = np.array([0, 0, 1, 2]), np.array([0, 1, 0, 2])
    votes = _votes_of(np.array([[0, 1, 2, 3, 2]]), stored, labels, true=0, predicted=1)
    assert votes.stored_true.tolist() == [[True, True, False, False, False]]
    assert votes.shows_true.tolist() == [[True, False, True, False, True]]
    assert votes.stored_predicted.tolist() == [[False, False, True, False, True]]
    assert votes.bands.tolist() == [[0.4, 0.4, 0.0, 0.2]]
    assert len(_BANDS) == votes.bands.shape[1]


def test_the_words_of_the_accuracy_and_of_the_order(made):
    table = table_of(made, "dominant-keys")
    [repaired] = [each for each in table.columns if each.name == "repaired at w"]
    assert repaired.word == "fixed"
    assert "without memory none" in table.caption
    assert table.settings == {"weight": 10.0, "views": 1, "seeds": (2,)}
    assert column(table, "K", space="own") == ["1", "2", "4", "8", "16"]


def test_the_figure_draws_both_spaces(made):
    with drawing():
        figure = table_of(made, "dominant-keys-bands").draw()
    assert [axes.get_title() for axes in figure.axes] == ["own", "best"]
    paths = [path for each in figure.axes[0].collections for path in each.get_paths()]
    assert max(path.vertices[:, 1].max() for path in paths) == pytest.approx(100)


def test_pieces_are_those_that_are_used():
    work = tiny_work(n_images=40)
    dominant_keys._make(work)
    assert set(work.used) == set(_EXPERIMENT.pieces(work.plan))


def test_one_order_one_stream_one_capacity_one_space():
    plan = tiny_plan(
        seeds={"orders": [1]},
        grids={"capacities": [4], "capacity": 4, "benchmark_capacity": 4},
        spaces={"strong": "own"},
    )
    plan = without(plan, *(name for name in plan.streams if name != "first"))
    work = tiny_work(plan, n_images=30)
    figure, table = dominant_keys._make(work)
    assert set(work.used) == set(_EXPERIMENT.pieces(plan))
    assert len(table.rows) == 1
    with drawing():
        figure.draw().savefig(io.BytesIO())


def test_a_stream_without_base_errors_is_told():
    plan = tiny_plan()
    stream = tiny_stream("first", 0, n_images=30).with_views(8)
    known = type(stream)(
        stream.features, stream.order, stream.with_views(1).features.base.label, name="first"
    )
    [table] = dominant_keys._make(Work(plan, _Held(), {"first": known}))
    assert table.rows == (("first", "base prediction wrong", 0),)
