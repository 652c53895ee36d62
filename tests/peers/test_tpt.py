import copy
import json

import numpy as np
import pytest
from helpers.gold import gold as released
from helpers.repository import SHARED

torch = pytest.importorskip("torch")

import marc  # noqa: E402
from marc.errors import MarcError  # noqa: E402
from marc.loop import iter_steps, run  # noqa: E402
from marc.peers import _prompts  # noqa: E402
from marc.peers._prompt_tuning import Start, Tuning, _dispersion_slope  # noqa: E402
from marc.peers.contract import check_method  # noqa: E402
from marc.peers.registry import create_method  # noqa: E402
from marc.peers.small_towers import SmallTextTower  # noqa: E402
from marc.peers.tpt import CTPT, TPT  # noqa: E402
from marc.peers.view_selection import select_views  # noqa: E402
from marc.stream import Stream  # noqa: E402
from marc.stream.predictor import Towers  # noqa: E402

PROMPT = "a photo of a {}."


class Exact(SmallTextTower):
    """The small tower in float64, so that gradients are above rounding."""

    def __init__(self, class_names, dim):
        super().__init__(class_names, dim)
        for part in (self._words, self._layer, self._projection):
            part.double()


def awkward_stream(seed, names, n_views, n_images=12, dim=6, tower=Exact, scale=8.0):
    """Copies of an image and of a view; names may come twice."""
    draw = np.random.default_rng(seed)
    tower = tower(names, dim)
    tokens = tower.tokenize([f"a photo of a {name}." for name in names])
    texts = tower.encode(tower.embed(tokens), tokens).detach().numpy()
    labels = draw.integers(len(names), size=n_images)
    views = texts[labels][:, np.newaxis] + draw.standard_normal((n_images, n_views, dim))
    views[3:6] = views[0]
    views[:, -1] = views[:, 0]
    return Stream.from_arrays(views, texts, logit_scale=scale, towers=Towers(text=lambda: tower))


def literal(query, steps=1, rate=5e-3, fraction=0.1, dispersion=0.0):
    """What the released loop does for one image: every class, an optimiser, autograd throughout."""
    tower, scale = query.predictor.text_tower, query.predictor.logit_scale
    tokens = tower.tokenize([PROMPT.format(name) for name in tower.class_names])
    embedded = tower.embed(tokens)
    context = torch.nn.Parameter(embedded[0, 1:5].clone())
    optimiser = torch.optim.AdamW([context], rate)
    views, selected = torch.from_numpy(query.views).double(), None

    def text_features():
        learned = context.expand(len(tokens), -1, -1)
        whole = torch.cat([embedded[:, :1], learned, embedded[:, 5:]], dim=1)
        features = tower.encode(whole, tokens)
        return features / features.norm(dim=-1, keepdim=True)

    for _ in range(steps):
        features = text_features()
        posteriors = (scale * views @ features.T).softmax(dim=1)
        if selected is None:
            entropy = -(posteriors * posteriors.log()).sum(dim=1)
            kept = max(int(fraction * len(views)), len(views) == 1)
            selected = [
                row
                for _, row in sorted(
                    (round(float(h), 9), j) for j, h in enumerate(entropy.detach())
                )
            ][:kept]
        mean = posteriors[selected].mean(dim=0)
        apart = (features - features.mean(dim=0)).norm(dim=1).mean()
        loss = -(mean * mean.log()).sum() - dispersion * apart
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    logits = scale * views[:1] @ text_features().T
    return logits[0].detach().numpy(), context.detach().numpy()


NAMES = {
    2: ("cat", "dog"),
    4: ("cat", "hot air balloon", "cat", "a very long name of a thing"),
    9: tuple(f"kind {label}" for label in range(9)),
}


