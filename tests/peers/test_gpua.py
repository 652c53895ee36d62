import math

import numpy as np
import pytest
from helpers.gold import gold_stream
from helpers.making import make_stream

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers._alignment import (
    _disturbed_batches,
    _even_shares,
    _ranking_loss,
    mined_labels,
    orthogonal_map,
    refined,
)
from marc.peers.contract import check_method
from marc.peers.gpua import GPUA, joined
from marc.scores import softmax, unit
from marc.sources.pack import write_pack
from marc.stream import Stream


def unlabelled_part(stream, path, rows):
    """A pack of some images of a stream, without labels, and the stream of the others."""
    features, rest = stream.features, np.setdiff1d(np.arange(len(stream)), rows)
    parts = []
    for some, labels in ((rows, None), (rest, stream.row_labels[rest])):
        parts.append(
            Stream.from_arrays(
                np.asarray(features.views)[some],
                features.predictor.prototypes,
                {name: keys[some] for name, keys in features.spaces.items()},
                logit_scale=features.predictor.logit_scale,
                labels=labels,
            )
        )
    write_pack(parts[0], path)
    return str(path), parts[1]


@pytest.fixture
def file_and_stream(tmp_path):
    stream = make_stream(5, n_images=160, n_classes=4, dim=12, space_dim=20)
    return unlabelled_part(stream, tmp_path / "unlabelled.npz", np.arange(80))


def awkward_images(n_classes, n=30, dim=6, space_dim=9):
    draw = np.random.default_rng(n_classes)
    texts = unit(draw.standard_normal((n_classes, dim)))
    plain = unit(texts[draw.integers(n_classes, size=n)] + 0.8 * draw.standard_normal((n, dim)))
    keys = unit(draw.standard_normal((n, space_dim)))
    plain[7], keys[7] = plain[3], keys[3]
    return joined(keys, plain), plain, texts


def literal_shares(scores):
    """Sinkhorn as released: a row of numbers after the other."""
    N, C = len(scores), len(scores[0])
    Q = [[math.exp((s - max(row)) / 0.05) for s in row] for row in scores]
    total = sum(map(sum, Q))
    Q = [[q / total for q in row] for row in Q]
    for _ in range(50):
        before = [list(row) for row in Q]
        for c in range(C):
            mass = sum(Q[i][c] for i in range(N))
            for i in range(N):
                Q[i][c] /= mass * C
        Q = [[q / (sum(row) * N) for q in row] for row in Q]
        if max(abs(Q[i][c] - before[i][c]) for i in range(N) for c in range(C)) < 1e-5:
            break
    return [[q * N for q in row] for row in Q]


def literal_labels(Z, X, Y, tau, alpha, rounds):
    N, C = range(len(Z)), range(len(Y))
    z = softmax(tau * X @ Y.T)
    mu = []
    for c in C:
        surest = sorted(N, key=lambda i: (-z[i][c], i))[:8]
        mean = sum(z[i][c] * Z[i] for i in surest)
        mu.append(mean / np.linalg.norm(mean))
    for _ in range(rounds):
        scores = [
            [
                -alpha * np.linalg.norm(Z[i] - mu[c]) / 0.1
                - (1 - alpha) * np.linalg.norm(X[i] - Y[c]) / 0.1
                for c in C
            ]
            for i in N
        ]
        P = literal_shares(scores)
        mu = []
        for c in C:
            mean = sum(P[i][c] * Z[i] for i in N) / (sum(P[i][c] for i in N) + 1e-6)
            mu.append(mean / (np.linalg.norm(mean) + 1e-6))
    return [row.index(max(row)) for row in P]


@pytest.mark.parametrize("n_classes", [2, 5, 11])
@pytest.mark.parametrize("rounds", [1, 3])
def test_pseudo_labels_are_those_of_the_literal_steps(n_classes, rounds):
    Z, X, Y = (each.astype(np.float64) for each in awkward_images(n_classes))
    expected = literal_labels(Z, X, Y, 15.0, 0.1, rounds)
    found = mined_labels(Z, X, Y, scale=15.0, visual_weight=0.1, rounds=rounds)
    assert found.tolist() == expected


def test_shares_of_the_classes_are_even():
    shares = _even_shares(np.random.default_rng(0).standard_normal((40, 4)) / 10)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(shares.sum(axis=0), 10, atol=0.1)


