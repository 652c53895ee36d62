"""Repaired queries and their nearest keys: the choice and every tile against online runs."""

import io
import json

import numpy as np
import pytest
from helpers.studies import cell, table_of, tiny_plan, tiny_work, without

from marc import MARC, run
from marc.memory import Memory
from marc.report.style import drawing
from marc_paper.study.artifacts import plain
from marc_paper.study.figures import neighbours
from marc_paper.study.figures.neighbours import _EXPERIMENT, _draw


@pytest.fixture(scope="module")
def work():
    return tiny_work(tiny_plan(seeds={"orders": [4, 0]}), n_images=200)


@pytest.fixture(scope="module")
def made(work):
    return neighbours._make(work)


@pytest.fixture(scope="module")
def online(work):
    """Memory margins of both spaces, what the rule names, and the memories along the stream."""
    stream = work.stream("first").shuffled(4)
    margins, memories = {}, {}
    for space in ("own", "best"):
        found = run(MARC(space, 8), stream)
        keys = stream.features.keys(space)
        memory = Memory(stream.n_classes, 8, keys.shape[1])
        margins[space], memories[space] = [], []
        for position, item in enumerate(stream.order.tolist()):
            evidence = memory.read(keys[item])
            true = stream.row_labels[item]
            margins[space].append(evidence[true] - np.delete(evidence, true).max())
            memories[space].append((len(memory), memory.neighbors(keys[item], 10)))
            trajectory = found.trajectory
            label, priority = trajectory.label[position], trajectory.priority[position]
            memory.write(keys[item], int(label), float(priority), item)
    named = ~found.base_correct & found.correct
    named &= (np.array(margins["own"]) < 0) & (np.array(margins["best"]) > 0)
    return stream, margins, memories, np.flatnonzero(named)


def test_the_queries_are_spread_over_those_that_the_rule_names(made, online):
    stream, _, _, named = online
    assert len(named) > 8
    wanted = [int(named[int((part + 0.5) * len(named) / 4)]) for part in range(4)]
    figure = table_of(made, "neighbours-tiles")
    assert [query["position"] for query in figure.data["queries"]] == wanted
    assert [query["row"] for query in figure.data["queries"]] == stream.order[wanted].tolist()
    assert f"among {len(named)} images of first" in figure.caption


def test_tiles_are_the_nearest_of_the_online_memory(made, online):
    stream, margins, memories, _ = online
    figure, table = made
    names, labels = stream.features.class_names, stream.row_labels
    for query in figure.data["queries"]:
        true, base = labels[query["row"]], stream.features.base.label[query["row"]]
        assert query["id"] == stream.features.ids[query["row"]]
        assert (query["true class"], query["base prediction"]) == (names[true], names[base])
        for space, tiles in query["spaces"].items():
            n_keys, near = memories[space][query["position"]]
            assert tiles["rows"] == [each.item for each in near]
            assert tiles["cosines"] == pytest.approx([each.similarity for each in near], abs=1e-6)
            assert tiles["weights"] == pytest.approx([each.weight for each in near], rel=1e-5)
            assert tiles["true labels"] == [names[labels[each.item]] for each in near]
            assert tiles["stored labels"] == [names[each.label] for each in near]
            same = [bool(labels[each.item] == true) for each in near]
            assert tiles["of the true class"] == same
            stored = [each.label for each in near]
            assert [each == "true class" for each in tiles["stored as"]] == [
                label == true for label in stored
            ]
            assert [each == "base prediction" for each in tiles["stored as"]] == [
                label == base for label in stored
            ]
            where = {"stream": "first", "query": query["id"], "space": space}
            assert cell(table, "keys", **where) == n_keys
            assert cell(table, "nearest shown", **where) == len(near)
            assert cell(table, "of the true class", **where) == sum(same)
            assert cell(table, "stored as the true class", **where) == stored.count(true)
            assert cell(table, "stored as the base prediction", **where) == stored.count(base)
            assert cell(table, "cosine, nearest", **where) == pytest.approx(near[0].similarity)
            assert cell(table, "cosine, last shown", **where) == pytest.approx(near[-1].similarity)
            margin = margins[space][query["position"]]
            assert cell(table, "memory margin", **where) == pytest.approx(margin, rel=1e-4)
    json.dumps(plain(figure.data), allow_nan=False)


