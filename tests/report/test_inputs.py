"""Runs, sweeps and held-out sweeps that fit together, or are refused."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.commands import call, tree
from helpers.report_pages import Page, make_stream

import marc
from marc import MarcError


def source_of(results):
    return f"arrays/{results['run'].parent}/small.npz"


def run(results, path, *seeds):
    setting = ["--space", "both", "--capacity", "4", "--weight", "7", "--seed", *seeds]
    assert call("run", source_of(results), *setting, "-o", path).status == 0
    return path


def fixed_gain_in_the_table(page):
    """The row of the run's space at w = 7 in the table of gain against w."""
    words = Page(page.path.read_text("utf-8")).words
    return words[words.index("Every weight") :]


def test_a_page_tells_of_the_orders_of_the_run_alone(results, tmp_path):
    single = run(results, tmp_path / "one", "1")
    both = marc.report(single, results["sweep"], output=tmp_path / "both.html")
    alone = marc.report(single, output=tmp_path / "alone.html")
    assert both.story.text == alone.story.text
    sweep = marc.sweep(marc.load_stream(source_of(results)), ["both"], seeds=(1,))
    gain = sweep.fixed("both", 4, 7.0).gain
    assert f"{100 * gain:+.2f}" in both.story.text.replace("−", "-")
    assert "one order" in fixed_gain_in_the_table(both)


def test_an_order_that_the_sweep_lacks_is_refused(results, tmp_path):
    other = run(results, tmp_path / "five", "5")
    with pytest.raises(MarcError, match="does not hold the run's seeds"):
        marc.report(other, results["sweep"], output=tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_a_run_alone_may_have_its_weight_chosen_elsewhere(results, tmp_path):
    page = marc.report(results["run"], output=tmp_path / "page.html", held_out=[results["other"]])
    assert "held-out" in page.story.text


def test_another_held_out_sweep_makes_another_page(results, tmp_path):
    folders, page = [results["run"], results["sweep"]], tmp_path / "page.html"
    first = marc.report(*folders, output=page, held_out=[results["other"]])
    assert marc.report(*folders, output=page, held_out=[results["other"]]).was_there
    source = f"arrays/{results['run'].parent}/other.npz"
    assert call("sweep", source, "--seed", "7", "-o", tmp_path / "seven").status == 0
    with pytest.raises(MarcError, match="another report"):
        marc.report(*folders, output=page, held_out=[tmp_path / "seven"])
    assert first.path.is_file()


def test_a_source_with_fewer_views_has_changed(results, tmp_path):
    pack = tmp_path / "pack.npz"
    marc.write_pack(make_stream(), pack)
    words = ["run", f"arrays/{pack}", "--method", "marc", "--space", "both", "-o", tmp_path / "run"]
    assert call(*words).status == 0
    stream = make_stream()
    fewer = replace(stream, features=replace(stream.features, views=stream.features.views[:, :1]))
    marc.write_pack(fewer, pack)
    with pytest.raises(MarcError, match="the source has changed"):
        marc.report(tmp_path / "run", output=tmp_path / "page.html")


def test_what_is_not_a_plain_file_is_left_alone(results):
    with pytest.raises(MarcError, match="plain file"):
        marc.report(results["run"], output="/dev/full")


def test_a_sweep_of_some_orders_is_that_sweep(results):
    stream = marc.load_stream(source_of(results))
    whole = marc.sweep(stream, seeds=(0, 1, 2))
    part = whole.of_orders((2, 0))
    assert part.seeds == (2, 0)
    assert np.array_equal(part.accuracy, whole.accuracy[..., [2, 0]])
    with pytest.raises(MarcError, match="no such order"):
        whole.of_orders((3,))


@pytest.mark.parametrize("force", [False, True])
def test_a_file_that_is_not_a_report_is_left_alone(results, tmp_path, force):
    path = tmp_path / "thesis.html"
    path.write_text("mine")
    with pytest.raises(MarcError, match="left alone"):
        marc.report(results["run"], output=path, force=force)
    assert path.read_text() == "mine"
    with pytest.raises(MarcError, match="one file"):
        marc.report(results["run"], output=tmp_path, force=force)


REFUSED = {
    "nothing": ([], "one run, one sweep"),
    "two runs": (["run", "sharp"], "one run, one sweep"),
    "no result": (["."], "no finished run or sweep"),
    "no memory": (["none"], "no memory to show"),
    "a sweep of another method": (["means", "sweep"], "beside a run of marc"),
    "a sweep of other weights": (["learned", "sweep"], "weight auto"),
    "another stream": (["run", "other"], "not of the same stream"),
    "another memory": (["sharp", "sweep"], "not of the same memory"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_folders_are_refused(results, tmp_path, case):
    names, message = REFUSED[case]
    with pytest.raises(MarcError, match=message):
        marc.report(*(results.get(name, tmp_path) for name in names), output=tmp_path / "page.html")
    assert tree(tmp_path) == {}


def test_a_source_that_changed_is_refused(results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    marc.write_pack(make_stream(), "pack.npz")
    words = ["--method", "marc", "--space", "both", "--seed", "0", "-o", "run"]
    assert call("run", "arrays/pack.npz", *words).status == 0
    labels = np.roll(make_stream().row_labels, 1)
    marc.write_pack(make_stream(row_labels=labels), "pack.npz")
    with pytest.raises(MarcError, match=r"has changed(.|\n)*other labels"):
        marc.report("run", output="page.html")
    (tmp_path / "pack.npz").unlink()
    with pytest.raises(MarcError, match=r"cannot be opened(.|\n)*where marc run was called"):
        marc.report("run", output="page.html")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"against": "both"}, "the method's own"),
        ({"against": "nowhere"}, "no space 'nowhere'"),
        ({"n_queries": 0}, "queries"),
        ({"held_out": ["sweep"]}, "other images"),
        ({"held_out": ["run"]}, "not a sweep"),
    ],
)
def test_wrong_options_are_refused(results, tmp_path, options, message):
    if "held_out" in options:
        options = {"held_out": [results[name] for name in options["held_out"]]}
    with pytest.raises(MarcError, match=message):
        marc.report(results["run"], output=tmp_path / "page.html", **options)
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("option", ["against", "held_out"])
def test_other_spaces_and_weights_are_of_a_memory_at_one_weight(results, tmp_path, option):
    value = "both" if option == "against" else [results["other"]]
    with pytest.raises(MarcError, match="beside other spaces and weights"):
        marc.report(results["means"], output=tmp_path / "page.html", **{option: value})
    assert tree(tmp_path) == {}


def test_a_run_in_the_stored_order_has_a_page(results, tmp_path):
    words = ["--space", "both", "--capacity", "4", "--weight", "7", "--in-order"]
    assert call("run", source_of(results), *words, "-o", tmp_path / "run").status == 0
    assert call("sweep", source_of(results), "--in-order", "-o", tmp_path / "sweep").status == 0
    both = marc.report(tmp_path / "run", tmp_path / "sweep", output=tmp_path / "both.html")
    alone = marc.report(tmp_path / "run", output=tmp_path / "alone.html")
    assert both.story.text == alone.story.text
    assert "first order (as stored)" in Page(both.path.read_text("utf-8")).words
    assert marc.report(tmp_path / "sweep", output=tmp_path / "sweep.html").story is not None