@pytest.mark.parametrize("n_classes", NAMES)
@pytest.mark.parametrize(("n_views", "fraction"), [(1, 0.1), (8, 0.25), (20, 0.1)])
@pytest.mark.parametrize(("steps", "dispersion"), [(1, 0.0), (3, 0.0), (1, 50.0), (2, 5.0)])
def test_the_answers_are_those_of_the_literal_loop(n_classes, n_views, fraction, steps, dispersion):
    stream = awkward_stream(n_classes, NAMES[n_classes], n_views)
    settings = {"steps": steps, "fraction": fraction}
    method = CTPT(dispersion=dispersion, **settings) if dispersion else TPT(**settings)
    for query in stream:
        expected, context = literal(query, dispersion=dispersion, **settings)
        step = method.step(query)
        np.testing.assert_allclose(step.logits, expected, atol=1e-5)
        kept = select_views(method._start.logits(query.views), fraction, method="tpt")
        found = method._tuning.context(method._start, query.views[kept])
        np.testing.assert_allclose(found, context, atol=1e-7)
        base = query.predictor.logits(query.views[:1])[0]
        np.testing.assert_allclose(step.base, base, atol=1e-5)


@pytest.mark.parametrize("dispersion", [0.0, 7.0])
@pytest.mark.parametrize("n_classes", NAMES)
def test_the_gradient_is_that_of_finite_differences(n_classes, dispersion):
    stream = awkward_stream(1, NAMES[n_classes], 3)
    start, views = Start.of(stream.features.predictor, PROMPT), stream.query(0).views

    def loss(context):
        features = start.prompts.features(context)[start.prompts.which]
        z = 8.0 * views.astype(float) @ features.T
        p = np.exp(z - z.max(axis=1, keepdims=True))
        m = (p / p.sum(axis=1, keepdims=True)).mean(axis=0)
        apart = np.linalg.norm(features - features.mean(axis=0), axis=1).mean()
        return -(m * np.log(m)).sum() - dispersion * apart

    slope = Tuning(0.0, 1, dispersion).slope(start, start.features, views.astype(float))
    found = start.pull(start.prompts.by_name(slope))
    for place in np.ndindex(*found.shape):
        moved = np.zeros_like(start.context)
        moved[place] = 1e-6
        expected = (loss(start.context + moved) - loss(start.context - moved)) / 2e-6
        assert found[place] == pytest.approx(expected, abs=1e-7)


def test_features_that_are_all_the_same_have_no_slope_apart():
    assert not _dispersion_slope(np.ones((3, 4))).any()


def test_classes_of_the_same_name_are_tied():
    names = ("cat", "dog", "cat", "owl", "dog")
    stream = awkward_stream(0, names, 12, n_images=40, tower=SmallTextTower)
    for method in (TPT(), TPT(steps=3), CTPT()):
        for step in iter_steps(method, stream):
            assert step.logits[0] == step.logits[2]
            assert step.logits[1] == step.logits[4]
            assert {step.prediction, step.base_prediction} <= {0, 1, 3}


@pytest.mark.parametrize("twice", [(), ("one", "kind 3")])
def test_prompts_of_a_length_are_encoded_together(monkeypatch, twice):
    monkeypatch.setattr(_prompts, "_WORTH", 3)
    names = ("a b c d e", *NAMES[9], "one", "two", *twice, "three", "four", "hot air balloon")
    stream = awkward_stream(0, names, 12)
    method = CTPT(steps=2)
    for query, step in zip(stream, iter_steps(method, stream), strict=True):
        expected, _ = literal(query, steps=2, dispersion=50.0)
        np.testing.assert_allclose(step.logits, expected, atol=1e-5)
    prompts = method._start.prompts
    assert [part.stop - part.start for part in prompts._parts()] == [4, 9, 2]
    ends = (prompts.tokens == 2).int().argmax(dim=1)
    assert (ends.diff() >= 0).all()


def test_an_underscore_in_a_name_is_a_space():
    spaced, joined = ("hot air balloon", "cat"), ("hot_air_balloon", "cat")
    first, other = (
        [step.logits for step in iter_steps(TPT(), awkward_stream(0, NAMES[2], 12, tower=tower))]
        for tower in (lambda _, dim, names=names: Exact(names, dim) for names in (spaced, joined))
    )
    np.testing.assert_allclose(first, other, atol=1e-9)