def test_a_class_that_no_image_is_near_does_no_harm():
    scores = np.zeros((6, 3))
    scores[:, 2] = -1e4
    shares = _even_shares(scores)
    assert np.isfinite(shares).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_the_first_map_is_orthogonal_and_undoes_a_rotation():
    draw = np.random.default_rng(1)
    rotation = np.linalg.qr(draw.standard_normal((9, 5)))[0]
    rows = draw.standard_normal((60, 9)) @ rotation @ rotation.T
    mapping = orthogonal_map(rows, rows @ rotation, 0.0)
    np.testing.assert_allclose(mapping, rotation, atol=1e-5)
    mixed = orthogonal_map(rows, rows @ rotation, 0.9)
    np.testing.assert_allclose(mixed[5:], rotation[5:], atol=1e-5)
    np.testing.assert_allclose(mixed[:5], 0.1 * rotation[:5] + 0.9 * np.eye(5), atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 5, 30])
def test_the_loss_is_that_of_its_numbered_steps_and_its_gradient_that_of_differences(n_classes):
    Z, _, Y = (each.astype(np.float64) for each in awkward_images(n_classes))
    draw = np.random.default_rng(0)
    W, labels = 0.5 * draw.standard_normal((15, 6)), draw.integers(n_classes, size=len(Z))

    def loss(mapping):
        total, k = 0.0, min(3, n_classes)
        V = [z @ mapping / np.linalg.norm(z @ mapping) for z in Z]
        D = [[np.linalg.norm(v - y) for y in Y] for v in V]
        near = [sorted(range(n_classes), key=lambda c, row=row: row[c])[:k] for row in D]
        hub = [sum(c in each for each in near) / len(Z) for c in range(n_classes)]
        for i, own in enumerate(labels):
            for c in near[i]:
                margin = (1 - Y[own] @ Y[c]) / 2 + 2 * hub[c]
                total += max(0.0, D[i][own] + margin - D[i][c])
        return total / (len(Z) * k)

    found, gradient = _ranking_loss(W, Z, labels, Y)
    assert abs(found - loss(W)) < 1e-6
    for _ in range(10):
        way = draw.standard_normal(W.shape)
        slope = (loss(W + 1e-6 * way) - loss(W - 1e-6 * way)) / 2e-6
        assert abs(slope - (gradient * way).sum()) < 1e-4


def test_the_refinement_is_that_of_torch():
    torch = pytest.importorskip("torch")
    Z, _, Y = awkward_images(7)
    labels = np.random.default_rng(0).integers(7, size=len(Z))
    start = orthogonal_map(Z, Y[labels], 0.9)
    found = refined(start, Z, labels, Y, rate=5e-3, decay=5e-2, steps=12, seed=3)
    W, texts = torch.nn.Parameter(torch.tensor(start)), torch.tensor(Y)
    optimizer = torch.optim.AdamW([W], lr=5e-3, weight_decay=5e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12, eta_min=1e-7)
    for rows, features in _disturbed_batches(Z, 12, 3):
        optimizer.zero_grad()
        V = torch.tensor(features) @ W
        V = V / V.norm(dim=1, keepdim=True)
        D = torch.cdist(V, texts)
        near, order = torch.sort(D, dim=1)
        hubs = torch.bincount(order[:, :3].reshape(-1), minlength=7) / len(V)
        own = torch.tensor(labels[rows])
        margins = (1 - (texts[order[:, :3]] * texts[own].unsqueeze(1)).sum(-1)) / 2
        margins = margins + 2 * hubs[order[:, :3]]
        to_own = (V - texts[own]).norm(dim=1, keepdim=True)
        torch.relu(to_own + margins - near[:, :3]).mean().backward()
        optimizer.step()
        schedule.step()
    moved = np.abs(found - start).max()
    assert np.abs(found - W.detach().numpy()).max() < 0.05 * moved


def test_batches_are_three_quarters_with_noise_or_gaps_at_times():
    Z, _, _ = awkward_images(5, n=40)
    kinds = set()
    for rows, features in _disturbed_batches(Z, 40, 0):
        assert len(set(rows.tolist())) == len(rows) == 30
        gaps = (features == 0).mean()
        kinds.add((bool(gaps), bool(np.abs(features - Z[rows]).max() > 0.06)))
        assert gaps < 0.12
    assert len(kinds) > 2


