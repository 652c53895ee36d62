import copy
import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.making import make_stream

torch = pytest.importorskip("torch")

import marc  # noqa: E402
from marc.errors import MarcError  # noqa: E402
from marc.loop import iter_steps, run  # noqa: E402
from marc.peers import _context_training  # noqa: E402
from marc.peers._context_training import Recipe, _batches, context_gradient  # noqa: E402
from marc.peers._learned import KEPT, Learned  # noqa: E402
from marc.peers._prompts import Prompts  # noqa: E402
from marc.peers._shots import Shots  # noqa: E402
from marc.peers.cocoop import CoCoOp, _shift, _shift_gradient  # noqa: E402
from marc.peers.contract import _stream, check_method  # noqa: E402
from marc.peers.coop import CoOp  # noqa: E402
from marc.peers.small_towers import SmallTextTower  # noqa: E402
from marc.sources.pack import write_pack  # noqa: E402
from marc.stream import Stream  # noqa: E402
from marc.stream.predictor import Towers  # noqa: E402

NAMES = ("cat", "hot air balloon", "dog", "cat", "owl")
SCALE = 20.0


class Exact(SmallTextTower):
    """The small tower in float64, so that gradients are above rounding."""

    def __init__(self, class_names, dim, seed=0):
        super().__init__(class_names, dim, seed)
        for part in (self._words, self._layer, self._projection):
            part.double()


@pytest.fixture(autouse=True)
def _no_outcome_of_another_test(monkeypatch):
    monkeypatch.setattr(_context_training, "_outcomes", Learned())


@pytest.fixture(scope="module")
def shots(tmp_path_factory):
    path = tmp_path_factory.mktemp("shots") / "shots.npz"
    write_pack(make_stream(3, n_images=23, n_views=3), path)
    return str(path)


def stream_of(tower, seed=1, n_images=12):
    source = make_stream(seed, n_images=n_images)
    return Stream.from_arrays(
        source.features.views,
        source.features.predictor.prototypes,
        logit_scale=SCALE,
        labels=source.row_labels,
        towers=Towers(text=lambda: tower),
    )


def literal_coop(tower, shots, n_context, epochs, batch, rate, seed, views):
    """The released loop: an optimiser, a schedule, and autograd through the text encoder."""
    draw = np.random.default_rng(seed)
    return literal(
        tower,
        shots,
        " ".join(["x"] * n_context),
        (epochs, batch, rate),
        draw,
        [("context", 0.02 * draw.standard_normal((n_context, 16)))],
        views,
    )


def literal_cocoop(tower, shots, epochs, batch, rate, seed, views):
    draw = np.random.default_rng(seed)
    start = tower.tokenize(["a photo of a"])
    words = tower.embed(start)[0, 1:5].numpy()
    layers = [
        ("context", words.copy()),
        ("inner_weight", draw.uniform(-(8**-0.5), 8**-0.5, (1, 8))),
        ("inner_bias", draw.uniform(-(8**-0.5), 8**-0.5, 1)),
        ("outer_weight", draw.uniform(-1, 1, (16, 1))),
        ("outer_bias", draw.uniform(-1, 1, 16)),
    ]
    return literal(tower, shots, "a photo of a", (epochs, batch, rate), draw, layers, views)


def literal(tower, shots, before, recipe, draw, arrays, views):
    epochs, batch, rate = recipe
    p = {name: torch.nn.Parameter(torch.tensor(array).double()) for name, array in arrays}
    optimiser = torch.optim.SGD(p.values(), lr=rate, momentum=0.9, weight_decay=5e-4)
    tokens = tower.tokenize([f"{before} {name}." for name in tower.class_names])
    embedded, n_context = tower.embed(tokens), len(p["context"])
    stored = np.asarray(shots.views)
    stored = stored / np.linalg.norm(stored, axis=-1, keepdims=True)

    def logits_of(view):
        context, view = p["context"], torch.from_numpy(view).double()
        if "inner_weight" in p:
            inner = torch.relu(p["inner_weight"] @ view + p["inner_bias"])
            context = context + p["outer_weight"] @ inner + p["outer_bias"]
        learned = context.expand(len(tokens), -1, -1)
        whole = torch.cat([embedded[:, :1], learned, embedded[:, 1 + n_context :]], dim=1)
        features = tower.encode(whole, tokens)
        return SCALE * (features / features.norm(dim=1, keepdim=True)) @ view

    for epoch in range(epochs):
        cosine = 0.5 * rate * (1 + math.cos(math.pi * (epoch - 1) / epochs))
        optimiser.param_groups[0]["lr"] = cosine if epoch else 1e-5
        order = draw.permutation(len(stored))
        seen = draw.integers(0, [stored.shape[1]] * len(stored))
        for start in range(0, len(stored), batch):
            rows = order[start : start + batch]
            if len(rows) < batch and start:
                break
            logits = torch.stack([logits_of(stored[r, seen[r]]) for r in rows])
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(logits, torch.tensor(shots.labels[rows])).backward()
            optimiser.step()
    with torch.no_grad():
        answers = torch.stack([logits_of(view) for view in views])
    return {name: each.detach().numpy() for name, each in p.items()}, answers.numpy()


