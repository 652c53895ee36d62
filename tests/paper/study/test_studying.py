"""Making a study: what is made once stays made, and what is interrupted goes on."""

import base64
import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.commands import events, json_in, tree
from helpers.studies import PLAN, SPACES
from helpers.study_folders import BOTH, entries, make, plan_over, results, write_packs

from marc.errors import MarcError
from marc_paper.study.folder import StoredStudy
from marc_paper.study.work import Experiment, Piece


@pytest.fixture(scope="module")
def packs(tmp_path_factory):
    return write_packs(tmp_path_factory.mktemp("packs"))


@pytest.fixture
def plan(packs):
    return plan_over(packs)


def test_a_second_run_computes_nothing(plan, tmp_path):
    assert make(plan, tmp_path / "study") == ["made", "made"]
    before = tree(tmp_path / "study")
    assert make(plan, tmp_path / "study") == ["already there", "already there"]
    assert tree(tmp_path / "study") == before


def test_a_piece_is_computed_once_for_all_experiments(plan, tmp_path):
    make(plan, tmp_path / "study")
    told = [event for event in events(tmp_path / "study") if event.startswith("piece")]
    assert len(told) == len(set(told)) == 2 * 2 * len(SPACES)


def test_only_some_then_all(plan, tmp_path):
    assert make(plan, tmp_path / "study", BOTH[1:]) == ["made"]
    assert make(plan, tmp_path / "study") == ["made", "already there"]


def test_interrupted_it_loses_the_experiment_in_hand_alone(plan, tmp_path):
    def stop(work):
        work.sweep("first", ["own"])
        work.sweep("third", ["own"])
        raise KeyboardInterrupt

    stopping = Experiment("stopping", "", (), stop, lambda plan: Piece.sweeps(["third"], ["own"]))
    with pytest.raises(KeyboardInterrupt):
        make(plan, tmp_path / "study", (BOTH[0], stopping, BOTH[1]))
    made = StoredStudy.read(tmp_path / "study", ["spaces", "stopping", "capacity"])
    assert list(made.records) == ["spaces"]
    assert make(plan, tmp_path / "study") == ["already there", "made"]
    make(plan, tmp_path / "whole")
    whole = results(tmp_path / "whole")
    assert {name: results(tmp_path / "study")[name] for name in whole} == whole


def test_killed_at_any_moment_it_goes_on(plan, packs, tmp_path):
    lines = [f'title = "t"\npredictor = "tiny"\n[spaces]\nall = {json.dumps(SPACES)}\n']
    lines += [f"{name} = {json.dumps(PLAN['spaces'][name])}\n" for name in ("controls", "own")]
    lines += ['deployed = "good"\nstrong = "best"\n']
    for name, entry in entries(packs).items():
        lines += [f"[streams.{name}]\nsource = {json.dumps(entry['source'])}\n"]
        lines += [f'group = "{entry["group"]}"\nviews = {entry["views"]}\n']
    for table in ("grids", "draws"):
        lines += [f"[{table}]\n"]
        lines += [f"{key} = {json.dumps(value)}\n" for key, value in PLAN[table].items()]
    (tmp_path / "plan.toml").write_text("".join(lines))
    marc = Path(sys.executable).with_name("marc")
    words = [marc, "study", tmp_path / "plan.toml", "--only", "spaces", "capacity", "-o"]
    killed = 0
    for wanted in (1, 9, 20):
        process = subprocess.Popen([*words, tmp_path / "study"], stdout=subprocess.DEVNULL)
        while process.poll() is None:
            if len(list((tmp_path / "study" / "work").glob("*.npz"))) >= wanted:
                process.send_signal(signal.SIGKILL)
                killed += 1
                break
            time.sleep(0.005)
        process.wait()
    assert killed >= 2
    for place in ("study", "whole"):
        subprocess.run([*words, tmp_path / place], check=True, stdout=subprocess.DEVNULL)
    assert results(tmp_path / "study") == results(tmp_path / "whole")
    told = [event for event in events(tmp_path / "study") if event.startswith("piece")]
    pieces = 2 * 2 * len(SPACES)
    # each kill may come between a file and its line, or between both and the next call
    assert pieces - killed <= len(told) <= pieces + killed


def test_what_is_not_possible_is_said_and_shown(plan, tmp_path):
    never = Experiment(
        "never", "Never", ("tab:x",), lambda work: [], lambda p: [], lambda p: "no <views>"
    )
    assert make(plan, tmp_path / "study", (never,)) == ["not possible"]
    assert "no &lt;views&gt;" in (tmp_path / "study" / "index.html").read_text()


def test_the_page_shows_every_table_and_figure(plan, tmp_path):
    make(plan, tmp_path / "study")
    page = (tmp_path / "study" / "index.html").read_text()
    for name in ("tables/spaces.csv", "tables/spaces.tex", "figures/capacity.svg"):
        assert f'"{name}"' in page
        assert (tmp_path / "study" / name).is_file()
    assert page.count("<table>") == 1 + 2  # the streams, and the tables of `spaces`
    assert json_in(tmp_path / "study" / "streams.json")["first"]["digest"] in page
    assert "nan" not in page.lower().replace("nanosecond", "")


def test_the_page_lets_nothing_in_but_its_own_pictures(plan, tmp_path):
    make(plan, tmp_path / "study")
    page = (tmp_path / "study" / "index.html").read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; img-src 'self' file:;")
    script = re.search(r"<script>(.*)</script>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert "decodeURI" not in page  # an address may be malformed


def test_an_experiment_that_fails_leaves_nothing_of_itself_and_the_others_go_on(plan, tmp_path):
    def fail(work):
        raise MarcError("it cannot be")

    failing = Experiment("failing", "", (), fail, lambda plan: [Piece("sweep", "first", "own")])
    assert make(plan, tmp_path / "study", (failing, BOTH[1])) == ["failed", "made"]
    left = {path.stem for path in (tmp_path / "study" / "records").iterdir()}
    assert left == {"capacity"}
