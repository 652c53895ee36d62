"""What nobody foresaw ends in one line and a log; what is printed obeys nobody but us."""

import warnings
from pathlib import Path

import pytest
from helpers.commands import call

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
    "error", [KeyError("seeds"), RecursionError("too deep"), MemoryError(), TypeError("x" * 5000)]
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