@pytest.mark.parametrize(
    ("n_context", "epochs", "batch"), [(4, 6, 5), (16, 3, 32), (1, 2, 1), (3, 0, 4), (2, 1, 23)]
)
def test_coop_is_trained_as_the_literal_loop_does(n_context, epochs, batch, shots):
    tower = Exact(NAMES, 8)
    stream = stream_of(tower)
    views = np.array([query.views[0] for query in stream])
    method = CoOp(shots, n_context=n_context, epochs=epochs, batch=batch, rate=0.1, seed=3)
    steps = list(iter_steps(method, stream))
    expected, answers = literal_coop(
        tower, Shots.read(shots), n_context, epochs, batch, 0.1, 3, views
    )
    found = method.state()["arrays"]["context"]
    np.testing.assert_allclose(found, expected["context"], atol=1e-5)
    np.testing.assert_allclose([step.logits for step in steps], answers, atol=1e-3)


@pytest.mark.parametrize(("epochs", "batch"), [(3, 1), (4, 5), (2, 32)])
def test_cocoop_is_trained_as_the_literal_loop_does(epochs, batch, shots):
    tower = Exact(NAMES, 8)
    stream = stream_of(tower)
    views = np.array([query.views[0] for query in stream])
    method = CoCoOp(shots, epochs=epochs, batch=batch, rate=0.02, seed=5)
    steps = list(iter_steps(method, stream))
    expected, answers = literal_cocoop(tower, Shots.read(shots), epochs, batch, 0.02, 5, views)
    for name, array in expected.items():
        np.testing.assert_allclose(method.state()["arrays"][name], array, atol=1e-4)
    np.testing.assert_allclose([step.logits for step in steps], answers, atol=1e-2)


def cross_entropy(prompts, context, view, label):
    features = prompts.features(context)[prompts.which]
    z = SCALE * features @ view
    return np.log(np.exp(z - z.max()).sum()) + z.max() - z[label]


def test_gradients_are_those_of_finite_differences():
    draw = np.random.default_rng(0)
    prompts = Prompts.of(Exact(NAMES, 8), "a photo of a {}.")
    view = draw.standard_normal(8) / 3
    method = CoCoOp.__new__(CoCoOp)
    arrays = method.initial(prompts, 8, draw)
    arrays["inner_bias"] += 1  # above the edge of the rectifier

    def loss(arrays):
        return cross_entropy(prompts, arrays["context"] + _shift(arrays, view)[0], view, 3)

    moved, inner = _shift(arrays, view)
    context = arrays["context"] + moved
    by_context = context_gradient(prompts, context, view[np.newaxis], np.array([3]), SCALE)
    for name, gradient in _shift_gradient(arrays, view, inner, by_context).items():
        for place in np.ndindex(*gradient.shape):
            step = np.zeros_like(arrays[name])
            step[place] = 1e-6
            up, down = ({**arrays, name: arrays[name] + s} for s in (step, -step))
            expected = (loss(up) - loss(down)) / 2e-6
            assert gradient[place] == pytest.approx(expected, abs=1e-6)


