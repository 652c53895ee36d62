"""What nobody foresaw ends in one line and a log; what is printed obeys nobody but us."""

import os
import shutil
import warnings
from pathlib import Path

import pytest
from helpers.commands import PAPER, call

import marc
from marc.cli import app, console


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A command that fails with an error that is not ours; logs go below `tmp_path`."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def fails(error):
        def command(*_, **__):
            raise error

        monkeypatch.setattr(app, "_app", command)

    return fails


@pytest.mark.parametrize(
    "error", [KeyError("seeds"), RecursionError("too deep"), TypeError("x" * 5000)]
)
def test_an_unforeseen_error_is_told_in_short_with_the_place_of_a_log(broken, tmp_path, error):
    broken(error)
    outcome = call("run", "lab/sketch-12", "caf\udce9")
    assert outcome.status == 1
    assert "Traceback" not in outcome.err
    assert len(outcome.err) < 800
    (log,) = (tmp_path / "state").rglob("*.log")
    assert str(log) in outcome.err
    text = log.read_text()
    assert "marc 'run' 'lab/sketch-12' 'caf\\udce9'" in text
    assert "Traceback" in text
    assert type(error).__name__ in text


def test_a_log_goes_elsewhere_where_the_usual_folder_cannot_be_written(broken, tmp_path):
    (tmp_path / "state").write_text("a file, no folder")
    broken(KeyError("seeds"))
    outcome = call("run", "lab/sketch-12")
    place = Path(outcome.err.split("report with ")[1].strip())
    assert "KeyError" in place.read_text()
    place.unlink()


def test_a_refusal_of_the_system_is_no_bug(broken):
    broken(OSError(28, "No space left on device"))
    outcome = call("run", "lab/sketch-12")
    assert outcome.status == 1
    assert "the system refused: [Errno 28] No space left on device" in outcome.err


@pytest.mark.parametrize("error", [MemoryError(), MemoryError("Unable to allocate 2.00 TiB")])
def test_too_little_memory_is_no_bug(broken, error):
    broken(error)
    outcome = call("run", "lab/sketch-12")
    assert outcome.status == 1
    assert outcome.err == f"error: the system refused: {str(error) or 'MemoryError'}.\n"


def test_an_argument_with_a_null_character_is_refused():
    outcome = call("run", "lab/sketch-12", "-o", "a\0b")
    assert outcome.status == 2
    assert "characters that no name of a file can have" in outcome.err


def test_a_warning_is_a_note(broken, monkeypatch):
    monkeypatch.setattr(app, "_app", lambda *_, **__: warnings.warn("mind this", stacklevel=1))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert call("run").err == "note: mind this\n"


HOSTILE = "a\x1b[31mb\x07\x9bc\r\x7f\u202ed\udce9"
SPELLED = "a\\x1b[31mb\\x07\\x9bc\\r\\x7f\\u202ed\\udce9"


def test_names_with_escape_codes_are_spelled_out(capsys):
    console.say(f"found {HOSTILE}")
    console.table(["name", HOSTILE], [["x", f"[bold]{HOSTILE}"]])
    out = capsys.readouterr().out
    assert out.count(SPELLED) == 3
    assert not {"\x1b", "\x07", "\x9b", "\r", "\x7f", "\u202e", "\udce9"} & set(out)


def test_ordinary_letters_of_all_the_world_stay(capsys):
    console.say("café 写真 фото A\nB 👩‍🚀")
    assert capsys.readouterr().out == "café 写真 фото A\nB 👩‍🚀\n"


def test_an_error_about_a_hostile_path_is_spelled_out():
    outcome = call("run", f"arrays/{HOSTILE}.npz")
    assert outcome.status == 2
    assert f"{SPELLED}.npz" in outcome.err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("run", *PAPER, "--seed", "0", 10**24), "seed"),
        (("sweep", "--seed", "0", 2**63), "seed"),
        (("geometry", "--replicates", 2**31), "n_replicates"),
        (("select", "--replicates", 2**63), "n_replicates"),
        (("run", *PAPER, "--weight", "1e308"), "weight"),
        (("run", *PAPER, "--views", 2**63), "views"),
        (("run", "--method", "oga", "--capacity", 2**31), "capacity"),
        (("run", "--method", "shot-pl", "--set", f"rounds={2**31}"), "rounds"),
    ],
)
def test_what_no_machine_can_do_is_refused_before_the_work(sources, tmp_path, words, name):
    command, *rest = words
    out = [] if command in ("geometry", "select") else ["-o", tmp_path / "out"]
    outcome = call(command, sources["labelled"], *rest, *out)
    assert outcome.status == 2, outcome
    assert name in outcome.err
    assert not [*tmp_path.iterdir()]


def test_a_capacity_beyond_the_stream_is_as_good_as_one_of_its_size(sources, tmp_path):
    for capacity in (200, 2**31):
        out = tmp_path / str(capacity)
        words = ("--capacity", capacity, "--seed", "0", "-o", out)
        assert call("run", sources["labelled"], *PAPER, *words).status == 0
    few, many = (marc.load_run(tmp_path / str(size))[0] for size in (200, 2**31))
    assert few.predictions.tolist() == many.predictions.tolist()


def test_the_current_folder_may_be_no_result(sources, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = call("sweep", sources["labelled"], "--held-out", ".", "-o", "out")
    assert outcome.status == 2
    assert "there is no finished sweep here" in outcome.err


def test_names_of_no_encoding_and_names_that_command_go_through_every_verb(
    sources, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"caf\xe9\x1b[2J")
    shutil.copy(sources["labelled"].removeprefix("arrays/"), f"{name}.npz")
    source, run, sweep = f"arrays/{name}.npz", f"run-{name}", f"sweep-{name}"
    for words in (
        ("run", source, *PAPER, "-o", run),
        ("run", source, *PAPER, "-o", run, "--json"),
        ("sweep", source, "--space", "classes", "-o", sweep),
        ("geometry", source, "--replicates", "2", "--details"),
        ("select", source, "--replicates", "2"),
        ("compare", run, run, "-o", f"{name}.csv", "--images"),
        ("judge", run, "--audit", "3", "-o", f"audit-{name}.csv"),
        ("report", run, sweep, "-o", f"{name}.html"),
    ):
        outcome = call(*words)
        assert outcome.status == 0, outcome.err
        assert "\x1b[2J" not in outcome.out + outcome.err
