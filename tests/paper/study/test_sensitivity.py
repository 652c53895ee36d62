"""One setting at a time: every gain against online runs with that setting."""

import io
import json

import numpy as np
import pytest
from helpers.studies import cell, column, table_of, tiny_plan, tiny_work, without

from marc import MARC, run
from marc.report.style import drawing
from marc_paper.study.artifacts import Table, plain
from marc_paper.study.figures import sensitivity
from marc_paper.study.work import Piece

ARGUMENT = {"K": "capacity", "w": "weight", "beta": "beta", "alpha": "alpha"}


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def artifacts(work):
    return sensitivity._make(work)


def rendered(figure):
    with drawing():
        drawn = figure.draw()
        drawn.savefig(io.BytesIO(), format="svg")
    return drawn


def online(work, stream, space, **changed):
    settings = {"capacity": 8, "weight": 10.0, "beta": 5.0, "alpha": 2.0, **changed}
    ordered = (work.stream(stream).shuffled(seed) for seed in work.plan.seeds.orders)
    return [run(MARC(space, **settings), each).gain for each in ordered]


@pytest.mark.parametrize(
    ("setting", "value"), [("K", 2), ("w", 1.0), ("beta", 2.0), ("alpha", 1.0), ("alpha", 2.0)]
)
@pytest.mark.parametrize(
    ("stream", "space"), [("first", "good"), ("second", "best"), ("third", "good")]
)
def test_a_row_is_what_online_runs_give(work, artifacts, stream, space, setting, value):
    table = table_of(artifacts, "sensitivity")
    where = {"stream": stream, "space": space, "setting": setting, "value": f"{value:g}"}
    wanted = online(work, stream, space, **{ARGUMENT[setting]: value})
    found = cell(table, "gain", **where)
    assert found.value == pytest.approx(np.mean(wanted))
    assert found.sd == pytest.approx(np.std(wanted, ddof=1))
    base = run(MARC(space, 0), work.stream(stream)).base_accuracy
    assert cell(table, "no memory", **where) == pytest.approx(base)


def test_the_rows_are_the_grids_of_each_subject(work, artifacts):
    table = table_of(artifacts, "sensitivity")
    pairs = dict.fromkeys(zip(column(table, "stream"), column(table, "space"), strict=True))
    assert list(pairs) == [
        *(("first", "good"), ("first", "best"), ("second", "good"), ("second", "best")),
        ("third", "good"),
    ]
    for stream, space in pairs:
        where = {"stream": stream, "space": space}
        assert column(table, "value", setting="K", **where) == ["1", "2", "4", "8", "16"]
        assert column(table, "value", setting="w", **where) == ["0", "0.1", "1", "3", "10", "30"]
        assert column(table, "value", setting="beta", **where) == ["2", "5"]
        assert column(table, "value", setting="alpha", **where) == ["1", "2"]
    assert len(table.rows) == 5 * 15


def test_the_deployed_setting_is_in_every_panel_with_the_same_gain(artifacts):
    for figure in artifacts[:-1]:
        deployed, gains = figure.data["deployed"], figure.data["gains"]
        assert list(gains) == ["K", "w", "beta", "alpha"]
        each = [gains[name][value] for name, value in deployed.items()]
        for other in each[1:]:
            np.testing.assert_array_equal(each[0], other)


def test_figures_are_named_and_labelled_by_their_part(artifacts):
    assert {each.name: each.answers for each in artifacts[:-1]} == {
        "sensitivity-first-good": ("fig:s_sens_ab",),
        "sensitivity-first-best": ("fig:s_sens_al",),
        "sensitivity-second-good": ("fig:s_sens_vb",),
        "sensitivity-second-best": ("fig:s_sens_vl",),
        "sensitivity-third-good": ("fig:s_sens_rb",),
    }
    assert isinstance(artifacts[-1], Table)


def test_what_is_drawn_are_mean_and_range(artifacts):
    figure = artifacts[0]
    row = rendered(figure).axes
    assert len(row) == 4
    for axes, (name, by_value) in zip(row, figure.data["gains"].items(), strict=True):
        gains = 100 * np.stack(list(by_value.values()))
        [curve] = [line for line in axes.lines if line.get_marker() == "^"]
        np.testing.assert_array_equal(curve.get_xdata(), list(by_value))
        np.testing.assert_allclose(curve.get_ydata(), gains.mean(axis=1))
        band = axes.collections[0].get_paths()[0].vertices[:, 1]
        assert band.max() == pytest.approx(gains.max())
        assert band.min() == pytest.approx(gains.min())
        ring = next(line for line in axes.lines if line.get_markersize() == 9)
        assert ring.get_xdata()[0] == figure.data["deployed"][name]
        assert axes.get_ylim() == row[0].get_ylim()


def test_no_mark_is_cut_by_the_side_of_a_panel(artifacts):
    drawn = rendered(artifacts[0])
    for axes in drawn.axes:
        [curve] = [line for line in axes.lines if line.get_marker() == "^"]
        across = axes.transData.transform(curve.get_xydata())[:, 0]
        radius = (curve.get_markersize() / 2 + curve.get_markeredgewidth() / 2) * drawn.dpi / 72
        assert axes.bbox.x0 <= across.min() - radius
        assert across.max() + radius <= axes.bbox.x1


def test_the_usual_value_shares_the_usual_sweep():
    plan = tiny_plan()
    pieces = sensitivity._pieces(plan)
    assert len(pieces) == len(set(pieces)) == 5 * 3
    assert Piece("sweep", "third", "good") in pieces
    assert Piece("sweep", "first", "best", 1, (("beta", 2.0),)) in pieces
    assert not any(dict(each.settings).get("alpha") == 2.0 for each in pieces)
    assert sensitivity._changed("beta", 5) == {} == sensitivity._changed("alpha", 2.0)


def test_it_uses_what_it_declares():
    work = tiny_work()
    sensitivity._make(work)
    assert set(work.used) == set(sensitivity._EXPERIMENT.pieces(work.plan))


def test_an_odd_plan():
    spaces = {"strong": "good", "deployed": "good", "all": ["own", "good"], "controls": ["own"]}
    plan = without(
        tiny_plan(
            seeds={"orders": [3]},
            grids={"betas": [2.5], "alphas": [0.5], "weights": [0, 10.0]},
            spaces=spaces,
        ),
        *("second", "third", "fourth", "fifth", "sixth"),
    )
    work = tiny_work(plan, n_images=20)
    figure, table = sensitivity._make(work)
    assert set(work.used) == set(sensitivity._EXPERIMENT.pieces(plan))
    assert column(table, "value", setting="beta") == ["2.5", "5"]
    assert all(each.sd is None for each in column(table, "gain"))
    rendered(figure)
    json.dumps(plain(figure.data), allow_nan=False)


def test_names_are_safe_for_files():
    plan = tiny_plan(
        spaces={"all": ["own", "good+pca:2"], "controls": ["own"], "deployed": "good+pca:2"}
        | {"strong": "own"}
    )
    work = tiny_work(without(plan, "second", "third", "fourth", "fifth", "sixth"))
    names = [each.name for each in sensitivity._make(work)]
    assert names == ["sensitivity-first-good-pca-2", "sensitivity-first-own", "sensitivity"]
