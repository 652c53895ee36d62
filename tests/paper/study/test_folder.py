"""The folder of a study: what counts in it, and what is refused before anything is written."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from helpers.commands import events, json_in, tree
from helpers.studies import SPACES, tiny_plan, tiny_stream
from helpers.study_folders import BOTH, entries, make, plan_over, results, write_packs

from marc.errors import MarcError
from marc.sources.pack import write_pack
from marc_paper.study.artifacts import Column, Table
from marc_paper.study.folder import StoredStudy, StudyFolder
from marc_paper.study.work import Experiment, Piece


@pytest.fixture(scope="module")
def packs(tmp_path_factory):
    return write_packs(tmp_path_factory.mktemp("packs"))


@pytest.fixture
def plan(packs):
    return plan_over(packs)


def test_a_damaged_or_missing_file_is_made_again(plan, tmp_path):
    make(plan, tmp_path / "study")
    whole = results(tmp_path / "study")
    piece = next((tmp_path / "study" / "work").glob("*.npz"))
    piece.write_bytes(piece.read_bytes()[:100])
    (tmp_path / "study" / "tables" / "spaces.csv").unlink()
    assert make(plan, tmp_path / "study") == ["made", "already there"]
    assert results(tmp_path / "study") == whole


@pytest.mark.parametrize("name", ["tables/spaces.json", "records/spaces.json", "tables/spaces.tex"])
@pytest.mark.parametrize("content", ["", "{}", '{"plan": '])
def test_a_damaged_table_or_record_is_made_again(made, plan, name, content):
    path, whole = made
    (path / name).write_text(content)
    assert list(StoredStudy.read(path, ["spaces", "capacity"]).records) == ["capacity"]
    assert make(plan, path) == ["made", "already there"]
    assert results(path) == whole


@pytest.mark.parametrize(
    "edit",
    [
        {"seconds": 1e9},
        {"plan": 3},
        {"files": {}},
        {"files": {"../packs/first.npz": "0"}},
        {"files": ["tables/spaces.json"]},
        {"streams": {}},
        {"artifacts": ["tables/../../a"]},
    ],
)
def test_an_edited_record_does_not_count(made, plan, packs, edit):
    path, whole = made
    record = path / "records" / "spaces.json"
    record.write_text(json.dumps({**json_in(record), **edit}))
    assert list(StoredStudy.read(path, ["spaces", "capacity"]).records) == ["capacity"]
    assert make(plan, path) == ["made", "already there"]
    assert results(path) == whole
    assert (packs / "first.npz").exists()  # no file outside is removed for a record's sake


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b"[]", b'{"first": {"digest": 1}}'])
def test_damaged_facts_of_the_streams_are_as_none(made, plan, content):
    path, whole = made
    (path / "streams.json").write_bytes(content)
    assert StoredStudy.read(path, ["spaces", "capacity"]).records == {}
    make(plan, path)
    assert results(path) == whole


@pytest.mark.parametrize("content", ["", '{"kind": "study"}', '{"kind"'])
def test_a_damaged_configuration_is_written_again(made, plan, content):
    path, whole = made
    (path / "config.json").write_text(content)
    with pytest.raises(MarcError, match="no study here"):
        StoredStudy.read(path, ["spaces"])
    assert make(plan, path) == ["already there", "already there"]
    assert results(path) == whole


@pytest.fixture(scope="module")
def made(packs, tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "study"
    make(tiny_plan(streams=entries(packs)), path)
    return path, results(path)


def test_only_one_writes_into_a_folder(plan, tmp_path):
    def again(work):
        with pytest.raises(MarcError, match="another marc study"):
            make(plan, tmp_path / "study")
        return []

    asking = Experiment("asking", "", (), again, lambda plan: [])
    assert make(plan, tmp_path / "study", (asking,)) == ["made"]


def test_a_new_title_is_no_new_plan(plan, tmp_path):
    make(plan, tmp_path / "study")
    assert make(replace(plan, title="Other"), tmp_path / "study") == ["already there"] * 2
    assert "Other" in (tmp_path / "study" / "index.html").read_text()


def test_the_same_images_twice_are_refused_before_anything_is_written(packs, tmp_path):
    streams = entries(packs)
    streams["second"] = {**streams["first"], "group": "main"}
    with pytest.raises(MarcError, match=r"(?s)same images.*streams.first, streams.second"):
        make(tiny_plan(streams=streams), tmp_path / "study")
    assert not (tmp_path / "study").exists()
    streams["second"]["group"] = "predictor"
    assert make(tiny_plan(streams=streams), tmp_path / "study") == ["made", "made"]


def test_a_study_inside_another_result_is_refused(plan, tmp_path):
    make(plan, tmp_path / "study")
    with pytest.raises(MarcError, match="inside another"):
        make(plan, tmp_path / "study" / "work" / "mine")


def test_another_plan_is_refused_unless_forced(plan, tmp_path):
    make(plan, tmp_path / "study")
    before = tree(tmp_path / "study")
    other = replace(plan, grids=replace(plan.grids, capacity=4))
    with pytest.raises(MarcError, match=r"(?s)another plan.*grids.capacity"):
        make(other, tmp_path / "study")
    assert tree(tmp_path / "study") == before
    assert make(other, tmp_path / "study", force=True) == ["made", "made"]
    told = [event for event in events(tmp_path / "study") if event.startswith("piece")]
    assert len(told) == 2 * 2 * len(SPACES)  # no piece depends on which capacity is shown
    assert json_in(tmp_path / "study" / "tables" / "spaces.json")["settings"]["capacity"] == 4


def test_nothing_of_another_plan_is_shown_after_force(plan, tmp_path):
    make(plan, tmp_path / "study")
    other = replace(plan, streams={"first": plan.streams["first"]})
    names = [experiment.name for experiment in BOTH]
    assert make(other, tmp_path / "study", BOTH[:1], force=True) == ["made"]
    assert list(StoredStudy.read(tmp_path / "study", names).records) == ["spaces"]
    # taken up without --force, what the new plan has made stays, and the rest is made
    assert make(other, tmp_path / "study") == ["already there", "made"]


def test_tables_that_a_new_plan_does_not_have_are_removed(plan, tmp_path):
    def tables(*names):
        made = [Table(name, "T", "C.", (Column("a"),), (), ()) for name in names]
        return (Experiment("some", "Some", (), lambda work: made, lambda plan: []),)

    make(plan, tmp_path / "study", tables("one", "two"))
    make(plan, tmp_path / "study", tables("one"), force=True)
    left = {path.stem for path in (tmp_path / "study" / "tables").iterdir()}
    assert left == {"one"}


def test_other_features_under_the_same_name_are_refused(plan, packs, tmp_path):
    own = tmp_path / "packs"
    shutil.copytree(packs, own)
    plan = tiny_plan(streams=entries(own))
    make(plan, tmp_path / "study")
    write_pack(tiny_stream("first", seed=77), own / "first.npz")
    with pytest.raises(MarcError, match=r"(?s)other features.*streams.first"):
        make(plan, tmp_path / "study")
    # nor is another experiment made of them
    other = Experiment("other", "", (), lambda work: [], lambda p: Piece.sweeps(["first"], ["own"]))
    with pytest.raises(MarcError, match="other features"):
        make(plan, tmp_path / "study", (other,))
    assert make(plan, tmp_path / "study", BOTH[:1], force=True) == ["made"]
    # what the old features gave no longer counts
    assert make(plan, tmp_path / "study") == ["already there", "made"]


@pytest.mark.parametrize("content", [{"notes.txt": "mine"}, {"config.json": '{"kind": "run"}'}])
def test_a_folder_of_others_is_left_alone(plan, tmp_path, content):
    (tmp_path / "study").mkdir()
    for name, text in content.items():
        (tmp_path / "study" / name).write_text(text)
    before = tree(tmp_path / "study")
    with pytest.raises(MarcError, match="left alone"):
        make(plan, tmp_path / "study")
    assert tree(tmp_path / "study") == before


def test_streams_without_labels_or_spaces_are_refused(plan, packs, tmp_path):
    with np.load(packs / "first.npz") as file:
        arrays = dict(file)
    for missing, words in (
        ("labels", "streams.first: .* no labels"),
        ("spaces/best", "streams.first: there is no space 'best'"),
    ):
        np.savez(tmp_path / "a.npz", **{k: v for k, v in arrays.items() if k != missing})
        streams = {**entries(packs)}
        streams["first"] = {**streams["first"], "source": f"arrays/{tmp_path / 'a.npz'}"}
        with pytest.raises(MarcError, match=words):
            make(tiny_plan(streams=streams), tmp_path / "study")
        assert not (tmp_path / "study").exists()


def test_a_stream_of_few_images_is_refused(packs, tmp_path):
    write_pack(tiny_stream("few", 0, n_images=39), tmp_path / "few.npz")
    streams = entries(packs)
    streams["first"] = {**streams["first"], "source": f"arrays/{tmp_path / 'few.npz'}"}
    with pytest.raises(MarcError, match="39 images"):
        make(tiny_plan(streams=streams), tmp_path / "study")


def test_fewer_views_than_the_plan_wants_are_refused(packs, tmp_path):
    streams = entries(packs)
    streams["first"] = {**streams["first"], "views": 64}
    with pytest.raises(MarcError, match="views"):
        make(tiny_plan(streams=streams), tmp_path / "study")


def test_read_study_refuses_other_folders(tmp_path):
    with pytest.raises(MarcError, match="no study here"):
        StoredStudy.read(tmp_path, [])


def test_tables_know_their_streams(plan, tmp_path):
    make(plan, tmp_path / "study")
    table = json_in(tmp_path / "study" / "tables" / "spaces.json")
    assert table["experiment"] == "spaces"
    assert table["streams"]["first"]["predictor"] == "tiny"


def test_a_table_may_have_no_rows(tmp_path):
    table = Table("empty", "Empty", "", (Column("a"),), (), ())
    nothing = Experiment("empty", "Empty", (), lambda work: [table], lambda plan: [])
    assert make(tiny_plan(), tmp_path / "study", (nothing,)) == ["made"]


def test_a_piece_of_work_under_the_name_of_another_is_none(plan, tmp_path):
    folder = StudyFolder.open(tmp_path / "study", plan.as_data())
    (folder.path / "work").mkdir(parents=True)
    for name in ("first", "second"):
        folder.put(name, {"x": np.array([len(name)])})
    works = folder.path / "work"
    shutil.copy(works / "first.npz", works / "second.npz")
    assert folder.get("second") is None
    assert folder.get("first") is not None
