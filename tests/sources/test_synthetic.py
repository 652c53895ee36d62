import numpy as np
import pytest

from marc.errors import MarcError
from marc.loop import run
from marc.method import MARC
from marc.sources.synthetic import synthetic_stream


def test_the_same_seed_gives_the_same_stream():
    assert synthetic_stream(50, seed=3).fingerprint == synthetic_stream(50, seed=3).fingerprint
    assert synthetic_stream(50).fingerprint == synthetic_stream(50, seed=0).fingerprint


def test_another_seed_gives_another_stream():
    one, other = synthetic_stream(50, seed=3).fingerprint, synthetic_stream(50, seed=4).fingerprint
    for part in ("labels", "views", "prototypes"):
        assert one[part] != other[part]
    for space in one["spaces"]:
        assert one["spaces"][space] != other["spaces"][space]


def test_sizes_are_those_asked_for():
    stream = synthetic_stream(30, 7, 3)
    assert (len(stream), stream.n_classes, stream.n_views) == (30, 7, 3)
    assert stream.spaces == ("classes", "both", "styles", "noise")
    assert stream.labels.max() < 7
    assert stream.features.class_names[6] == "class 06"
    assert stream.features.ids[29] == "synthetic-00029"
    assert stream.name == "synthetic"


def test_view_0_is_the_plain_image():
    views = synthetic_stream(400, 3, 5).features.views
    spread = np.abs(views - views.mean(axis=1, keepdims=True)).mean(axis=(0, 2))
    assert spread.argmin() == 0


def test_the_memory_helps_in_the_space_of_classes_and_harms_in_that_of_styles():
    stream = synthetic_stream(600, 10, 1)
    assert run(MARC("classes"), stream).gain > 0.05
    assert run(MARC("styles"), stream).gain < -0.05


@pytest.mark.parametrize(
    ("changes", "got"),
    [
        ({"n_images": 0}, "0"),
        ({"n_images": 2.5}, "2.5"),
        ({"n_classes": 1}, "1"),
        ({"n_classes": 0}, "0"),
        ({"n_classes": 2.5}, "2.5"),
        ({"n_views": 0}, "0"),
        ({"n_views": -1}, "-1"),
        ({"seed": -1}, "-1"),
        ({"seed": "a"}, "'a'"),
    ],
)
def test_sizes_that_make_no_stream_are_refused(changes, got):
    with pytest.raises(MarcError) as refused:
        synthetic_stream(**{"n_images": 20, **changes})
    assert f"got:  {got}" in str(refused.value)