def test_frames_and_marks_follow_the_labels(made):
    figure = table_of(made, "neighbours-tiles")
    with drawing():
        drawn = figure.draw()
        drawn.savefig(io.BytesIO())
    [axes] = drawn.axes
    tiles = [each for query in figure.data["queries"] for each in query["spaces"].values()]
    same = sum(sum(each["of the true class"]) for each in tiles)
    total = sum(len(each["rows"]) for each in tiles)
    frames = [line for line in axes.lines if len(line.get_xdata()) == 5]
    frames = [line for line in frames if line.get_color() not in ("white", "#1d1d1f")]
    assert sum(not line.is_dashed() for line in frames) == same
    assert sum(line.is_dashed() for line in frames) == total - same
    for marker, role in (("o", "true class"), ("s", "base prediction")):
        wanted = sum(each["stored as"].count(role) for each in tiles)
        assert sum(line.get_marker() == marker for line in axes.lines) == wanted
    cosines = [f"{cosine:.2f}" for each in tiles for cosine in each["cosines"]]
    texts = [text.get_text() for text in axes.texts]
    assert sorted(text for text in texts if text[-3:-2] == ".") == sorted(cosines)
    assert min(text.get_fontsize() for text in axes.texts) >= 7


def test_a_picture_is_cut_to_a_square(made):
    queries = table_of(made, "neighbours-tiles").data["queries"][:1]
    picture = np.arange(20 * 30 * 3).reshape(20, 30, 3).astype(np.uint8)
    with drawing():
        [axes] = _draw(queries, {queries[0]["row"]: picture}).axes
    [shown] = axes.images
    np.testing.assert_array_equal(shown.get_array(), picture[:, 5:25])
    left, right, bottom, top = shown.get_extent()
    assert right - left == pytest.approx(top - bottom)


def test_long_names_end_at_the_side_of_their_tile(made):
    [query] = json.loads(json.dumps(table_of(made, "neighbours-tiles").data["queries"][:1]))
    query["id"] = "folder/" + "W" * 60
    query["true class"] = "W" * 40
    for tiles in query["spaces"].values():
        tiles["true labels"] = ["W" * 40] * len(tiles["rows"])
    with drawing():
        figure = _draw([query], {})
        figure.savefig(io.BytesIO(), dpi=100)
    [axes] = figure.axes
    named = [text for text in axes.texts if "WWW" in text.get_text()]
    tiles = [text for text in named if "\n" in text.get_text()][1:]
    assert len(tiles) == 2 * len(query["spaces"]["own"]["rows"])
    assert all("folder" not in text.get_text() for text in named)
    assert all(text.get_clip_on() for text in named)
    assert [text.get_clip_box().width / 100 for text in tiles] == pytest.approx([0.5] * len(tiles))


def test_pictures_of_the_source_are_shown(work, made, monkeypatch):
    def pictures_of(stream, source):
        assert source == "arrays/first.npz"
        return lambda row: np.full((8, 8, 3), row % 250, dtype=np.uint8) if row % 2 else None

    monkeypatch.setattr(neighbours, "pictures_of", pictures_of)
    figure = table_of(neighbours._make(work), "neighbours-tiles")
    with drawing():
        [axes] = figure.draw().axes
    queries = figure.data["queries"]
    rows = [query["row"] for query in queries]
    rows += [row for query in queries for each in query["spaces"].values() for row in each["rows"]]
    wanted = sorted(row % 250 for row in rows if row % 2)
    assert sorted(int(image.get_array()[0, 0, 0]) for image in axes.images) == wanted


def test_pieces_are_those_that_are_used_also_in_an_odd_plan():
    plan = tiny_plan(seeds={"orders": [0]}, grids={"capacity": 1})
    plan = without(plan, *(name for name in plan.streams if name != "first"))
    work = tiny_work(plan, n_images=40)
    made = neighbours._make(work)
    assert set(work.used) == set(_EXPERIMENT.pieces(plan))
    with drawing():
        table_of(made, "neighbours-tiles").draw().savefig(io.BytesIO())


def test_where_the_rule_names_nothing_one_row_says_so():
    plan = tiny_plan(spaces={"strong": "own"})
    [table] = neighbours._make(tiny_work(plan, n_images=30))
    assert table.name == "neighbours"
    assert [row[-1] for row in table.rows] == [0]
    assert _EXPERIMENT.missing(plan) != ""
    assert _EXPERIMENT.missing(tiny_plan()) == ""