def test_an_epoch_shows_every_shot_once_through_one_of_its_views(shots):
    read = Shots.read(shots)
    rows = np.asarray(read.views).reshape(-1, 8)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    seen = []
    for views, labels in _batches(read, 1, np.random.default_rng(0)):
        [row] = np.flatnonzero(np.abs(rows - views[0]).max(axis=1) < 1e-6)
        assert labels[0] == read.labels[row // 3]
        seen.append(row)
    assert sorted(row // 3 for row in seen) == list(range(23))
    assert {row % 3 for row in seen} == {0, 1, 2}


def test_the_rate_warms_up_and_falls_along_a_cosine():
    recipe = Recipe(0.002, 4, 1, 0)
    rates = [recipe.rate_in(epoch) for epoch in range(4)]
    half = 0.001 * (1 + math.sqrt(0.5))
    np.testing.assert_allclose(rates, [1e-5, 0.002, half, 0.001])


def test_the_shots_are_told_apart_better_and_another_seed_gives_another_context(shots):
    """Answers for the shots themselves: a tower of random weights says little of other images."""
    pack = marc.load_stream(shots)
    tower = SmallTextTower([f"class {label}" for label in range(5)], 8)
    seen = Stream.from_arrays(
        pack.features.views[:, :1],
        pack.features.predictor.prototypes,
        logit_scale=SCALE,
        towers=Towers(text=lambda: tower),
    )

    def loss(method):
        steps = list(iter_steps(method, seen))
        posteriors = [step.to_probabilities(step.logits) for step in steps]
        return -np.log(np.take_along_axis(np.array(posteriors), pack.row_labels[:, None], 1)).mean()

    for make in (CoOp, CoCoOp):
        untrained, trained = (loss(make(shots, rate=0.05, epochs=n, batch=4)) for n in (0, 40))
        assert trained < untrained - 0.03
        assert loss(make(shots, rate=0.05, epochs=3, batch=4, seed=2)) != trained


def test_classes_of_the_same_name_are_tied(shots):
    stream = stream_of(SmallTextTower(NAMES, 8), n_images=40)
    for method in (CoOp(shots, epochs=3), CoCoOp(shots, epochs=1)):
        for step in iter_steps(method, stream):
            assert step.logits[0] == step.logits[3]
            assert step.prediction != 3


def test_training_is_done_once_and_can_be_repeated(shots, monkeypatch):
    stream = stream_of(SmallTextTower(NAMES, 8))
    trained = []
    train = _context_training._train
    monkeypatch.setattr(
        _context_training, "_train", lambda *given: (trained.append(given), train(*given))[1]
    )
    first = run(CoOp(shots, epochs=2), stream)
    again = run(CoOp(shots, epochs=2), stream.shuffled(1))
    assert len(trained) == 1
    assert np.array_equal(first.predictions[again.order], again.predictions)
    run(CoOp(shots, epochs=2, seed=7), stream)
    assert len(trained) == 2
    _context_training._outcomes.clear()
    before = run(CoOp(shots, epochs=2), stream).predictions
    assert len(trained) == 3
    assert np.array_equal(before, first.predictions)
    for seed in range(20):
        CoOp(shots, epochs=0, seed=seed).step(stream.query(0))
    assert len(_context_training._outcomes) == KEPT


def test_a_copy_answers_as_the_method_does(shots):
    stream = stream_of(SmallTextTower(NAMES, 8))
    for method in (CoOp(shots, epochs=1), CoCoOp(shots, epochs=1)):
        step = method.step(stream.query(0))
        assert np.array_equal(copy.deepcopy(method).step(stream.query(0)).logits, step.logits)


def test_both_keep_the_contract_of_methods(shots):
    check_method(lambda: CoOp(shots, epochs=3, n_context=4))
    check_method(lambda: CoCoOp(shots, epochs=1))


def test_shots_of_the_stream_are_refused(tmp_path):
    stream = _stream(3, 15, 1)
    write_pack(stream, tmp_path / "mine.npz")
    for make in (CoOp, CoCoOp):
        with pytest.raises(MarcError, match="must not be images of the stream"):
            run(make(str(tmp_path / "mine.npz")), stream)


def test_a_stream_without_its_text_encoder_or_of_other_classes_is_refused(shots):
    for make in (CoOp, CoCoOp):
        with pytest.raises(MarcError, match="text encoder is not at hand"):
            run(make(shots), make_stream(0))
        with pytest.raises(MarcError, match="the shots do not fit this stream"):
            make(shots).step(_stream(0, 9, 1, n_classes=4).query(0))


def test_a_state_of_another_text_encoder_is_refused(shots):
    stream = stream_of(SmallTextTower(NAMES, 8))
    other = stream_of(SmallTextTower(NAMES, 8, seed=1))
    for method in (CoOp(shots, epochs=1), CoCoOp(shots, epochs=1)):
        method.step(stream.query(0))
        restored = type(method).from_state(method.state())
        with pytest.raises(MarcError, match="text encoder of other weights"):
            restored.step(other.query(0))


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (CoOp, lambda a: a["context"].fill(np.nan), "context is no finite array"),
        (CoOp, lambda a: a.update(context=a["context"].astype("f2")), "context is no finite"),
        (CoOp, lambda a: a.update(context=a["context"][0]), "of 2 axes"),
        (CoOp, lambda a: a.pop("tower"), "other names"),
        (CoOp, lambda a: a["tower"].fill(200), "digest of its text encoder"),
        (CoOp, lambda a: a["tower"].fill(10), "digest of its text encoder"),
        (CoCoOp, lambda a: a.pop("inner_bias"), "other names"),
        (CoCoOp, lambda a: a.update(outer_weight=a["outer_weight"][:, :0]), "layers do not fit"),
        (CoCoOp, lambda a: a.update(inner_weight=a["inner_weight"][:, :3]), "layers do not fit"),
    ],
)
def test_a_damaged_state_is_refused(make, change, message, shots):
    method = make(shots, epochs=1)
    method.step(stream_of(SmallTextTower(NAMES, 8)).query(0))
    state = copy.deepcopy(method.state())
    change(state["arrays"])
    with pytest.raises(MarcError, match=message):
        make.from_state(state)


