"""Whether a store is what a plan says of it."""

import pytest
from helpers.embedding_trees import draw_lab_folder, embed_plan, make_plan
from helpers.studies import PLAN, tiny_plan

from marc.errors import MarcError
from marc_paper.study.streams import _check_declared, store_of


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("declared")
    embed_plan(make_plan(draw_lab_folder(folder / "photos"), folder / "store"))
    return folder / "store"


def plan_of(source, **said):
    streams = {**PLAN["streams"], "first": {"source": source, "group": "main", **said}}
    return tiny_plan(streams=streams, predictor="mini:captions", prompts="lab")


def test_what_is_true_is_let_pass(store):
    _check_declared(plan_of(f"store/{store}"), "first")
    _check_declared(plan_of(f"store/{store}", predictor="mini:captions", prompts="lab"), "first")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"predictor": "clip-b16-text"}, r"(?s)another predictor.*has mini:captions"),
        ({"prompts": "tip-7"}, r"(?s)other prompts.*has lab"),
        ({"prompts": "lab+cupl"}, "other prompts"),
    ],
)
def test_what_the_store_knows_better_is_refused(store, said, words):
    with pytest.raises(MarcError, match=words):
        _check_declared(plan_of(f"store/{store}", **said), "first")


def test_what_cannot_be_asked_is_believed(tmp_path):
    for source in ("arrays/a.npz", "lab/sketch", f"store/{tmp_path / 'none'}"):
        _check_declared(plan_of(source, predictor="anything"), "first")


def test_sources_that_have_stores():
    assert store_of("store/a/b").as_posix() == "a/b"
    assert store_of("imagenet-a").as_posix() == "stores/imagenet-a"
    assert store_of("lab/sketch") is None
