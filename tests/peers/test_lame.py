import json
import math

import numpy as np
import pytest
from helpers.gold import gold as released
from helpers.gold import gold_stream
from helpers.making import make_stream

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers.contract import check_method
from marc.peers.lame import (
    LAME,
    _affinity_of,
    _nearest,
    _radial,
    _similarities,
    _spread,
    _squared_distances,
)
from marc.scores import softmax
from marc.stream import Stream


def tied_stream(n_classes, n_views=1, n_images=75, dim=16):
    """Rounded features, copies of images, and classes with the same text."""
    draw = np.random.default_rng(n_classes)
    prototypes = np.round(draw.standard_normal((n_classes, dim)), 1)
    if n_classes > 2:
        prototypes[[n_classes // 2, -1]] = prototypes[0]
    views = np.round(draw.standard_normal((n_images, n_views, dim)), 1)
    views[:, 0] += np.round(prototypes[draw.integers(n_classes, size=n_images)], 1)
    views[10:40:3] = views[9]
    return Stream.from_arrays(views, prototypes, {"good": views[:, 0, :9]}, logit_scale=20.0)


def slow_affinity(rows, kind, k, symmetric):
    n = len(rows)
    if n == 1:
        return [[0.0]]
    distance = [
        [math.sqrt(sum((float(a) - float(b)) ** 2 for a, b in zip(x, y, strict=True)))
         for y in rows] for x in rows
    ]  # fmt: skip
    if kind == "knn":
        W = [[0.0] * n for _ in rows]
        for i in range(n):
            others = sorted((distance[i][j], j) for j in range(n) if j != i)
            for _, j in others[:k]:
                W[i][j] = 1.0
    elif kind == "rbf":
        width = sum(sorted(row)[min(k, n) - 1] for row in distance) / n
        W = [[math.exp(-d * d / (2 * width * width)) for d in row] for row in distance]
    else:
        W = [[sum(float(a) * float(b) for a, b in zip(x, y, strict=True)) for y in rows]
             for x in rows]  # fmt: skip
    if symmetric:
        W = [[(W[i][j] + W[j][i]) / 2 for j in range(n)] for i in range(n)]
    return W


def slow_lame(queries, space, kind, k, symmetric):
    """The numbered steps for one batch: U and the final Y."""
    U = []
    for query in queries:
        z = [float(x) for x in query.predictor.logits(query.views[:1])[0]]
        total = sum(math.exp(x - max(z)) for x in z)
        U.append([-math.log(math.exp(x - max(z)) / total + 1e-10) for x in z])
    U = np.array(U)
    W = np.array(slow_affinity([query.key(space) for query in queries], kind, k, symmetric))
    Y, before = softmax(-U), math.inf
    for i in range(100):
        WY = W @ Y
        Y = softmax(-U + WY)
        energy = (U * Y - WY * Y + Y * np.log(np.maximum(Y, 1e-20))).sum()
        if i > 1 and abs(energy - before) <= 1e-8 * abs(before):
            break
        before = energy
    return np.stack([U, Y], axis=1)


@pytest.mark.parametrize("n_classes", [2, 5, 40, 200])
@pytest.mark.parametrize("n_views", [1, 2, 8, 64])
def test_the_slow_twin_agrees(n_classes, n_views):
    stream = tied_stream(n_classes, n_views).shuffled(0)
    queries = list(stream)
    size = 24  # the last of 75 images make a batch of three, fewer than k + 1
    for kind, symmetric, space in [
        ("knn", False, "predictor"),
        ("knn", True, "good"),
        ("rbf", False, "predictor"),
        ("linear", False, "predictor"),
    ]:
        method = LAME(space, kind, batch_size=size, symmetric=symmetric)
        steps = list(iter_steps(method, stream))
        logits = np.array([step.logits for step in steps])
        twin = np.concatenate(
            [slow_lame(queries[start : start + size], space, kind, 5, symmetric)
             for start in range(0, len(queries), size)]
        )  # fmt: skip
        U, twin = twin[:, 0], twin[:, 1]
        assert np.abs(np.array([step.base for step in steps]) + U).max() < 1e-5
        assert np.abs(softmax(logits) - twin).max() < 1e-5
        # Classes with the same text tie exactly here; the twin's product may split them.
        apart = np.sort(twin, axis=1)[:, -1] - np.sort(twin, axis=1)[:, -2] > 1e-9
        assert np.array_equal(logits.argmax(axis=1)[apart], twin.argmax(axis=1)[apart])


@pytest.mark.parametrize("kind", ["knn", "rbf", "linear"])
def test_one_image_alone_keeps_its_answer(kind):
    stream = make_stream(1, n_images=20, n_views=3)
    steps = list(iter_steps(LAME(affinity=kind, batch_size=1), stream))
    plain = [int(query.view_logits[0].argmax()) for query in stream]
    assert [step.prediction for step in steps] == plain
    assert not any(step.evidence["affinity"].any() for step in steps)


@pytest.mark.parametrize("kind", ["knn", "rbf", "linear"])
def test_classes_with_the_same_text_give_the_lower_one(kind):
    for n_classes in (5, 43, 203):  # odd widths: a product over all columns would split the ties
        stream = tied_stream(n_classes)
        steps = list(iter_steps(LAME(affinity=kind), stream))
        for step in steps:
            assert step.logits[0] == step.logits[n_classes // 2] == step.logits[-1]
        assert not {n_classes // 2, n_classes - 1} & {step.prediction for step in steps}


@pytest.mark.parametrize("n_views", [2, 5, 9])
def test_only_the_plain_image_counts(n_views):
    stream = make_stream(2, n_images=70, n_views=n_views)
    alone = run(LAME(), stream.with_views(1))
    assert np.array_equal(run(LAME(), stream).predictions, alone.predictions)


def test_a_batch_knows_nothing_of_other_batches_nor_of_its_own_order():
    stream = make_stream(3, n_images=60).shuffled(0)
    method = LAME(batch_size=20)
    first = np.array([step.logits for step in iter_steps(method, stream)])
    swapped = np.r_[stream.order[20:40][::-1], stream.order[:20], stream.order[40:]]
    second = np.array([step.logits for step in iter_steps(method, stream.reordered(swapped))])
    assert np.abs(second - np.r_[first[20:40][::-1], first[:20], first[40:]]).max() < 1e-9
    others = run(method, stream.shuffled(1))
    by_row = np.argsort(stream.order), np.argsort(others.order)
    assert (first.argmax(axis=1)[by_row[0]] != others.predictions[by_row[1]]).any()


def test_an_image_with_an_earlier_copy_is_left_out_by_its_index():
    rows = np.array([[1, 0], [1, 0], [0.8, 0.6], [0, 1]], dtype=np.float32)
    squared = _squared_distances(rows.astype(float) @ rows.T.astype(float))
    assert _nearest(squared, 1).tolist() == [
        [0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]
    ]  # fmt: skip
    released = _nearest(squared, 1, "first_hit")
    assert released[1].tolist() == [0, 1, 0, 0]  # it dropped the copy and counts itself
    kinds = {"symmetric": False}
    by_index = _affinity_of(rows, "knn", 1, self_rule="itself", **kinds)
    by_hit = _affinity_of(rows, "knn", 1, self_rule="first_hit", **kinds)
    assert by_index[1, 0] == by_hit[1, 1] == 1


def test_copies_are_equally_far_from_everyone():
    rows = np.random.default_rng(0).standard_normal((43, 100)).astype(np.float32)
    rows[[17, 42]] = rows[0]
    squared = _squared_distances(_similarities(rows))
    assert np.array_equal(squared[0], squared[17])
    assert np.array_equal(squared[0], squared[42])
    assert squared[0, 42] == 0


def test_it_stops_as_released_when_the_energy_hardly_changes():
    draw = np.random.default_rng(0)
    scores, affinity = draw.standard_normal((6, 4)), draw.random((6, 6))
    far = scores - 1e8  # so large an energy hardly changes from the third round on
    assert np.array_equal(_spread(far, affinity, 100), _spread(far, affinity, 3))
    assert not np.array_equal(_spread(scores, affinity, 100), _spread(scores, affinity, 3))
    assert not np.array_equal(_spread(scores, affinity, 3), _spread(scores, affinity, 2))


def test_copies_alone_do_not_divide_by_zero():
    assert _radial(np.zeros((3, 3)), 5).tolist() == np.ones((3, 3)).tolist()
    stream = Stream.from_arrays(np.ones((4, 3)), np.eye(3))
    assert all(np.isfinite(step.logits).all() for step in iter_steps(LAME(affinity="rbf"), stream))


def test_each_query_is_looked_at_once():
    queries, seen = list(make_stream(n_images=9)), []

    class Looked(list):
        def __iter__(self):
            for query in list.__iter__(self):
                seen.append(query.item)
                yield query

    assert len(LAME().step_batch(Looked(queries))) == 9
    assert seen == list(range(9))
    assert LAME().step_batch([]) == []


@pytest.mark.parametrize("settings", [{}, {"affinity": "rbf"}, {"space": "good"}], ids=str)
def test_lame_keeps_the_contract_of_methods(settings):
    check_method(lambda: LAME(batch_size=16, **settings))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"affinity": "rbf", "n_neighbors": 1}, "width is 0"),
        ({"affinity": "cosine"}, "unknown affinity"),
        ({"self_rule": "none"}, "unknown self rule"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"batch_size": 0}, "batch_size"),
        ({"max_steps": 0}, "max_steps"),
        ({"symmetric": 1}, "symmetric"),
        ({"space": 3}, "space"),
    ],
)
def test_bad_settings_are_refused(settings, problem):
    with pytest.raises(MarcError, match=problem):
        LAME(**settings)


