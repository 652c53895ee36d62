"""The lab's predictors in torch are those that run without it."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import marc  # noqa: E402
from marc.errors import MarcError  # noqa: E402
from marc.scores import unit  # noqa: E402
from marc_lab.classes import CLASS_NAMES  # noqa: E402
from marc_lab.encoders import PREDICTORS, PROMPTS, _known_texts  # noqa: E402
from marc_lab.streams import plan_stream  # noqa: E402
from marc_lab.towers import LabImageTower, LabTextTower  # noqa: E402

NAMES = ("heart", "house")


@pytest.fixture(scope="module", params=PREDICTORS)
def name(request):
    return request.param


def test_pictures_come_out_as_without_torch(name):
    tower, plan = LabImageTower(name), plan_stream("sketch-12")
    pictures = np.stack([plan.picture(row) for row in range(6)])
    with torch.no_grad():
        found = unit(tower.copy()(tower.prepare(pictures)).numpy())
    assert np.abs(found - marc.create_encoder(f"mini:{name}").encode(pictures)).max() <= 2e-6


def test_the_shipped_prompts_come_out_as_they_ship(name):
    tower, known = LabTextTower(name, NAMES), _known_texts(name)
    texts = [prompt.format(thing) for thing in CLASS_NAMES for prompt in PROMPTS]
    words = tower.tokenize(texts)
    with torch.no_grad():
        found = unit(tower.encode(tower.embed(words), words).numpy())
    cosines = np.einsum("nd,nd->n", found, np.stack([known[text] for text in texts]))
    # the tower of `captions` was learned after its prompts were shipped
    assert cosines.min() >= (0.9996 if name == "captions" else 1 - 1e-6)


def test_a_copy_is_its_own_and_what_is_not_asked_for_learns_nothing(name):
    tower = LabImageTower(name)
    mine = tower.copy()
    for parameter in mine.parameters():
        parameter.fill_(0.0)
    assert any(each.any() for each in tower.copy().parameters())
    assert not any(each.requires_grad for each in mine.parameters())


def test_padding_changes_nothing_and_gradients_reach_the_words(name):
    tower = LabTextTower(name, NAMES)
    words = tower.tokenize(["a photo of a heart"])
    embedded = tower.embed(words).clone().requires_grad_()
    tower.encode(embedded, words).square().sum().backward()
    assert embedded.grad[0, :5].any()
    assert not embedded.grad[0, 5:].any()
    whole = tower._network.encode(tower.embed(words), words)
    assert torch.allclose(tower.encode(tower.embed(words), words), whole, atol=1e-6)


def test_a_word_that_the_lab_does_not_know_is_refused():
    with pytest.raises(MarcError, match="does not know these words"):
        LabTextTower("captions", NAMES).tokenize(["a photo of a television"])


def test_a_full_stop_at_the_end_is_passed_over():
    plain, stopped = LabTextTower("captions", NAMES).tokenize(["a heart", "a heart."])
    assert torch.equal(plain, stopped)


def test_a_stream_of_the_lab_has_its_towers_and_its_pixels():
    stream = marc.load_stream("lab/sketch-12", n_views=3)
    query = stream.query(4)
    crops = query.pixels()
    assert crops.shape == (3, 64, 64, 3)
    assert np.array_equal(crops[0], plan_stream("sketch-12").picture(4))
    predictor = stream.features.predictor
    assert predictor.text_tower.class_names == stream.features.class_names
    with torch.no_grad():
        tower = predictor.image_tower
        found = unit(tower.copy()(tower.prepare(crops)).numpy())
    assert np.abs(found - query.views).max() <= 1e-5


def test_a_pack_has_no_towers_and_says_where_there_are_some():
    predictor = marc.synthetic_stream().features.predictor
    for tower in ("text_tower", "image_tower"):
        with pytest.raises(MarcError, match="not at hand"):
            getattr(predictor, tower)
