"""Bad use: status 2, an error with what came and what is allowed, and nothing left behind."""

import json

import pytest
from helpers.commands import call, call_outside, tree

from marc.cli import app

RUN = {
    "a missing file": (["--space", "classes"], "nothing.npz", "no such feature pack"),
    "an unknown space": (["--space", "nonsense"], "nonsense", "classes, both, styles, noise"),
    "an unknown transform": (["--space", "classes+bend"], "bend", "center, pca, random, whiten"),
    "no space of several": (["--method", "marc"], "no --space", "classes, both, styles, noise"),
    "a negative capacity": (["--space", "classes", "--capacity", "-1"], "-1", ">= 0"),
    "a fractional capacity": (["--space", "classes", "--capacity", "1.5"], "--capacity", "integer"),
    "a negative weight": (["--space", "classes", "--weight", "-1"], "-1", ">= 0"),
    "a weight that is no number": (["--space", "classes", "--weight", "nan"], "nan", "finite"),
    "an infinite weight": (["--space", "classes", "--weight", "inf"], "inf", "finite"),
    "repeated seeds": (["--space", "classes", "--seed", "0", "1", "0"], "[0, 1, 0]", "distinct"),
    "a negative seed": (["--space", "classes", "--seed", "-1"], "-1", ">= 0"),
    "too many views": (["--space", "classes", "--views", "3"], "3", "1 to 2"),
    "negative views": (["--space", "classes", "--views", "-1"], "-1", ">="),
    "an unknown policy": (["--space", "classes", "--policy", "lru"], "lru", "entropy, fifo"),
    "an unknown method": (["--method", "tdaa"], "tdaa", "class-means, cocoop"),
    "several spaces for one": (
        ["--method", "marc", "--space", "classes", "styles"],
        "classes, styles",
        "--method class-means",
    ),
    "a space twice": (["--space", "classes", "classes"], "classes, classes", "--space a b"),
    "an unknown setting": (["--space", "classes", "--set", "gama=1"], "gama", "gamma"),
    "the method's name as a setting": (["--space", "classes", "--set", "name=x"], "name", "gamma"),
    "a setting without a value": (["--space", "classes", "--set", "gamma"], "gamma", "name=value"),
    "a setting without a name": (["--space", "classes", "--set", "=1"], "=1", "name=value"),
    "a setting that is no number": (["--space", "classes", "--set", "gamma=x"], "x", "finite"),
    "a switch that is neither": (["--space", "classes", "--set", "use_base=no"], "no", "true"),
    "an unknown option": (["--space", "classes", "--nonsense"], "--nonsense", "--help"),
    "a word too many": (["--method", "marc", "extra"], "extra", "--help"),
    "an existing file": (["--space", "classes", "-o", "file"], "file", "-o FOLDER"),
    "a foreign folder": (["--space", "classes", "-o", "foreign"], "foreign", "-o FOLDER"),
    "a foreign folder, forced": (
        ["--space", "classes", "-o", "foreign", "--force"],
        "foreign",
        "-o FOLDER",
    ),
    "a folder without a name": (["--space", "classes", "-o", "."], ".", "-o FOLDER"),
}
SWEEP = {
    "a missing file": ([], "nothing.npz", "no such feature pack"),
    "an unlabelled pack": ([], "no labels", "marc run"),
    "an unknown space": (["--space", "nonsense"], "nonsense", "classes, both, styles, noise"),
    "an unknown transform": (["--space", "classes+bend"], "bend", "center, pca, random, whiten"),
    "a repeated space": (["--space", "classes", "classes"], "classes", ""),
    "a negative capacity": (["--capacity", "-1"], "-1", ">= 1"),
    "descending capacities": (["--capacity", "4", "2"], "(4, 2)", "ascending"),
    "repeated capacities": (["--capacity", "4", "4"], "(4, 4)", "ascending"),
    "a negative weight": (["--weight", "-1"], "-1", ">= 0"),
    "a weight that is no number": (["--weight", "nan"], "nan", "finite"),
    "an infinite weight": (["--weight", "1", "inf"], "inf", "finite"),
    "descending weights": (["--weight", "4", "2"], "(4.0, 2.0)", "ascending"),
    "repeated seeds": (["--seed", "0", "1", "0"], "[0, 1, 0]", "distinct"),
    "too many views": (["--views", "3"], "3", "1 to 2"),
    "an unknown policy": (["--policy", "lru"], "lru", "entropy, fifo"),
    "a policy that cannot be swept": (["--policy", "retrieval_aware"], "retrieval_aware", "run"),
    "a missing held-out folder": (["--held-out", "nothing"], "nothing", "marc sweep"),
    "a foreign held-out folder": (["--held-out", "foreign"], "foreign", "marc sweep"),
    "an unknown option": (["--nonsense"], "--nonsense", "--help"),
    "an existing file": (["-o", "file"], "file", "-o FOLDER"),
    "a foreign folder": (["-o", "foreign"], "foreign", "-o FOLDER"),
    "a foreign folder, forced": (["-o", "foreign", "--force"], "foreign", "-o FOLDER"),
    "a folder without a name": (["-o", "."], ".", "-o FOLDER"),
}
OTHERS = {
    "compare nothing": (["compare"], "runs", "--help"),
    "compare one folder": (["compare", "foreign"], "foreign", "marc run"),
    "compare foreign folders": (["compare", "foreign", "file"], "foreign", "marc run"),
    "compare with an unknown option": (["compare", "a", "b", "--nonsense"], "--nonsense", "--help"),
    "list nothing": (["list"], "what", "--help"),
    "list an unknown kind": (["list", "metods"], "metods", "encoders, experiments, methods"),
    "list the card of an unknown method": (["list", "methods", "--card", "x"], "'x'", "marc"),
    "list with an unknown option": (["list", "methods", "--nonsense"], "--nonsense", "--help"),
    "demo into a file": (["demo", "-o", "file"], "file", ""),
    "demo with an unknown option": (["demo", "--nonsense"], "--nonsense", "--help"),
    "an unknown command": (["swep"], "swep", "--help"),
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a person's own files in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("mine")
    return tmp_path


def assert_refused(place, words, came, allowed):
    before = tree(place)
    outcome = call(*words)
    assert outcome.status == 2
    assert came in outcome.err
    assert allowed in outcome.err
    assert "Traceback" not in outcome.err
    assert tree(place) == before


def source_for(case, sources):
    if case == "a missing file":
        return "arrays/nothing.npz"
    return sources["unlabelled" if case == "an unlabelled pack" else "labelled"]


@pytest.mark.parametrize("case", RUN)
def test_run_refuses(sources, place, case):
    words, came, allowed = RUN[case]
    assert_refused(place, ["run", source_for(case, sources), *words], came, allowed)


@pytest.mark.parametrize("case", SWEEP)
def test_sweep_refuses(sources, place, case):
    words, came, allowed = SWEEP[case]
    assert_refused(place, ["sweep", source_for(case, sources), *words], came, allowed)


@pytest.mark.parametrize("case", OTHERS)
def test_other_commands_refuse(place, case):
    words, came, allowed = OTHERS[case]
    assert_refused(place, words, came, allowed)


@pytest.mark.parametrize("verb", ["run", "sweep"])
@pytest.mark.parametrize(
    ("source", "came", "hint"),
    [
        ("pack.npz", "pack.npz", "ls ."),
        ("/nowhere/pack.npz", "/nowhere/pack.npz", "no such feature pack"),
        ("nonsense/x", "nonsense", "arrays/FILE.npz"),
        ("arrays/", "arrays/", "arrays/FILE.npz"),
    ],
)
def test_a_source_of_no_known_type_is_refused_with_the_way_to_write_it(
    place, verb, source, came, hint
):
    assert_refused(place, [verb, source], came, hint)


def test_a_file_that_is_no_pack_is_refused_with_the_keys_of_one(place):
    assert_refused(place, ["run", "arrays/file"], "file", "predictor/prototypes (C, D)")


def test_bad_use_in_a_process_of_its_own_has_status_2_and_a_clean_output(sources, place):
    outcome = call_outside("run", sources["labelled"], "--space", "none", "--json", cwd=place)
    assert outcome.status == 2
    told = json.loads(outcome.out)
    assert (told["schema"], told["kind"]) == (1, "error")
    assert set(told["error"]) == {"problem", "got", "allowed", "hint"}
    assert told["error"]["problem"] in outcome.err
    assert outcome.err.startswith("error: ")
    assert "\x1b" not in outcome.err


@pytest.mark.parametrize("output", ["/proc/nothing/out", "file/below"])
def test_what_the_system_refuses_has_status_1_and_no_traceback(sources, place, output):
    before = tree(place)
    outcome = call(
        "run", sources["labelled"], "--method", "marc", "--space", "classes", "-o", output
    )
    assert outcome.status == 1
    assert output.rpartition("/")[0] in outcome.err
    assert tree(place) == before


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_a_dry_run_says_where_it_would_write_and_writes_nothing(sources, place, verb):
    before = tree(place)
    words = [verb, sources["labelled"], "--space", "classes", "-o", "out"]
    outcome = call(*words, "--dry-run")
    assert outcome.status == 0
    assert "out" in outcome.out
    assert tree(place) == before


def test_bad_use_of_an_option_is_an_object_too(place):
    outcome = call("run", "x", "--nonsense", "--json")
    assert outcome.status == 2
    assert "--nonsense" in json.loads(outcome.out)["error"]["problem"]
    assert "--nonsense" in outcome.err


@pytest.mark.parametrize(
    "words", [["list", "policies"], ["select", "lab/sketch-12", "--space", "pixels"]]
)
def test_quietly_a_result_that_lies_nowhere_is_still_printed(words):
    outcome = call("-q", *words)
    assert outcome.status == 0
    assert outcome.out


def test_no_line_of_a_piped_table_ends_in_blanks():
    assert not [line for line in call("list", "methods").out.splitlines() if line.endswith(" ")]


def test_quietly_only_the_place_of_a_result_is_said(sources, place):
    words = ["run", sources["labelled"], "--space", "classes", "-o", "out"]
    assert call(*words, "--quiet")[:2] == call("-q", *words)[:2] == (0, "out\n")


def test_verbosely_times_are_said(sources, place):
    words = ["sweep", sources["labelled"], "--space", "classes", "-o", "out"]
    assert "time: " in call(*words, "-v").err
    assert "time: " not in call(*words, "--force").err


@pytest.mark.parametrize("command", sorted(app._COMMANDS))
def test_every_command_has_json_and_an_example(command):
    shown = call(command, "--help").out
    assert "--json" in shown
    assert f"Example:  marc {command} " in shown