def test_the_second_encoder_helps(file_and_stream):
    file, stream = file_and_stream
    result = run(GPUA("good", file, steps=50), stream)
    assert result.gain > 0.1


def test_classes_with_the_same_text_stay_tied(tmp_path):
    stream = make_stream(5, n_images=90, n_classes=5, dim=12)
    features = stream.features
    prototypes = features.predictor.prototypes.copy()
    prototypes[4] = prototypes[1]
    tied = Stream.from_arrays(
        np.asarray(features.views), prototypes, dict(features.spaces), labels=stream.row_labels
    )
    file, rest = unlabelled_part(tied, tmp_path / "u.npz", np.arange(40))
    for step in iter_steps(GPUA("good", file, steps=5), rest):
        assert step.logits[4] == step.logits[1]
        assert step.prediction != 4


def test_the_map_is_learned_once_for_the_same_texts(file_and_stream, monkeypatch):
    file, stream = file_and_stream
    method = GPUA("good", file, steps=3)
    first = run(method, stream).predictions
    monkeypatch.setattr("marc.peers.gpua.refined", None)  # a second time would fail
    method.reset()
    for same in (method, GPUA("good", file, steps=3)):
        assert np.array_equal(run(same, stream).predictions, first)
    with pytest.raises(TypeError):
        run(GPUA("good", file, steps=3, seed=1), stream)


@pytest.mark.parametrize("settings", [{"steps": 5}, {"steps": 0, "identity": 0.0, "rounds": 1}])
def test_gpua_keeps_the_contract_of_methods(tmp_path, settings):
    stream = make_stream(5, n_images=40, n_classes=3)
    file, _ = unlabelled_part(stream, tmp_path / "u.npz", np.arange(30))
    check_method(lambda: GPUA("good", file, **settings))


def test_what_does_not_fit_is_refused(file_and_stream):
    file, _ = file_and_stream
    with pytest.raises(MarcError, match="no space 'dinov3'"):
        GPUA("dinov3", file)
    with pytest.raises(MarcError, match="must be a path"):
        GPUA("good", "")
    whole = make_stream(5, n_images=160, n_classes=4, dim=12, space_dim=20)
    with pytest.raises(MarcError, match="must not be images of the stream"):
        run(GPUA("good", file), whole)
    for other in (
        make_stream(5, n_classes=4, dim=11, space_dim=20),
        make_stream(5, n_classes=4, dim=12),
    ):
        with pytest.raises(MarcError, match="do not fit this stream"):
            run(GPUA("good", file), other)
    with pytest.raises(MarcError, match="file was changed"):
        GPUA("good", file, digest="0" * 16)
    with pytest.raises(MarcError, match=r"unlabelled images: there is no space 'other'") as refused:
        GPUA("other", file)
    assert file in refused.value.got


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"visual_weight": 2}, "visual_weight"),
        ({"identity": -1}, "identity"),
        ({"rounds": 0}, "rounds"),
        ({"steps": -1}, "steps"),
        ({"rate": "fast"}, "rate"),
        ({"decay": -1}, "decay"),
        ({"seed": 0.5}, "seed"),
        ({"space": None}, "space must be a name"),
    ],
)
def test_bad_settings_are_refused(file_and_stream, settings, problem):
    with pytest.raises(MarcError, match=problem):
        GPUA(**{"space": "good", "unlabelled": file_and_stream[0], **settings})


def test_on_real_features_some_images_teach_the_map_for_the_others(tmp_path):
    stream = gold_stream("office_caltech", views=1)
    features = stream.features
    distinct = np.sort(np.unique(features.clip_keys, axis=0, return_index=True)[1])
    once = Stream.from_arrays(
        features.clip_keys[distinct],
        features.predictor.prototypes,
        {"second": features.spaces["resnet50"][distinct]},
        logit_scale=features.predictor.logit_scale,
        labels=stream.row_labels[distinct],
    )
    taught = np.random.default_rng(0).permutation(len(once))[:700]
    file, rest = unlabelled_part(once, tmp_path / "unlabelled.npz", np.sort(taught))
    result = run(GPUA("second", file, steps=0, identity=0.0), rest)
    assert result.gain > 0.05
