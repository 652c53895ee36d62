"""Whether any memory is worth it: what trust says of spaces good, bad and the predictor's own."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.making import make_stream

from marc.class_means import ClassMeans
from marc.errors import MarcError, check_spaces
from marc.spaces.selection import plan_selection, select
from marc.spaces.trust import ALL, LEAST_TRUST, is_own, trust


def with_spaces(stream, **spaces):
    checked = check_spaces(spaces, len(stream))
    return replace(stream, features=replace(stream.features, spaces=checked))


def test_trust_is_that_of_the_second_half_of_a_run():
    stream = make_stream(n_images=301)
    path = ClassMeans("good").replay(stream.shuffled(4)).trajectory.priority
    assert trust(stream.features, ["good"], seed=4) == pytest.approx(path[150:].mean())
    both = ClassMeans(["good", "bad"]).replay(stream.shuffled(0)).trajectory.priority
    assert trust(stream.features, ["good", "bad"]) == pytest.approx(both[150:].mean())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_images", [200, 800])
def test_a_good_space_is_told_from_one_that_means_nothing(seed, n_images):
    stream = make_stream(seed, n_images=n_images, logit_scale=8.0)
    assert trust(stream.features, ["good"]) > LEAST_TRUST
    assert trust(stream.features, ["bad"]) < LEAST_TRUST / 2


def test_the_predictors_own_space_is_read_as_such_under_any_name():
    stream = make_stream(n_images=200)
    same = with_spaces(stream, same=stream.features.clip_keys.copy(), bad=np.ones((200, 3)))
    for names in (["same"], ["same+center"], ["same", "predictor"]):
        assert trust(same.features, names) == trust(same.features, ["predictor"])


def test_the_predictors_own_space_is_known_by_name_and_by_content():
    features = make_stream().features
    same = replace(features, spaces={**features.spaces, "same": features.clip_keys.copy()})
    names = ["good", "same", "predictor", "bad+center", "same+center"]
    own = [name for name in names if is_own(same, name)]
    assert own == ["same", "predictor", "same+center"]


def test_a_selection_says_none_and_why():
    selection = select(make_stream(n_images=300), ["bad"], n_replicates=5)
    assert selection.method == "none"
    assert "no space agrees" in selection.reason
    assert str(selection) == f"no memory: {selection.reason}"
    assert selection.space == "bad"  # the ranking is what it was
    assert selection.to_dict()["method"] == "none"


def test_one_good_space_is_enough():
    stream = make_stream(n_images=300)
    selection = select(stream, n_replicates=5)
    assert selection.method == "class-means"
    assert selection.reason.startswith("good agrees")
    assert selection.trust == trust(stream.features, ["good", "bad", "predictor"])
    by_space = {each.space: each.trust for each in selection.ranking}
    assert by_space == {name: trust(stream.features, [name]) for name in ("good", "bad")}
    assert selection.to_dict()["trust"] == by_space


def test_trust_that_was_not_measured_says_nothing():
    job = plan_selection(make_stream(), n_replicates=2)
    selection = job.result([job.space(name) for name in job.spaces])
    assert np.isnan([selection.trust, *(each.trust for each in selection.ranking)]).all()
    assert selection.method == "class-means"
    assert 0 <= job.trust_of(ALL) <= 1


def test_labels_are_not_read():
    stream = make_stream(n_images=100)
    wrong = replace(stream, row_labels=np.zeros(100, dtype=int))
    first, second = (select(each, n_replicates=2) for each in (stream, wrong))
    assert first.to_dict() == second.to_dict()


def test_a_space_that_is_not_there_is_refused():
    with pytest.raises(MarcError, match="there is no space 'missing'"):
        trust(make_stream().features, ["missing"])
