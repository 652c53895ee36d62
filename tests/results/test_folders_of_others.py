"""Files and results of others in the place of a result."""

import os

import pytest
from helpers.commands import call, tree

import marc
from marc.errors import MarcError
from marc.results import folder


@pytest.fixture
def run(sources, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: call("run", sources["labelled"], "--space", "classes", *words)


@pytest.mark.parametrize("name", ["notes.txt", "figures/a.svg", "table.csv"])
def test_force_does_not_touch_a_folder_with_files_of_others(run, tmp_path, name):
    assert run("-o", "out").status == 0
    file = tmp_path / "out" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    before = tree(tmp_path / "out")
    refused = run("-o", "out", "--force")
    assert refused.status == 2
    assert "did not write" in refused.err
    assert tree(tmp_path / "out") == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    file.unlink()
    if file.parent.name == "figures":
        file.parent.rmdir()
    assert run("-o", "out", "--force").status == 0


def test_a_result_does_not_lie_inside_another(run, tmp_path):
    assert run("-o", "out").status == 0
    before = tree(tmp_path / "out")
    refused = run("-o", "out/inside")
    assert refused.status == 2
    assert "inside another" in refused.err
    assert tree(tmp_path / "out") == before


def test_a_setting_is_given_once(run):
    refused = run("--set", "gamma=1", "gamma=2")
    assert refused.status == 2
    assert "a setting is given twice" in refused.err


def attempted(path, weight=10.0, **options):
    stream = marc.synthetic_stream(n_images=20, n_classes=3)
    run = marc.run(marc.MARC("classes", weight=weight), stream)
    return marc.save_run(run, path, stream, **options)


def test_a_backup_beside_a_result_is_left_alone(tmp_path):
    (tmp_path / "r.old").mkdir()
    (tmp_path / "r.old" / "notes.txt").write_text("mine")
    attempted(tmp_path / "r")
    attempted(tmp_path / "r", 2.0, force=True)
    assert (tmp_path / "r.old" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["labels.json", "photos.npz", "notes.txt"])
@pytest.mark.parametrize("folder", ["r", "r.partial"])
def test_files_of_others_are_never_removed_with_a_result(tmp_path, name, folder):
    attempted(tmp_path / "r")
    if folder != "r":
        (tmp_path / "r").rename(tmp_path / folder)
    (tmp_path / folder / name).write_text("mine")
    with pytest.raises(MarcError, match=name):
        attempted(tmp_path / "r", 2.0, force=True)
    assert (tmp_path / folder / name).read_text() == "mine"


def test_a_result_behind_a_link_is_replaced_where_it_is(tmp_path):
    attempted(tmp_path / "disk" / "r")
    (tmp_path / "r").symlink_to(tmp_path / "disk" / "r")
    for weight in (2.0, 3.0):
        attempted(tmp_path / "r", weight, force=True)
    assert (tmp_path / "r").is_symlink()
    assert marc.load_run(tmp_path / "disk" / "r")[0].method["weight"] == 3.0
    assert {each.name for each in (tmp_path / "disk").iterdir()} == {"r"}


def test_what_a_link_beside_a_result_leads_to_is_left_alone(tmp_path):
    kept = attempted(tmp_path / "kept")
    (tmp_path / "r.partial").symlink_to(kept)
    with pytest.raises(MarcError, match="link"):
        attempted(tmp_path / "r", 2.0)
    assert marc.load_run(kept)[0].method["weight"] == 10.0


@pytest.mark.parametrize("damage", ["gone", "empty", "noise"])
def test_a_result_that_lost_its_configuration_is_computed_again_by_force_alone(tmp_path, damage):
    path = attempted(tmp_path / "r")
    (path / "config.json").unlink()
    if damage != "gone":
        (path / "config.json").write_text("" if damage == "empty" else "{")
    with pytest.raises(MarcError, match="--force"):
        attempted(path)
    attempted(path, force=True)
    assert marc.load_run(path)[0].method["weight"] == 10.0


@pytest.mark.parametrize("file", ["log.jsonl", "config.json.abc.new"])
def test_a_pipe_in_an_unfinished_result_makes_nobody_wait(tmp_path, file):
    path = attempted(tmp_path / "r").rename(tmp_path / "r.partial")
    (path / file).unlink(missing_ok=True)
    os.mkfifo(path / file)
    with pytest.raises((MarcError, OSError)):
        attempted(tmp_path / "r")


def test_a_file_that_gets_its_last_name_meanwhile_is_nobody_elses(tmp_path, monkeypatch):
    part = tmp_path / "order-0.part.npz.0123.new"
    monkeypatch.setattr(folder.Path, "iterdir", lambda _: iter([part]))
    assert folder._strangers(tmp_path) == []
    part.mkdir()
    assert folder._strangers(tmp_path) == [part.name]
