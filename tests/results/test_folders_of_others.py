"""Files and results of others in the place of a result."""

import pytest
from helpers.commands import call, tree


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