def test_in_parts_the_prompts_give_the_same(monkeypatch):
    stream = awkward_stream(0, NAMES[9], 12)
    whole = [step.logits for step in iter_steps(CTPT(steps=2), stream)]
    monkeypatch.setattr(_prompts, "_AT_ONCE", 500)  # three prompts
    method = CTPT(steps=2)
    parts = [step.logits for step in iter_steps(method, stream)]
    assert len(list(method._start.prompts._parts())) > 2
    np.testing.assert_allclose(parts, whole, atol=1e-9)


def test_small_prompts_leave_the_number_of_threads_as_it_was():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        run(TPT(steps=2), awkward_stream(0, NAMES[2], 1))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_an_image_is_answered_alone():
    stream = awkward_stream(5, NAMES[4], 10, n_images=40, tower=SmallTextTower)
    here, there = run(TPT(), stream), run(TPT(), stream.shuffled(1))
    assert np.array_equal(here.predictions[there.order], there.predictions)
    method = TPT()
    steps = list(iter_steps(method, stream))
    assert np.array_equal(copy.deepcopy(method).step(stream.query(7)).logits, steps[7].logits)


def test_without_a_step_worth_its_name_the_untuned_prompt_answers():
    stream = awkward_stream(2, NAMES[4], 10)
    for step in iter_steps(TPT(rate=0), stream):
        np.testing.assert_allclose(step.logits, step.base, atol=1e-5)


def test_both_keep_the_contract_of_methods():
    check_method(TPT)
    check_method(lambda: TPT(rate=0.05, steps=2, fraction=0.5, prompt="{}".join(("a ", ""))))
    check_method(CTPT)


@pytest.mark.parametrize("n_views", [2, 9])
def test_two_to_nine_views_are_refused(n_views):
    with pytest.raises(MarcError, match=f"tpt keeps .* none of {n_views}"):
        run(TPT(), awkward_stream(0, NAMES[2], n_views))


def test_a_stream_without_its_text_encoder_is_refused_before_the_first_image():
    stream = Stream.from_arrays(np.eye(3, dtype="f4"), np.eye(3, dtype="f4"))
    for name in ("tpt", "c-tpt"):
        with pytest.raises(MarcError, match="text encoder is not at hand"):
            run(create_method(name), stream)


