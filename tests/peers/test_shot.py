import math

import numpy as np
import pytest
from helpers.making import make_stream

from marc.errors import MarcError
from marc.loop import BatchMethod, iter_steps, run
from marc.peers.contract import check_method
from marc.peers.shot import _NO_CENTROID, ShotLabels
from marc.stream import Stream


def tied_stream(n_classes, n_views=1, n_images=60, dim=6):
    """Rounded features, copies of images, and classes with the same text."""
    draw = np.random.default_rng(n_classes)
    prototypes = np.round(draw.standard_normal((n_classes, dim)), 1)
    if n_classes > 2:
        prototypes[n_classes // 2 :][:2] = prototypes[0]
    views = np.round(draw.standard_normal((n_images, n_views, dim)), 1)
    views[10:40:3] = views[9]
    return Stream.from_arrays(views, prototypes, {"good": views[:, 0, :5]}, logit_scale=20.0)


def cosine(x, y):
    dot = math.fsum(a * b for a, b in zip(x, y, strict=True))
    return dot / math.sqrt(math.fsum(a * a for a in x) * math.fsum(b * b for b in y))


def slow_labels(queries, space, threshold, rounds):
    """The numbered steps: labels of the last round, and the cosines that gave them."""
    features, shares, labels = [], [], []
    for query in queries:
        z = [float(x) for x in query.predictor.logits(query.views[:1])[0]]
        powers = [math.exp(x - max(z)) for x in z]
        shares.append([power / sum(powers) for power in powers])
        labels.append(z.index(max(z)))
        row = [float(x) for x in query.key(space)] + [1.0]
        length = math.sqrt(sum(x * x for x in row))
        features.append([x / length for x in row])
    n_classes = len(shares[0])
    for _ in range(rounds):
        centroids = {}
        for c in range(n_classes):
            if labels.count(c) > threshold:
                total = 1e-8 + sum(share[c] for share in shares)
                columns = zip(*features, strict=True)
                weight = [share[c] for share in shares]
                centroids[c] = [
                    math.fsum(w * x for w, x in zip(weight, column, strict=True)) / total
                    for column in columns
                ]
        cosines = [{c: cosine(row, m) for c, m in centroids.items()} for row in features]
        labels = [max(row, key=lambda c: (row[c], -c)) for row in cosines]
        shares = [[float(label == c) for c in range(n_classes)] for label in labels]
    return labels, cosines


@pytest.mark.parametrize("n_classes", [2, 5, 40, 200])
@pytest.mark.parametrize("n_views", [1, 2, 8, 64])
def test_the_slow_twin_agrees(n_classes, n_views):
    stream = tied_stream(n_classes, n_views).shuffled(0)
    for space, threshold, rounds in (("predictor", 0, 2), ("good", 1, 1), ("good", 0, 4)):
        labels, cosines = slow_labels(list(stream), space, threshold, rounds)
        steps = list(iter_steps(ShotLabels(space, threshold, rounds), stream))
        for step, row in zip(steps, cosines, strict=True):
            expected = [row.get(c, _NO_CENTROID) for c in range(n_classes)]
            assert np.abs(step.logits - expected).max() < 1e-9
        assert [step.prediction for step in steps] == labels


def test_it_sees_the_whole_stream_and_no_order():
    assert isinstance(ShotLabels(), BatchMethod)
    stream = make_stream(3, n_images=90)
    here, there = run(ShotLabels(), stream.shuffled(0)), run(ShotLabels(), stream.shuffled(1))
    assert np.array_equal(
        here.predictions[np.argsort(here.order)], there.predictions[np.argsort(there.order)]
    )
    assert (here.predictions != here.base_predictions).any()


def test_a_class_without_members_is_never_the_answer():
    stream = tied_stream(40)
    steps = list(iter_steps(ShotLabels(rounds=1), stream))
    members = {step.label for step in steps}
    assert len(members) < 40
    for step in steps:
        empty = np.setdiff1d(np.arange(40), list(members))
        assert (step.logits[empty] == _NO_CENTROID).all()
        assert step.prediction in members
    assert 20 not in members  # it has the text of class 0, which takes its images


def test_the_baseline_is_the_zero_shot_answer_and_does_not_vote():
    stream = make_stream(4, n_images=50, n_views=3)
    for query, step in zip(stream, iter_steps(ShotLabels(), stream), strict=True):
        assert step.base_prediction == step.label == int(query.view_logits[0].argmax())
        assert np.array_equal(step.logits, step.evidence["centroids"])


def test_shot_keeps_the_contract_of_methods():
    check_method(ShotLabels)
    check_method(lambda: ShotLabels("good", rounds=3))


def test_bad_settings_are_refused():
    for settings, problem in [
        ({"rounds": 0}, "rounds"),
        ({"threshold": -1}, "threshold"),
        ({"space": None}, "space"),
    ]:
        with pytest.raises(MarcError, match=problem):
            ShotLabels(**settings)
    with pytest.raises(MarcError, match="enough members"):
        run(ShotLabels(threshold=60), make_stream(n_images=60))
    assert ShotLabels().step_batch([]) == []
