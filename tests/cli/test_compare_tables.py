"""Many runs in one table: who is the reference, and what may be missing."""

import pytest
from helpers.commands import call


@pytest.fixture
def run(sources, tmp_path, monkeypatch):
    """A finished run in the folder NAME."""
    monkeypatch.chdir(tmp_path)

    def finish(name, *words):
        marc = () if "--method" in words else ("--method", "marc")
        outcome = call("run", sources["labelled"], *marc, *words, "-o", name)
        assert outcome.status == 0, outcome.err

    return finish


def test_of_many_runs_the_only_one_of_marc_is_the_reference(run, tmp_path):
    run("a", "--method", "no-memory")
    run("b", "--space", "classes")
    run("c", "--method", "zero-shot")
    run("d", "--space", "styles")
    assert "vs b (marc)" in call("compare", "a", "b", "c").out
    assert "vs a (no-memory)" in call("compare", "a", "b").out
    assert "vs a (no-memory)" in call("compare", "a", "b", "c", "d").out  # two of MARC: the first
    assert "vs d (marc)" in call("compare", "a", "b", "c", "d", "--against", "d").out
    refused = call("compare", "a", "b", "--against", "e")
    assert refused.status == 2
    assert "--against names one of the runs" in refused.err


def test_a_folder_of_runs_is_told_apart_from_a_run(run, tmp_path):
    run("all/a", "--space", "classes")
    run("all/b", "--space", "styles")
    refused = call("compare", "all", "all/a")
    assert refused.status == 2
    assert "try:  marc compare all/*" in refused.err


@pytest.mark.parametrize("content", ["", "{", "[]", '{"images_per_second": "fast"}', "{}"])
def test_a_damaged_timing_is_refused(run, tmp_path, content):
    run("a", "--space", "classes")
    run("b", "--space", "styles")
    (tmp_path / "b/timing.json").write_text(content)
    outcome = call("compare", "a", "b")
    assert outcome.status == 2
    assert "this run is damaged" in outcome.err
    assert "b/timing.json" in outcome.err


def test_fewer_common_orders_are_told(run):
    run("a", "--space", "classes", "--seed", "0", "1")
    run("b", "--space", "styles", "--seed", "1")
    assert "over fewer orders: b (seed 1)" in call("compare", "a", "b").out