def test_without_torch_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MarcError, match="encoders") as refused:
        TPT().check(awkward_stream(0, NAMES[2], 1))
    assert "marc-clip[encoders]" in refused.value.hint


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": -1}, "rate must be"),
        ({"steps": 0}, "steps must be"),
        ({"fraction": 2}, "fraction of the views"),
        ({"prompt": "a photo"}, "a prompt needs words"),
        ({"prompt": "{} in a photo"}, "a prompt needs words"),
        ({"prompt": 7}, "a prompt needs words"),
        ({"dispersion": -1}, "dispersion must be"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(MarcError, match=message):
        CTPT(**settings)


def test_words_that_are_no_tokens_of_their_own_are_refused():
    with pytest.raises(MarcError, match="not tokens of their own"):
        TPT(prompt="pre{}").step(awkward_stream(0, NAMES[2], 1).query(0))


@pytest.mark.parametrize("n_words", [18, 30])
def test_a_prompt_that_leaves_no_token_for_a_name_is_refused(n_words):
    with pytest.raises(MarcError, match="leave no token for it") as refused:
        TPT(prompt="very " * n_words + "{}.").step(awkward_stream(0, NAMES[2], 1).query(0))
    assert "reads 20 in all" in refused.value.allowed


def test_names_that_are_cut_are_refused_where_they_become_the_same():
    prompt = "very " * 17 + "{}."
    first_words = awkward_stream(0, ("cat", "dog", "a cat on a mat"), 1)
    TPT(prompt=prompt).step(first_words.query(0))  # cut, and still apart
    same = awkward_stream(0, ("owl", "a cat", "a dog"), 1)
    with pytest.raises(MarcError, match="what is left of them is the same") as refused:
        TPT(prompt=prompt).step(same.query(0))
    assert "'a cat' and 'a dog'" in refused.value.got
    long = ["a " * 30 + name for name in ("cat", "dog")]
    with pytest.raises(MarcError, match="what is left of them is the same"):
        TPT().step(awkward_stream(0, long, 1).query(0))


class Lower(Exact):
    """It reads no capitals, as the text encoder of CLIP."""

    def tokenize(self, texts):
        return super().tokenize([text.lower() for text in texts])


def test_names_that_the_text_encoder_reads_alike_are_tied_and_not_refused():
    stream = awkward_stream(0, ("Cat", "cat", "dog"), 1, tower=Lower)
    for step in iter_steps(TPT(), stream):
        assert step.logits[0] == step.logits[1]


def test_both_run_on_the_lab():
    stream = marc.load_stream("lab/sketch-12").subset(np.arange(150))
    for name in ("tpt", "c-tpt"):
        steps = list(iter_steps(create_method(name), stream))
        assert np.mean([step.prediction for step in steps] == stream.labels) > 0.5
        assert all((step.logits != step.base).any() for step in steps)


@pytest.fixture(scope="module")
def released_stream():
    """The images of the released outputs, and the tower that they were made with."""
    gold = released("tpt_tiny_steps1")
    import helpers.torch_towers  # noqa: F401
    import open_clip
    from safetensors.torch import load_file

    from marc.encoders.open_clip_text import OpenClipTextTower

    texts = {"context_length": 77, "vocab_size": 21, "width": 64, "heads": 2, "layers": 2}
    pictures = {"layers": 1, "width": 64, "patch_size": 16, "image_size": 64}
    model = open_clip.CLIP(64, pictures, texts, quick_gelu=True)
    weights = load_file(SHARED / "gold" / "tpt_tiny_text_tower.safetensors")
    assert not model.load_state_dict(weights, strict=False).unexpected_keys
    compact = {int(token): number for number, token in enumerate(gold["original_ids"])}
    usual = open_clip.get_tokenizer("ViT-B-32")

    def tokenize(written):
        return torch.tensor([[compact.get(t, 0) for t in row] for row in usual(written).tolist()])

    names = [n.replace("_", " ") for n in json.loads(str(gold["description"]))["class_names"]]
    tower = OpenClipTextTower(model, tokenize, names, name="tiny", digest="tiny")
    tokens = tower.tokenize([PROMPT.format(name) for name in names])
    assert np.array_equal(tokens, gold["token_ids"])
    return Stream.from_arrays(
        gold["views"], gold["text_features_init"], towers=Towers(text=lambda: tower)
    )


@pytest.mark.parametrize("steps", [1, 3])
def test_the_released_functions_gave_the_same(steps, released_stream):
    """Where a gradient is at the level of rounding a coordinate may go the other way."""
    gold = released(f"tpt_tiny_steps{steps}")
    method = TPT(steps=steps)
    found = np.array([step.logits for step in iter_steps(method, released_stream)])
    assert np.array_equal(found.argmax(axis=1), gold["pred"])
    far = np.abs(found - gold["logits"]).max(axis=1)
    assert np.median(far) < 1e-4
    assert far.max() < 0.6 * steps
    start, tuning, selected = method._start, method._tuning, released("tpt_tiny_steps1")["selected"]
    np.testing.assert_allclose(start.context, gold["ctx_init"], atol=1e-7)
    by_class = start.features[start.prompts.which]
    np.testing.assert_allclose(by_class, released_stream.features.predictor.prototypes, atol=2e-6)
    moved = []
    for query, kept in zip(released_stream, selected, strict=True):
        mine = select_views(start.logits(query.views), 0.1, method="tpt")
        assert np.array_equal(mine, kept)
        moved.append(tuning.context(start, query.views[kept]))
    differ = np.abs(np.array(moved) - gold["ctx_after"])
    sure = np.abs(gold["ctx_grad_last"]) > 1e-4
    assert differ[sure].max() < 1e-5 * 100 ** (steps - 1)
    assert np.quantile(differ, 0.97) < 1e-4 * steps


def test_the_released_functions_gave_the_same_gradients(released_stream):
    gold = released("tpt_tiny_steps1")
    start, tuning = Start.of(released_stream.features.predictor, PROMPT), Tuning(5e-3, 1)
    for query, kept, expected in zip(
        released_stream, gold["selected"], gold["ctx_grad_last"], strict=True
    ):
        slope = tuning.slope(start, start.features, query.views[kept])
        found = start.pull(start.prompts.by_name(slope))
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=4e-5)
