"""The study of class means measures the product, and its page is made of what was measured."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.making import make_stream

import marc
from benchmarks.class_means.measure import measure
from benchmarks.class_means.reads import Read, read, read_slowly, shares
from benchmarks.class_means.results import document
from benchmarks.class_means.streams import Plan
from benchmarks.class_means.variants import ABLATION, BOUNDED, DEFAULT, OWN, answer
from marc.class_means import ClassMeans
from marc.replay.replay import replay
from marc.scores import softmax

STREAM = replace(
    make_stream(3, n_images=90, space_dim=12, logit_scale=4.0),
    row_domains=np.arange(90) % 2,
    name="small",
)


def base_and_z(order, how=DEFAULT.read):
    base = order.features.base.logits[order.order].astype(np.float64)
    keys = {space: order.features.keys(space)[order.order] for space in (*order.spaces, OWN)}
    return base, {space: read(each, base, how) for space, each in keys.items()}


def slow_z(order):
    written = shares(softmax(order.features.base.logits[order.order]))
    keys = {space: order.features.keys(space)[order.order] for space in (*order.spaces, OWN)}
    return {space: read_slowly(each, written) for space, each in keys.items()}


@pytest.mark.parametrize("kind", ["shuffled", "sorted"])
@pytest.mark.parametrize("spaces", [["good"], ["bad"], ["good", "bad", OWN], [OWN]])
def test_the_default_variant_is_the_product(kind, spaces):
    order = STREAM.ordered(kind, seed=1)
    base, z = base_and_z(order)
    slow = slow_z(order)
    assert all(np.allclose(slow[space], z[space], atol=1e-5) for space in z)
    found = answer(base, slow, spaces).logits
    run = replay(ClassMeans(spaces), order)
    second, first = np.sort(found, axis=1)[:, -2:].T
    clear = first - second > 1e-4  # near ties may fall either way
    assert clear.mean() > 0.95
    assert np.array_equal(found.argmax(axis=1)[clear], run.predictions[clear])


def test_no_variant_looks_at_a_later_image():
    order = STREAM.shuffled(0)
    half = order.subset(order.order[:45])
    for variant in (*ABLATION.values(), *BOUNDED.values()):
        base, z = base_and_z(order, variant.read)
        some_base, some_z = base_and_z(half, variant.read)
        whole, part = (
            answer(each, means, ["good", "bad"], variant).logits
            for each, means in ((base, z), (some_base, some_z))
        )
        assert np.allclose(whole[:45], part, atol=1e-4)


def test_a_bounded_memory_that_never_fills_is_a_mean_of_hard_labels():
    _, z = base_and_z(STREAM, Read(hard=True))
    for how in (Read(best=90), Read(last=90)):
        _, bounded = base_and_z(STREAM, how)
        assert np.allclose(bounded["good"], z["good"], atol=1e-5)
    _, last = base_and_z(STREAM, Read(last=2))
    assert not np.allclose(last["good"], z["good"], atol=0.1)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    path = tmp_path_factory.mktemp("packs") / "small.npz"
    marc.write_pack(STREAM, path)
    return measure(replace(Plan.quick([str(path)]), shifts=(), n_variants=8))


def test_the_page_is_made_of_what_was_measured(measured):
    text = "\n\n".join(document(measured))
    for title in ("In short", "Photographs", "Orders", "Each part", "Bounded", "Trust", "learned"):
        assert title in text
    assert "| class-means, all" in text
    assert "returning" in text
    assert "nan" not in text


def test_cells_and_methods_are_those_of_the_product(measured):
    run = replay(ClassMeans(["good"]), STREAM.shuffled(0))
    cells = {(c.group, c.stream, c.space): c for c in measured.cells}
    assert cells["photographs", "small", "good"].class_means == pytest.approx(run.gain)
    fixed = replay(marc.MARC("good"), STREAM.shuffled(0))
    auto = replay(marc.MARC("good", 8, "auto"), STREAM.shuffled(0))
    assert cells["photographs", "small", "good"].paper == pytest.approx(fixed.gain)
    assert cells["photographs", "small", "good"].auto == pytest.approx(auto.gain)
    gains = {(g.stream, g.kind, g.variant, g.space): g.gain for g in measured.ablation}
    assert gains["small", "shuffled", "as it ships", "good"] == pytest.approx(run.gain, abs=0.01)
