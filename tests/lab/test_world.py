import dataclasses
from pathlib import Path

import numpy as np
import pytest

from marc import MarcError
from marc_lab.classes import CLASS_NAMES, CLASSES, HELD_BACK
from marc_lab.world import (
    _FLOOR,
    SHIFTS,
    VERSION,
    _draw_setting,
    _draw_thing,
    _lightness,
    label_of,
    render,
)

PINNED = Path(__file__).with_name("pinned") / "lab_pictures.npz"
SCENES = [(11, 2 * number, SHIFTS[number], 4 * number) for number in range(10)]


def test_ten_pictures_are_the_ones_of_this_version():
    """At most one level away in at most one value of 200: the mathematical library may differ."""
    stored = np.load(PINNED, allow_pickle=False)
    assert int(stored["version"]) == VERSION, "a new version needs new pins and new encoders"
    for pinned, scene in zip(stored["pictures"], SCENES, strict=True):
        distance = np.abs(render(*scene).image.astype(int) - pinned.astype(int))
        assert distance.max() <= 1
        assert (distance > 0).mean() <= 0.005


@pytest.mark.parametrize("shift", SHIFTS)
def test_a_picture_is_a_function_of_seed_and_index(shift):
    first, again = render(3, 8, shift), render(3, 8, shift)
    assert np.array_equal(first.image, again.image)
    assert first.facts == again.facts
    assert first.image.dtype == np.uint8
    assert not np.array_equal(first.image, render(3, 10, shift).image)
    assert not np.array_equal(first.image, render(4, 8, shift).image)


def test_the_frames_of_a_clip_share_the_object_alone():
    pairs = [(render(5, 2 * clip).facts, render(5, 2 * clip + 1).facts) for clip in range(40)]
    for one, other in pairs:
        assert (one.label, one.color, one.fill) == (other.label, other.color, other.fill)
        assert one.angle != other.angle
    assert any(one.background != other.background for one, other in pairs)


@pytest.mark.parametrize("shift", SHIFTS)
def test_a_shift_changes_the_picture_and_nothing_that_is_true_of_it(shift):
    clean, shifted = render(6, 4), render(6, 4, shift)
    assert clean.facts == shifted.facts
    assert (shift == "clean") == np.array_equal(clean.image, shifted.image)


def test_every_class_can_be_drawn_under_every_shift():
    for label in range(len(CLASSES)):
        image = render(9, 2 * label, SHIFTS[label % len(SHIFTS)], label).image
        assert image.std() > 3, CLASS_NAMES[label]


def test_a_label_is_known_without_drawing():
    assert all(label_of(3, index) == render(3, index).label for index in range(20))


def test_all_classes_are_drawn_about_equally_often():
    labels = [_draw_thing(np.random.default_rng([1, clip, 0]), None).label for clip in range(4800)]
    counts = np.bincount(labels, minlength=48)
    assert counts.min() > 60
    assert counts.max() < 150


def test_nothing_behind_an_object_comes_near_its_lightness():
    for number in range(500):
        generator = np.random.default_rng([2, number, 0])
        thing = _draw_thing(generator, None)
        setting = _draw_setting(generator, thing)
        sides = [
            _lightness(color) - _lightness(thing.color) for color in (setting.first, setting.second)
        ]
        assert min(abs(side) for side in sides) >= min(_FLOOR, _lightness(thing.color)) - 1e-9
        assert all((side > 0) == setting.is_lighter for side in sides)


def test_twelve_classes_are_held_back():
    assert len(set(HELD_BACK)) == 12
    assert len(set(CLASS_NAMES)) == 48


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seed": -1, "index": 0}, "seed must be an integer >= 0"),
        ({"seed": 0, "index": 0.5}, "index must be an integer >= 0"),
        ({"seed": 0, "index": 0, "shift": "snow"}, "halftone"),
        ({"seed": 0, "index": 0, "label": 48}, "0 to 47"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments, words):
    with pytest.raises(MarcError, match=words):
        render(**arguments)


def test_facts_are_plain_values():
    values = dataclasses.asdict(render(3, 1).facts).values()
    assert {type(value) for value in values} <= {int, str, float, bool}
