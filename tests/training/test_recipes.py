"""The recipes that trained the lab's encoders. Skipped where PyTorch is not installed."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors.torch")

import numpy as np  # noqa: E402
from torch.nn import functional  # noqa: E402

from marc_lab.networks.convolutional import fold  # noqa: E402
from training import batch_statistics, losses  # noqa: E402
from training.augment import Augmentation, _interpolation, as_images  # noqa: E402
from training.catalogue import ENCODERS  # noqa: E402
from training.loop import Stepper, schedule  # noqa: E402
from training.recipe import kept_parameters, restore  # noqa: E402
from training.rounding import in_levels, round_weights  # noqa: E402
from training.training_set import ShuffledRows, TrainingSet  # noqa: E402
from training.validation import embed, purity  # noqa: E402

TRAINED = [name for name, entry in ENCODERS.items() if entry.trained]


@pytest.fixture(scope="module")
def training_set():
    generator = torch.Generator().manual_seed(0)
    n = 96
    pictures = torch.randint(0, 256, (n, 64, 3, 64), dtype=torch.uint8, generator=generator)
    tokens = torch.randint(0, 50, (n, 28), generator=generator)
    return TrainingSet(pictures, torch.arange(n) % 48, tokens)


@pytest.mark.parametrize("name", TRAINED)
def test_a_step_changes_the_encoder(name, training_set):
    entry = ENCODERS[name]
    recipe = entry.make()
    before = {k: v.clone() for k, v in recipe.encoder.named_parameters()}
    stepper = Stepper(recipe, training_set, entry.settings, 16)
    for _ in range(2):
        stepper(1e-3)
    assert torch.isfinite(stepper.mean_loss(2))
    after = dict(recipe.encoder.named_parameters())
    assert all(not torch.equal(before[k], after[k]) for k in before)


@pytest.mark.parametrize("name", list(ENCODERS))
def test_saved_parameters_give_the_same_embedding(name, training_set):
    entry = ENCODERS[name]
    first, second = entry.make(), entry.make()
    batch_statistics.measure(first.encoder, training_set)
    restore(second, kept_parameters(first))
    images = as_images(training_set.pictures[:4])
    assert torch.equal(embed(first.eval().encoder, images), embed(second.eval().encoder, images))


@pytest.mark.parametrize("name", ["captions", "pairs-large", "pairs-vit", "random"])
def test_the_shipped_graph_computes_the_rounded_encoder(name, training_set, tmp_path):
    pytest.importorskip("onnx")
    from training.export import TOLERANCE, export, run

    recipe = ENCODERS[name].make()
    batch_statistics.measure(recipe.encoder, training_set)
    images = as_images(training_set.pictures[:5]).contiguous()
    path = tmp_path / f"{name}.onnx"
    wanted = export(recipe.eval().encoder, path, images)
    assert np.abs(run(path, images).numpy() - wanted).max() <= TOLERANCE
    assert path.stat().st_size < 1.35e6


def test_folding_changes_nothing_and_rounding_little(training_set):
    recipe = ENCODERS["pairs-small"].make()
    batch_statistics.measure(recipe.encoder, training_set)
    encoder, images = recipe.eval().encoder, as_images(training_set.pictures[:4])
    wanted = embed(encoder, images)
    folded = fold(encoder)
    assert torch.allclose(embed(folded, images), wanted, atol=1e-5)
    assert (embed(round_weights(folded), images) * wanted).sum(1).min() > 0.99


def test_rounding_twice_is_rounding_once():
    weight = torch.randn(8, 600, generator=torch.Generator().manual_seed(1))
    weight[3] = 0
    levels, scales = in_levels(weight)
    again, _ = in_levels(levels * scales[:, None])
    assert torch.equal(levels, again)


def test_a_crop_is_bilinear_resampling():
    torch.manual_seed(3)
    matrix = _interpolation(torch.tensor([0.6]), torch.tensor([True]))
    torch.manual_seed(3)
    middle = torch.rand(1) * 0.4 + 0.3
    images = torch.rand(1, 3, 64, 64)
    window = torch.tensor([[[-0.6, 0, 2 * float(middle) - 1], [0, 1, 0]]])
    grid = functional.affine_grid(window, (1, 3, 64, 64), align_corners=False)
    wanted = functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
    assert torch.allclose(images @ matrix[0].T, wanted, atol=1e-5)


def test_views_are_pictures_and_grey_views_have_no_colour(training_set):
    pictures = training_set.pictures[:8]
    views = Augmentation(0.35, colour=1.0, grey=0.2, blur=0.5)(pictures)
    assert views.shape == (8, 3, 64, 64)
    assert views.min() >= 0
    assert views.max() <= 1
    grey = Augmentation(0.35, grey=1.0)(pictures)
    assert torch.allclose(grey[:, 0], grey[:, 2], atol=5e-3)


def test_info_nce_prefers_true_partners():
    views = torch.eye(6)
    right = losses.info_nce(views, views, temperature=0.2)
    wrong = losses.info_nce(views, views.roll(1, 0), temperature=0.2)
    nothing = losses.info_nce(views, torch.ones(6, 6), temperature=0.2)
    assert right < nothing < wrong


def test_supervised_contrastive_equals_a_plain_loop():
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 5, 7, generator=generator)
    labels = torch.tensor([0, 1, 0, 2, 1])
    views = functional.normalize(torch.cat([first, second]), dim=1)
    both, total = labels.repeat(2), 0.0
    for i in range(10):
        others = [j for j in range(10) if j != i]
        normaliser = torch.logsumexp(views[others] @ views[i] / 0.1, 0)
        positives = [j for j in others if both[j] == both[i]]
        total -= (views[positives] @ views[i] / 0.1 - normaliser).mean() / 10
    found = losses.supervised_contrastive(first, second, labels, temperature=0.1)
    assert torch.allclose(found, total, atol=1e-5)


def test_rows_are_drawn_once_before_any_comes_again():
    rows = ShuffledRows(torch.arange(100, 120), 5, seed=0)
    assert sorted(torch.cat([rows.draw() for _ in range(4)]).tolist()) == list(range(100, 120))
    with pytest.raises(ValueError, match="smaller --batch"):
        ShuffledRows(torch.arange(3), 5, seed=0)


def test_no_label_but_the_reference_sees_held_back_classes():
    from marc_lab.classes import HELD_BACK
    from training.catalogue import HALF

    labels = torch.arange(48)
    contrastive = ENCODERS["labels-contrastive"].make().rows(labels)
    assert not set(contrastive.tolist()) & set(HELD_BACK)
    assert set(ENCODERS["labels-half"].make().rows(labels).tolist()) == set(HALF)
    assert len(HALF) == 24
    assert not set(HALF) & set(HELD_BACK)


def test_the_learning_rate_rises_and_falls_to_nothing():
    rates = [schedule(step, 5000) for step in range(5000)]
    assert rates[0] < 0.01
    assert max(rates) > 0.98
    assert rates[-1] < 1e-6


def test_purity_counts_neighbours_with_the_same_label():
    embeddings = functional.normalize(torch.eye(2).repeat_interleave(20, 0), dim=1)
    labels = torch.arange(2).repeat_interleave(20)
    assert purity(embeddings, labels) == 1.0
    assert purity(embeddings, torch.arange(40)) == 0.0
