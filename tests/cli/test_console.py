import json
import math
import os
import pty
import re
import subprocess

import pytest
from helpers.commands import MARC, call, call_json, call_outside

import marc
from marc.admission import POLICIES
from marc.cli.console import p_value, points, spread

COMMANDS = ["demo", "geometry", "select", "run", "sweep", "compare", "judge", "report", "export"]
COMMANDS += ["list"]


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_every_help_has_an_example(words):
    outcome = call(*words)
    assert outcome.status == 0
    assert "Example" in outcome.out
    assert outcome.err == ""


def test_the_help_names_every_command():
    assert all(re.search(rf"\b{name}\b", call("--help").out) for name in COMMANDS)


def test_without_words_the_help_is_shown():
    assert "Usage: marc" in call().out


def test_the_version_is_that_of_the_package():
    assert re.fullmatch(r"marc \d+\.\d+\.\d+\n", call("--version").out)


def test_the_method_list_names_all_methods():
    out = call("list", "methods").out
    assert all(name in out for name in marc.list_methods())
    assert "reads, then writes" in out


def test_a_pattern_narrows_the_list_of_methods():
    assert list(call_json("list", "methods", "no*")) == ["no-memory"]
    assert "no-memory" not in call("list", "methods", "marc").out


def test_a_pattern_narrows_the_list_of_policies():
    assert list(call_json("list", "policies", "f*")) == ["fifo"]
    assert "entropy" not in call("list", "policies", "f*").out


def test_a_card_shows_every_setting_with_its_default():
    out = call("list", "methods", "--card", "marc").out
    for name, value in marc.MARC("classes").config().items():
        if name not in ("method", "space"):
            assert re.search(rf"{name}\s+{re.escape(str(value))}\b", out)
    assert re.search(r"space\s+required", out)


def test_the_list_as_json_is_one_object():
    cards = call_json("list", "methods")
    assert set(cards) == set(marc.list_methods())
    assert cards["marc"]["settings"]["capacity"] == 16
    assert cards["marc"]["reads_before_writes"] is True
    assert cards["no-memory"]["settings"] == {}
    assert list(call_json("list", "methods", "--card", "marc")) == ["marc"]
    assert call_json("list", "policies") == {p.name: p.summary for p in POLICIES.values()}


@pytest.mark.parametrize("name", ["runs[a]", "runs[", "a:cat:", "100 %", "[bold]", "é"])
def test_a_path_is_printed_as_it_is(sources, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    words = ["run", sources["labelled"], "--space", "classes", "-o", f"{name}/x"]
    assert call(*words).out.splitlines()[-1] == f"written: {name}/x"
    rows = call("compare", f"{name}/x", f"{name}/x").out.splitlines()
    shown = [row.startswith(f"{name}/x ") for row in rows]
    assert shown.count(True) == 2 + 2 + 3 + 3  # runs, costs, calibration, orders


def test_a_path_that_looks_like_a_closing_tag_is_printed_as_it_is(sources, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = call("run", sources["labelled"], "--space", "classes", "-o", "a[/x]")
    assert outcome.status == 0
    assert outcome.out.splitlines()[-1] == "written: a[/x]"


def in_terminal(words, width, **options):
    """Output and error of a command whose error stream is a terminal."""
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(width), "TERM": "xterm"}
    process = subprocess.Popen(
        [MARC, *words], stdout=subprocess.PIPE, stderr=slave, env=environment, **options
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            shown += os.read(master, 4096)
        except OSError:  # how a terminal says that the other side has gone
            break
    out = process.communicate()[0]
    os.close(master)
    assert process.returncode == 0
    return out.decode(), shown.decode()


@pytest.mark.parametrize("width", [80, 100])
def test_json_stays_clean_while_a_terminal_shows_progress(sources, tmp_path, width):
    words = ["run", sources["labelled"], "--space", "classes", "-o", "out", "--json"]
    out, shown = in_terminal(words, width, cwd=tmp_path)
    assert json.loads(out)["folder"] == "out"
    assert "seed 0" in shown


def test_numbers_are_never_cut_in_a_narrow_terminal(sources, tmp_path):
    words = ["run", sources["labelled"], "--space", "classes", "-o", tmp_path / "out"]
    narrow = call_outside(*words, env={**os.environ, "COLUMNS": "30"})
    wide = call_outside(*words, env={**os.environ, "COLUMNS": "200"})
    assert [line.split() for line in narrow.out.splitlines()[1:-1]] == [
        line.split() for line in wide.out.splitlines()[1:-1]
    ]


def test_values_are_spread_only_over_the_flags_that_take_several():
    assert spread(["run", "s", "--seed", "0", "1"]) == ["run", "s", "--seed", "0", "--seed", "1"]
    once = ["run", "s", "--space", "a", "--seed", "0", "--seed", "1", "--json"]
    assert spread(once) == once
    assert spread(["compare", "a", "b", "c"]) == ["compare", "a", "b", "c"]
    wanted = ["sweep", "--space", "a", "--space", "b", "--held-out", "x", "--held-out", "y"]
    assert spread(["sweep", "--space", "a", "b", "--held-out", "x", "y"]) == wanted
    assert spread([]) == []


def test_a_flag_may_come_without_its_value():
    assert spread(["run", "s", "--track", "-o", "x"]) == ["run", "s", "--track=", "-o", "x"]
    assert spread(["run", "s", "--track"]) == ["run", "s", "--track="]
    assert spread(["run", "s", "--track", "mine"]) == ["run", "s", "--track", "mine"]
    assert spread(["sweep", "--ray", "s"]) == ["sweep", "--ray=", "s"]
    assert spread(["study", "--ray", "2", "--lab"]) == ["study", "--ray", "2", "--lab"]
    assert spread(["embed", "s", "--ray"]) == ["embed", "s", "--ray"]  # a flag there


def test_points_that_round_to_zero_have_no_minus():
    assert [points(value) for value in (-1e-9, 0.0, -0.0123)] == ["+0.00", "+0.00", "-1.23"]


@pytest.mark.parametrize("value", [1.0, 0.5, 0.0123, 0.000456, 7.77e-13, 2.5e-299])
def test_a_p_value_has_two_digits(value):
    assert p_value(math.log10(value)) == f"{value:.2g}"


@pytest.mark.parametrize(
    ("log10", "told"),
    [(-815.3421, "4.5e-816"), (-1011.5, "3.2e-1012"), (-400, "1e-400"), (-400.001, "1e-400")],
)
def test_a_p_value_too_small_for_a_number_is_told_all_the_same(log10, told):
    assert p_value(log10) == told
