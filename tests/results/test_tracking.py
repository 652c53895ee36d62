"""Results in MLflow: once, whole, with the word that says how a setting was chosen."""

import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from helpers.commands import PAPER, call, call_json, json_in, tree

import marc
from marc.files import file_digest
from marc.results.tracking import Tracker


class _Store:
    """As much of MLflow's client as is used, in memory."""

    def __init__(self, tracking_uri):
        self.tracking_uri = tracking_uri or "its own"
        self.experiments, self.runs, self.full = {}, {}, False

    def get_experiment_by_name(self, name):
        known = self.experiments.get(name)
        return known and SimpleNamespace(experiment_id=known)

    def create_experiment(self, name):
        self.experiments[name] = str(len(self.experiments))
        return self.experiments[name]

    def search_runs(self, experiments, query):
        return [
            SimpleNamespace(info=SimpleNamespace(run_id=number))
            for number, run in self.runs.items()
            if run["experiment"] in experiments
            and f"'{run['tags']['marc.digest']}'" in query
            and run["status"] == "FINISHED"
        ]

    def create_run(self, experiment, tags, run_name):
        number = f"run {len(self.runs)}"
        fresh = {"params": {}, "metrics": {}, "files": [], "status": "RUNNING"}
        self.runs[number] = {"experiment": experiment, "tags": tags, "name": run_name, **fresh}
        return SimpleNamespace(info=SimpleNamespace(run_id=number))

    def log_param(self, number, name, value):
        self.runs[number]["params"][name] = value

    def log_metric(self, number, name, value, timestamp, step):
        self.runs[number]["metrics"][name, step] = value

    def log_artifact(self, number, path):
        if self.full:
            raise RuntimeError("the store is full")
        self.runs[number]["files"].append(Path(path).name)

    def set_terminated(self, number, status="FINISHED"):
        self.runs[number]["status"] = status


@pytest.fixture
def stores(monkeypatch):
    """Stores by address."""
    made = {}
    tracking = ModuleType("mlflow.tracking")
    tracking.MlflowClient = lambda tracking_uri=None: made.setdefault(
        tracking_uri, _Store(tracking_uri)
    )
    monkeypatch.setitem(sys.modules, "mlflow", ModuleType("mlflow"))
    monkeypatch.setitem(sys.modules, "mlflow.tracking", tracking)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "false")
    return made


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_is_logged_once(stores, sources, place):
    words = ["run", sources["labelled"], *PAPER, "--seed", 0, 1, "-o", "out"]
    outcome = call(*words, "--track")
    assert outcome.out.splitlines()[-1] == "tracked: run 0, experiment marc in its own"
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    [run] = stores[None].runs.values()
    metrics = json_in(place / "out" / "metrics.json")
    assert run["status"] == "FINISHED"
    assert run["tags"]["marc.selection"] == "fixed"
    assert run["tags"]["marc.digest"] == file_digest(place / "out" / "digests.json")
    assert run["params"]["method.space"] == "classes"
    assert run["params"]["seeds"] == "0, 1"
    for name in ("accuracy", "base_accuracy", "gain"):
        assert run["metrics"][name, 0] == metrics[name]
        for step, order in enumerate(metrics["orders"]):
            assert run["metrics"][f"order.{name}", step] == order[name]
    assert run["metrics"]["gain_interval.low", 0] == metrics["gain_interval"][0]
    assert sorted(run["files"]) == sorted(path.name for path in (place / "out").iterdir())
    again = call(*words, "--track").out.splitlines()
    assert again[-2:] == [
        "already there: out",
        "already tracked: run 0, experiment marc in its own",
    ]
    tracked = call_json(*words, "--track", "other")["tracked"]
    assert tracked == [
        {"run_id": "run 1", "experiment": "other", "store": "its own", "was_there": False}
    ]
    assert "tracked" not in call_json(*words)


def test_an_address_is_a_store_and_not_an_experiment(stores, sources, place, monkeypatch):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    words = ["sweep", sources["labelled"], "--space", "classes", "-o", "out"]
    call(*words, "--track", "sqlite:///a.db")
    [run] = stores["sqlite:///a.db"].runs.values()
    assert [*stores["sqlite:///a.db"].experiments] == ["mine"]
    assert run["tags"]["marc.envelope.selection"] == "oracle"
    assert run["metrics"]["envelope.spaces.classes.gain", 0] > 0


def test_every_method_is_a_run(stores, sources, place):
    words = ["run", sources["labelled"], "--method", "all", "--space", "classes", "--seed", 0]
    names = [each["run_id"] for each in call_json(*words, "-o", "all", "--track")["tracked"]]
    assert len(names) == len({*names}) == len([*(place / "all").iterdir()])


def test_a_dry_run_opens_no_store(stores, sources, place):
    call("run", sources["labelled"], *PAPER, "--dry-run", "--track")
    assert stores == {}


def test_what_was_stopped_half_way_is_logged_again(stores, sources, place):
    words = ["run", sources["labelled"], *PAPER, "--seed", 0, "-o", "out"]
    call(*words)
    tracker = Tracker.open()
    tracker.client.full = True
    with pytest.raises(marc.MarcError, match=r"not logged, and is whole(.|\n)*the store is full"):
        tracker.log("out")
    assert tracker.client.runs["run 0"]["status"] == "FAILED"
    tracker.client.full = False
    assert not tracker.log("out").was_there
    assert tracker.log("out").run_id == "run 1"


def test_without_the_package_nothing_is_computed(sources, place, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    before = tree(place)
    for verb in ("run", "sweep", "adapt"):
        outcome = call(verb, sources["labelled"], "--track", "-o", "out")
        assert outcome.status == 2
        assert "needs the package mlflow" in outcome.err
        assert 'pip install "marc-clip[track]"' in outcome.err
    assert tree(place) == before


def test_without_a_database_it_is_said_what_to_install(stores, sources, place, monkeypatch):
    def refuse(**_):
        raise ModuleNotFoundError("No module named 'sqlalchemy'", name="sqlalchemy")

    monkeypatch.setattr(sys.modules["mlflow.tracking"], "MlflowClient", refuse)
    with pytest.raises(marc.MarcError, match=r"sqlalchemy(.|\n)*marc-clip\[track\]"):
        Tracker.open()


def test_the_real_store(sources, place, monkeypatch):
    pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    words = ["run", sources["labelled"], *PAPER, "--seed", 0, 1, "-o", "out"]
    [first] = call_json(*words, "--track", "sqlite:///here.db")["tracked"]
    [second] = call_json(*words, "--track", "sqlite:///here.db")["tracked"]
    assert second == {**first, "was_there": True}
    tracker = Tracker.open("sqlite:///here.db")
    run = tracker.client.get_run(first["run_id"])
    assert run.data.metrics["gain"] == json_in(place / "out" / "metrics.json")["gain"]
    assert len(tracker.client.get_metric_history(first["run_id"], "order.gain")) == 2
    telemetry = pytest.importorskip("mlflow.telemetry")
    assert telemetry.get_telemetry_client() is None
