"""The demo from end to end, as `make demo` runs it, and the page that it leaves."""

import json
import os
import re
import shlex

import pytest
from helpers.commands import call, call_json, call_outside

from marc_lab.demo import _another

LONGEST = 120  # seconds of computing: on a busy machine the clock says nothing
FIRST = "demo/sketch-12/first"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    before = os.times()
    outcome = call_outside("demo", cwd=folder)
    after = os.times()
    spent = after.children_user - before.children_user
    return folder, outcome, spent + after.children_system - before.children_system


def test_the_demo_ends_in_time(demo):
    folder, outcome, seconds = demo
    assert outcome.status == 0, outcome.err
    assert seconds < LONGEST
    assert (folder / "demo/sketch-12/report.html").is_file()


def test_the_gain_is_told_with_its_interval_and_its_baseline(demo):
    folder, outcome, _ = demo
    metrics = json.loads((folder / FIRST / "metrics.json").read_text())
    low, high = metrics["gain_interval"]
    assert 0.05 < low < metrics["gain"] < high
    end = outcome.out[outcome.out.rindex("Without memory") :]
    for number in (metrics["base_accuracy"], metrics["accuracy"]):
        assert f"{100 * number:.2f} %" in end
    assert f"gain {100 * metrics['gain']:+.2f} points [{100 * low:+.2f}, {100 * high:+.2f}]" in end
    assert "fixed" in end
    assert "demo/sketch-12/report.html" in end


def test_the_same_memory_ruins_in_another_space(demo):
    metrics = json.loads((demo[0] / "demo/sketch-12/last/metrics.json").read_text())
    assert metrics["gain_interval"][1] < -0.2
    unbelieved = json.loads((demo[0] / "demo/sketch-12/unbelieved/metrics.json").read_text())
    assert unbelieved["gain"] > -0.003  # class means leave such a space alone
    means = json.loads((demo[0] / "demo/sketch-12/means/metrics.json").read_text())
    assert means["gain_interval"][0] > 0.03  # and need no choice of a space


def test_it_says_what_a_laboratory_cannot_show(demo):
    folder, outcome, _ = demo
    page = (folder / "demo/sketch-12/report.html").read_text()
    assert "A laboratory in miniature" in outcome.out
    assert "A laboratory in miniature" in page


def test_the_commands_that_it_prints_can_be_typed(demo, monkeypatch):
    folder, outcome, _ = demo
    monkeypatch.chdir(folder)
    commands = re.findall(r"^\$ marc (.+)$", outcome.out, flags=re.M)
    assert [line.split()[0] for line in commands] == [
        *("select", "run", "run", "run", "compare", "run"),
        *("geometry", "sweep", "sweep", "report"),
    ]
    for line in commands:
        again = call(*shlex.split(line))
        assert again.status == 0, line
        assert again.out.splitlines()[1] in outcome.out, line


def test_a_machine_is_given_the_numbers_alone(demo, monkeypatch):
    monkeypatch.chdir(demo[0])
    told = call_json("demo")
    metrics = json.loads((demo[0] / FIRST / "metrics.json").read_text())
    [run] = [each for each in told["runs"] if each["folder"] == FIRST]
    assert (run["gain"], run["base_accuracy"]) == (metrics["gain"], metrics["base_accuracy"])
    assert run["selection"] == "fixed"
    assert (demo[0] / told["page"]).is_file()


def test_a_second_demo_keeps_what_is_there(demo):
    folder, _, _ = demo
    again = call_outside("demo", cwd=folder)
    assert again.status == 0
    assert f"already there: {FIRST}" in again.out


@pytest.mark.parametrize(
    ("name", "other"), [("sketch-12", "neon-12"), ("neon", "sketch"), ("mixed-12", "sketch-12")]
)
def test_settings_are_chosen_on_another_stream_of_the_same_size(name, other):
    assert _another(name) == other


def test_a_demo_of_other_pictures_is_made_anew(demo):
    folder, _, _ = demo
    config = folder / FIRST / "config.json"
    changed = json.loads(config.read_text())
    changed["fingerprint"] = {name: "other" for name in changed["fingerprint"]}
    config.write_text(json.dumps(changed))
    again = call_outside("demo", cwd=folder)
    assert again.status == 0, again.err
    assert f"written: {FIRST}" in again.out


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_folder_that_cannot_be_is_refused_before_any_work(tmp_path, place):
    (tmp_path / "file").write_text("")
    outcome = call("demo", "-o", tmp_path / place)
    assert outcome.status == 2
    assert "-o FOLDER" in outcome.err
    assert outcome.out == ""


def test_a_quick_demo_of_another_stream(tmp_path):
    outcome = call("demo", "--stream", "neon-12", "--quick", "-o", tmp_path / "elsewhere")
    assert outcome.status == 0, outcome.err
    assert (tmp_path / "elsewhere/neon-12-quick/report.html").is_file()
    assert "seed 1" not in outcome.out