def test_a_context_that_does_not_fit_the_text_encoder_is_refused(shots):
    stream = stream_of(SmallTextTower(NAMES, 8))
    method = CoOp(shots, epochs=1)
    method.step(stream.query(0))
    state = copy.deepcopy(method.state())
    state["arrays"]["context"] = state["arrays"]["context"][:3]
    with pytest.raises(MarcError, match="its context does not fit"):
        CoOp.from_state(state).step(stream.query(0))


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (CoOp, {"n_context": 0}, "n_context must be"),
        (CoOp, {"n_context": 75}, "n_context must be"),
        (CoOp, {"epochs": -1}, "epochs must be"),
        (CoOp, {"batch": 0}, "batch must be"),
        (CoOp, {"rate": -1}, "rate must be"),
        (CoOp, {"seed": 0.5}, "seed must be"),
        (CoOp, {"digest": "other"}, "the file was changed"),
        (CoCoOp, {"prompt": "{}"}, "a prompt needs words"),
        (CoCoOp, {"shots": 7}, "shots must be a path"),
    ],
)
def test_bad_settings_are_refused(make, settings, message, shots):
    with pytest.raises(MarcError, match=message):
        make(**{"shots": shots, **settings})


@pytest.mark.parametrize("n_context", [18, 40])
def test_a_context_that_leaves_no_token_for_a_name_is_refused(n_context, shots):
    stream = stream_of(SmallTextTower(NAMES, 8))
    with pytest.raises(MarcError, match="leave no token for it") as refused:
        CoOp(shots, n_context=n_context, epochs=0).step(stream.query(0))
    assert f"{n_context} words" in refused.value.got
    assert "17 tokens" in refused.value.allowed
    CoOp(shots, n_context=15, epochs=0).step(stream.query(0))  # all words of "hot air balloon"


@pytest.mark.parametrize(("make", "settings"), [(CoOp, {"batch": 8}), (CoCoOp, {})])
def test_a_training_that_diverges_is_refused(make, settings, shots):
    stream = stream_of(SmallTextTower(NAMES, 8))
    with pytest.raises(MarcError, match="diverged") as refused:
        make(shots, rate=1e6, epochs=30, **settings).step(stream.query(0))
    assert "a lower rate" in refused.value.hint


def test_a_context_that_gives_no_numbers_is_refused(shots):
    stream = stream_of(SmallTextTower(NAMES, 8))
    method = CoOp(shots, epochs=0)
    method.step(stream.query(0))
    state = copy.deepcopy(method.state())
    state["arrays"]["context"][:] = 3e38
    with pytest.raises(MarcError, match="diverged"):
        CoOp.from_state(state).step(stream.query(0))


def test_what_a_method_does_to_its_context_is_its_own_affair(shots):
    stream = stream_of(SmallTextTower(NAMES, 8))
    first = CoOp(shots, epochs=1)
    expected = first.step(stream.query(0)).logits
    for array in first._memory.values():
        array.fill(0)
    assert np.array_equal(CoOp(shots, epochs=1).step(stream.query(0)).logits, expected)


def test_shots_of_classes_in_another_order_are_refused(tmp_path):
    names = ("cat", "hot_air balloon", "dog", "Lynx", "owl")

    def named(stream, names):
        features = replace(stream.features, class_names=tuple(names))
        return replace(stream, features=features)

    path = str(tmp_path / "shots.npz")
    write_pack(named(make_stream(3, n_images=23), names[::-1]), path)
    stream = named(stream_of(SmallTextTower(names, 8)), names)
    for make in (CoOp, CoCoOp):
        with pytest.raises(MarcError, match="in another order") as refused:
            run(make(path, epochs=0), stream)
        assert "class 0 is 'owl'" in refused.value.got
        with pytest.raises(MarcError, match="in another order"):  # known from its text encoder
            make(path, epochs=0).step(stream.query(0))
    write_pack(named(make_stream(3, n_images=23), ["Cat", "hot air_balloon", *names[2:]]), path)
    run(CoOp(path, epochs=0), stream)
