"""Centred, whitened and projected spaces: against streams that store the transformed features."""

import numpy as np
import pytest
from helpers.studies import cell, column, table_of, tiny_plan, tiny_work, without

from marc import MARC, run
from marc.spaces.geometry import antihub_fraction, purity
from marc.stats import spearman
from marc_paper.study.tables import spaces


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def tables(work):
    return spaces._make_transformed(work)


def by_hand(keys, space):
    """The keys (N, D) of a variant, from the formulas."""
    _, _, step = space.partition("+")
    keys = keys.astype(np.float64)
    centered = keys - keys.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centered, full_matrices=False)
    name, _, dim = step.partition(":")
    made = {
        "": lambda: keys,
        "center": lambda: centered,
        "whiten": lambda: centered @ directions.T / sizes,
        "pca": lambda: centered @ directions[: int(dim)].T,
        "random": lambda: keys @ np.random.default_rng(0).standard_normal((6, int(dim))),
    }[name]()
    return made / np.linalg.norm(made, axis=1, keepdims=True)


@pytest.mark.parametrize("stream", ["first", "second"])
@pytest.mark.parametrize(
    "space", ["own", "own+center", "own+whiten", "good", "good+pca:2", "good+random:4"]
)
def test_a_row_is_what_the_transformed_features_give(work, tables, stream, space):
    where = {"stream": stream, "space": space}
    table, features = tables[0], work.stream(stream)
    keys = by_hand(features.features.keys(space.partition("+")[0]), space)
    labels = features.row_labels
    assert cell(table, "purity@10", **where).value == pytest.approx(purity(keys, labels, 10))
    assert cell(table, "anti-hubs@10", **where) == pytest.approx(antihub_fraction(keys, 10))
    gains = np.array(
        [
            [run(MARC(space, 8, w), features.shuffled(seed)).gain for w in (0.1, 1, 3, 10, 30)]
            for seed in work.plan.seeds.orders
        ]
    )
    best = np.maximum(gains.max(axis=1), 0)
    assert cell(table, "gain at K, w", **where).value == pytest.approx(gains[:, 3].mean())
    assert cell(table, "G*, first order", **where) == pytest.approx(best[0])
    assert cell(table, "G*, all orders", **where).value == pytest.approx(best.mean())


def test_the_variants_stand_in_the_order_of_the_plan(tables):
    wanted = ["own", "own+center", "own+whiten", "good", "good+pca:2", "good+pca:4"]
    wanted += ["good+random:2", "good+random:4"]
    assert column(tables[0], "space", stream="second") == wanted
    assert all("Transductive" in table.caption for table in tables)


@pytest.mark.parametrize(
    ("projection", "steps"),
    [
        ("pca", ["pca:2", "pca:4"]),
        ("random", ["random:2", "random:4"]),
        ("pca and random", ["pca:2", "pca:4", "random:2", "random:4"]),
    ],
)
def test_ranks_are_over_the_projections_and_the_space_itself(tables, projection, steps):
    table, ranked = tables[0], table_of(tables, "transformed-ranked")
    names = ["good", *(f"good+{step}" for step in steps)]
    pure = [cell(table, "purity@10", stream="first", space=name).value for name in names]
    gains = [cell(table, "G*, first order", stream="first", space=name) for name in names]
    where = {"stream": "first", "projection": projection, "measure": "purity@10"}
    assert cell(ranked, "variants", **where) == len(names)
    wanted = pytest.approx(spearman(pure, gains))
    assert cell(ranked, "correlation, first order", **where) == wanted
    assert cell(ranked, "chosen", **where) == names[int(np.argmax(pure))]
    lost = max(gains) - gains[int(np.argmax(pure))]
    assert cell(ranked, "regret", **where) == pytest.approx(lost)


def test_dimensions_that_the_space_does_not_have_are_left_out_and_named(work, tables):
    plan = tiny_plan(grids={"dims": [2, 4, 6, 512]})
    wide = tiny_work(plan)
    made = spaces._make_transformed(wide)
    said = [
        f"{stream}: good has 6 dimensions, so it is not projected to 6, 512."
        for stream in ("first", "second")
    ]
    for found, usual in zip(made, tables, strict=True):
        assert repr(found.rows) == repr(usual.rows)  # some correlations are not numbers
        assert (list(found.notes), usual.notes) == (said, ())
    declared = set(spaces.TRANSFORMED.pieces(plan))
    assert set(wide.used) < declared
    assert {piece.space.rpartition(":")[2] for piece in declared - set(wide.used)} == {"6", "512"}


def test_a_space_that_cannot_be_projected_is_not_ranked():
    plan = tiny_plan(grids={"dims": [8]}, seeds={"orders": [0]})
    [table] = spaces._make_transformed(tiny_work(without(plan, "second")))
    assert column(table, "space") == ["own", "own+center", "own+whiten", "good"]
    assert table.notes == ("first: good has 6 dimensions, so it is not projected to 8.",)


def test_its_pieces_are_those_it_uses_where_the_space_has_the_dimensions(work, tables):
    assert set(work.used) == set(spaces.TRANSFORMED.pieces(work.plan))


def test_an_odd_plan_names_every_variant_once():
    plan = tiny_plan(
        seeds={"orders": [0]}, spaces={"deployed": "own", "strong": "own"}, grids={"dims": [3]}
    )
    work = tiny_work(without(plan, "second"))
    table, ranked = spaces._make_transformed(work)
    wanted = ["own", "own+center", "own+whiten", "own+pca:3", "own+random:3"]
    assert column(table, "space") == wanted
    assert column(table, "G*, all orders")[0].sd is None
    assert column(ranked, "variants", projection="pca") == [2, 2]
    assert set(work.used) == set(spaces.TRANSFORMED.pieces(work.plan))


def test_the_pieces_are_those_that_are_used(work, tables):
    assert set(work.used) == set(spaces.TRANSFORMED.pieces(work.plan))