def test_an_unknown_space_is_refused():
    with pytest.raises(MarcError, match="no space"):
        run(LAME(space="nowhere"), make_stream())


@pytest.mark.parametrize("order", ["stream", "sorted"])
@pytest.mark.parametrize("kind", ["kNN", "rbf"])
@pytest.mark.parametrize("pack", ["office_caltech", "caltech101_test"])
def test_the_released_function_gives_the_same(pack, kind, order):
    gold = released(f"lame_{kind}_{order}_{pack}")
    settings = json.loads(str(gold["description"]))["settings"]
    stream = gold_stream(pack, views=1)
    shuffled = stream.order
    if order == "sorted":
        shuffled = shuffled[np.argsort(stream.row_labels[shuffled], kind="stable")]
    assert np.array_equal(shuffled, gold["order"])
    method = LAME(
        affinity=kind.lower(), n_neighbors=settings["knn"], batch_size=settings["batch"]
    )  # fmt: skip
    logits = np.array([step.logits for step in iter_steps(method, stream.reordered(shuffled))])
    assert np.array_equal(logits.argmax(axis=1), gold["pred"])
    # The released float32 iteration stops earlier; run in float64 it moves by up to 1.2e-4.
    assert np.abs(softmax(logits) - gold["logits"]).max() < 2e-4
