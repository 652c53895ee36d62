"""A study whose shared work Ray workers compute has the tables and figures of a serial one."""

import pytest
from helpers.commands import events
from helpers.mortal_streams import has_killed, install, mortal
from helpers.studies import SPACES, tiny_plan, tiny_work
from helpers.study_folders import BOTH, entries, make, plan_over, results, write_packs

from marc import MarcError
from marc_paper.study.spread import _Worker
from marc_paper.study.tables import joint_choice
from marc_paper.study.work import Piece

EXPERIMENTS = (*BOTH, joint_choice._EXPERIMENT)


@pytest.mark.filterwarnings("ignore")  # Ray has warnings of its own
def test_of_two_workers_one_is_killed_and_the_bytes_are_the_same(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    install(tmp_path / "installed", monkeypatch)
    packs = write_packs(tmp_path)
    streams = entries(packs)
    streams["first"]["source"] = mortal(packs / "first.npz", "good")
    plan = tiny_plan(streams=streams)
    told = []
    assert make(plan, tmp_path / "serial", EXPERIMENTS) == ["made"] * 3
    options = {"ray": 2, "on_progress": lambda *what: told.append(what)}
    assert make(plan, tmp_path / "shared", EXPERIMENTS, **options) == ["made"] * 3
    assert has_killed(packs / "first.npz")
    assert results(tmp_path / "shared") == results(tmp_path / "serial")
    assert sorted(events(tmp_path / "shared")) == sorted(events(tmp_path / "serial"))
    shared = [what for what in told if what[0] == "shared work"]
    assert shared[-1][1] == shared[-1][2] == len(shared) - 1
    assert told == shared  # no experiment had to compute a piece
    assert make(plan, tmp_path / "shared", EXPERIMENTS, ray=2) == ["already there"] * 3


@pytest.mark.parametrize(
    "piece",
    [
        Piece("sweep", "first", "good", 4, (("beta", 2.0),)),
        Piece("geometry", "first", "good"),
        Piece("batches", "first", "good"),
        Piece.runs([1], [("first", "marc", 2, {"space": "good", "capacity": 4})])[0],
    ],
)
def test_a_worker_computes_what_an_experiment_would(tmp_path, piece):
    plan = plan_over(write_packs(tmp_path))
    here = tiny_work(plan)
    compute = _Worker(plan)()
    wanted, found = here.compute(piece), compute((here.file(piece), piece))
    assert {name: array.tobytes() for name, array in found.items()} == {
        name: array.tobytes() for name, array in wanted.items()
    }


def test_a_worker_refuses_other_features_and_leaves_what_cannot_be_to_its_experiment(tmp_path):
    plan = plan_over(write_packs(tmp_path))
    compute, piece = _Worker(plan)(), Piece("sweep", "first", SPACES[0])
    with pytest.raises(MarcError, match=r"other features(?s:.*)streams\.first"):
        compute(("sweep-first-of-another", piece))
    odd = Piece("sweep", "first", "nothing")
    assert compute((tiny_work(plan).file(odd), odd)) is None
