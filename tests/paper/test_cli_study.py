"""`marc study` as a person calls it, on tiny packs."""

import json

import pytest
from helpers.commands import call, call_json, tree
from helpers.studies import PLAN, tiny_stream

from marc.errors import MarcError
from marc.sources.pack import write_pack
from marc_paper.cli import study_command
from marc_paper.cli.study_command import _chosen_experiments
from marc_paper.study.experiments import EXPERIMENTS
from marc_paper.study.work import Experiment


def as_toml(data, prefix=""):
    """Nested tables as TOML; JSON's texts, numbers and lists are TOML's."""
    plain = {name: value for name, value in data.items() if not isinstance(value, dict)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in plain.items()]
    for name, value in data.items():
        if isinstance(value, dict):
            lines += [f"[{prefix}{name}]", as_toml(value, f"{prefix}{name}.")]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    data = json.loads(json.dumps(PLAN))
    for seed, (name, entry) in enumerate(data["streams"].items()):
        write_pack(tiny_stream(name, seed), folder / f"{name}.npz")
        entry["source"] = f"arrays/{folder / name}.npz"
    (folder / "tiny.toml").write_text(as_toml(data))
    return folder / "tiny.toml"


@pytest.fixture(scope="module")
def made(plan, tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "study"
    return path, call("study", plan, "--only", "spaces", "capacity", "-o", path)


def test_it_says_what_it_made_and_where_to_look(made):
    path, outcome = made
    assert outcome.status == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0].startswith("spaces")
    assert lines[0].endswith("Every space with the same memory")
    assert "2 experiments: 2 made; this took" in lines[-2]
    assert lines[-1] == f"open {path / 'index.html'} in a browser"
    assert (path / "index.html").is_file()


def test_again_nothing_is_made(plan, made):
    path, _ = made
    before = tree(path)
    data = call_json("study", plan, "--only", "spaces", "capacity", "-o", path)
    assert [each["status"] for each in data["experiments"]] == ["already there"] * 2
    assert data["index"] == str(path / "index.html")
    assert tree(path) == before


def test_a_dry_run_says_what_it_would_do_and_does_nothing(plan, made, tmp_path):
    path, _ = made
    outcome = call("study", plan, "--dry-run", "-o", tmp_path / "none")
    assert outcome.status == 0, outcome.err
    for experiment in EXPERIMENTS:
        assert experiment.name in outcome.out
    assert "in all about" in outcome.out
    assert not (tmp_path / "none").exists()
    before = tree(path)
    data = call_json("study", plan, "--dry-run", "--only", "spaces", "capacity", "-o", path)
    assert [each["status"] for each in data["experiments"]] == ["already there"] * 2
    assert data["seconds"] == 0
    fresh = call_json("study", plan, "--dry-run", "--only", "spaces", "capacity", "-o", "none")
    assert [each["pieces"] for each in fresh["experiments"]] == [24, 0]  # shared work counts once
    assert fresh["seconds"] > 0
    assert tree(path) == before


def test_a_dry_run_says_what_the_run_would_say(plan, made, tmp_path):
    path, _ = made
    words = ["--dry-run", "--only", "spaces", "-o", path]
    data = call_json("study", plan, "--force", *words)
    assert [each["status"] for each in data["experiments"]] == ["to be made"]
    other = plan.read_text().replace("batches = 8", "batches = 9")
    (tmp_path / "other.toml").write_text(other)
    outcome = call("study", tmp_path / "other.toml", *words)
    assert outcome.status == 2
    assert "draws.batches" in outcome.err


def test_what_fails_is_told_and_the_status_says_so(plan, tmp_path, monkeypatch):
    def fail(work):
        raise MarcError("it cannot be", hint="leave it")

    failing = Experiment("failing", "It fails", (), fail, lambda plan: [])
    monkeypatch.setattr(study_command, "EXPERIMENTS", (failing, *EXPERIMENTS))
    outcome = call("study", plan, "--only", "spaces", "failing", "-o", tmp_path / "study")
    assert outcome.status == 1
    assert "failing              failed: it cannot be" in outcome.out
    assert "2 experiments: 1 failed, 1 made" in outcome.out


def test_the_lab_is_foreseen_without_being_drawn(monkeypatch, tmp_path):
    monkeypatch.setenv("MARC_CACHE", str(tmp_path / "cache"))
    data = call_json("study", "--lab", "--dry-run", "-o", tmp_path / "none")
    assert data["seconds_of_features"] > 0
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a study needs one plan"),
        (["PLAN", "--lab"], "a study needs one plan"),
        (["PLAN", "--quick"], "--quick belongs to --lab"),
        (["nowhere.toml"], "there is no such plan"),
        (["PLAN", "--only", "spcaes"], "unknown experiment"),
    ],
)
def test_bad_use_is_told_and_writes_nothing(plan, tmp_path, words, message):
    words = [plan if word == "PLAN" else word for word in words]
    outcome = call("study", *words, "-o", tmp_path / "study")
    assert outcome.status == 2
    assert message in outcome.err
    assert not (tmp_path / "study").exists()


def test_a_typo_in_a_plan_names_the_key(plan, tmp_path):
    (tmp_path / "typo.toml").write_text(plan.read_text().replace("capacities", "capacites"))
    outcome = call("study", tmp_path / "typo.toml", "-o", tmp_path / "study")
    assert outcome.status == 2
    assert "capacites" in outcome.err
    assert "capacities" in outcome.err
    assert not (tmp_path / "study").exists()


def test_experiments_keep_the_order_of_the_paper():
    last, first = EXPERIMENTS[2].name, EXPERIMENTS[0].name
    assert [each.name for each in _chosen_experiments([last, first])] == [first, last]
