"""Every verb of the command line is one call in Python that gives the same."""

import json
import subprocess
import sys

import numpy as np
import pytest
from helpers.commands import PAPER, call, call_json, tree

import marc
from marc.errors import MarcError
from marc.replay.replay import replay
from marc.types import order_name

RUNS = {
    "marc": ([], {}),
    "auto": (["--weight", "auto"], {"weight": "auto"}),
    "reservoir": (["--policy", "reservoir"], {"policy": "reservoir"}),
}


@pytest.fixture(scope="module")
def stream(sources):
    return marc.load_stream(sources["labelled"])


@pytest.fixture(scope="module")
def folders(sources, tmp_path_factory):
    """Two runs and a sweep, written by the command line."""
    path = tmp_path_factory.mktemp("results")
    for space in ("classes", "noise"):
        words = ["--method", "marc", "--space", space, "--seed", 0, 1]
        call("run", sources["labelled"], *words, "-o", path / space)
    call("sweep", sources["labelled"], "--seed", 0, 1, "-o", path / "sweep")
    return path


def without_times(folder):
    """The files of a result; of its log the events, of its timing the names."""
    files = tree(folder)
    del files["digests.json"]  # of the times too
    lines = [json.loads(line) for line in files.pop("log.jsonl").splitlines()]
    files["log"] = [{k: v for k, v in line.items() if k != "time"} for line in lines]
    if "timing.json" in files:
        files["timing.json"] = set(json.loads(files["timing.json"]))
    return files


def runs_of(stream, space="classes", seeds=(0, 1), **settings):
    reservoir = settings.get("policy") == "reservoir"
    return [
        marc.run(marc.MARC(space, **settings, seed=seed if reservoir else 0), stream.in_order(seed))
        for seed in seeds
    ]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_is_saved_is_the_folder_of_the_command(sources, stream, tmp_path, name):
    words, settings = RUNS[name]
    common = ["run", sources["labelled"], *PAPER, "--seed", 0, 1]
    assert call(*common, *words, "-o", tmp_path / "command").status == 0
    marc.save_run(runs_of(stream, **settings), tmp_path / "python", stream)
    assert without_times(tmp_path / "python") == without_times(tmp_path / "command")


def test_the_stored_order_alone_is_saved_too(sources, stream, tmp_path):
    words = [*PAPER, "--in-order"]
    call("run", sources["labelled"], *words, "-o", tmp_path / "command")
    marc.save_run(marc.run(marc.MARC("classes"), stream), tmp_path / "python", stream)
    assert without_times(tmp_path / "python") == without_times(tmp_path / "command")


def test_runs_come_back_as_they_were_saved(stream, tmp_path):
    saved = runs_of(stream, policy="reservoir")
    path = marc.save_run(saved, tmp_path / "run", stream)
    for old, new in zip(saved, marc.load_run(path), strict=True):
        assert new.method == old.method
        assert (new.seed, new.chosen, new.seconds) == (old.seed, old.chosen, old.seconds)
        assert new.trajectory.varies_with == old.trajectory.varies_with
        for name in ("predictions", "base_predictions", "labels", "weights", "order"):
            np.testing.assert_array_equal(getattr(new, name), getattr(old, name))
        for name in ("label", "priority"):
            np.testing.assert_array_equal(
                getattr(new.trajectory, name), getattr(old.trajectory, name)
            )


def test_runs_of_an_oracle_come_back_with_the_weights_that_it_chose(sources, stream, tmp_path):
    words = ["--method", "cosmic", "--space", "classes", "--oracle", "--seed", 0]
    assert call("run", sources["labelled"], *words, "-o", tmp_path / "command").status == 0
    [run] = marc.load_run(tmp_path / "command")
    assert run.chosen
    assert np.isnan(run.seconds)
    marc.save_run(run, tmp_path / "again", stream)
    assert without_times(tmp_path / "again") == without_times(tmp_path / "command")


def test_a_replay_is_saved_without_a_time(stream, tmp_path):
    path = marc.save_run(replay(marc.MARC("classes"), stream), tmp_path / "run", stream)
    [run] = marc.load_run(path)
    assert np.isnan(run.seconds)
    assert json.loads((path / "timing.json").read_text()) == {}


def test_what_is_not_one_method_over_orders_of_the_stream_is_refused(stream, sources, tmp_path):
    here = tmp_path / "run"
    zero, one = runs_of(stream)
    other = marc.run(marc.MARC("noise"), stream.in_order(1))
    for runs in ([], [zero, zero], [zero, other]):
        with pytest.raises(MarcError, match="one method over distinct orders"):
            marc.save_run(runs, here, stream)
    backwards = stream.reordered(np.arange(len(stream))[::-1])
    with pytest.raises(MarcError, match="an order by its seed"):
        marc.save_run(marc.run(marc.MARC("classes"), backwards), here, stream)
    with pytest.raises(MarcError, match="another stream"):
        marc.save_run(zero, here, marc.load_stream(sources["other"]))
    with pytest.raises(MarcError, match="another stream"):
        marc.save_run(zero, here, marc.load_stream(sources["unlabelled"]))
    assert not list(tmp_path.iterdir())
    marc.save_run([zero, one], here, stream)
    before = tree(here)
    assert marc.save_run([zero, one], here, stream) == here
    with pytest.raises(MarcError, match="another result"):
        marc.save_run(other, here, stream)
    assert tree(here) == before


def test_a_folder_of_another_kind_is_not_loaded(folders, tmp_path):
    with pytest.raises(MarcError, match="not a run"):
        marc.load_run(folders / "sweep")
    with pytest.raises(MarcError, match="not a sweep"):
        marc.load_sweep(folders / "classes")
    for load in (marc.load_run, marc.load_sweep):
        with pytest.raises(MarcError, match="no finished"):
            load(tmp_path)


def test_a_sweep_that_is_saved_is_the_folder_of_the_command(folders, stream, tmp_path):
    swept = marc.sweep(stream, seeds=(0, 1))
    path = marc.save_sweep(swept, tmp_path / "sweep", stream)
    assert without_times(path) == without_times(folders / "sweep")
    again = marc.load_sweep(path)
    np.testing.assert_array_equal(again.accuracy, swept.accuracy)
    assert (again.seeds, again.images, again.settings) == (
        swept.seeds,
        swept.images,
        swept.settings,
    )


def test_a_sweep_of_another_stream_or_order_is_refused(stream, sources, tmp_path):
    swept = marc.sweep(stream, ["classes"], (4,), seeds=(0,))
    with pytest.raises(MarcError, match="another stream"):
        marc.save_sweep(swept, tmp_path / "a", marc.load_stream(sources["other"]))
    shuffled = stream.shuffled(3)
    with pytest.raises(MarcError, match="an order by its seed"):
        marc.save_sweep(
            marc.sweep(shuffled, ["classes"], (4,), seeds=None), tmp_path / "a", shuffled
        )
    assert not list(tmp_path.iterdir())


def test_a_comparison_has_the_numbers_of_the_command(folders, stream):
    paths = [folders / "noise", folders / "classes"]
    printed = call_json("compare", *paths, "--images")
    compared = marc.compare(*paths)
    assert json.loads(json.dumps(compared.to_dict(images=True))) == printed
    # runs at hand know neither ids nor class names, and are paired all the same
    runs = [runs_of(stream, space) for space in ("noise", "classes")]
    for mixed in (runs, [paths[0], runs[1]]):
        [row], [known] = marc.compare(*mixed).runs, compared.runs
        for name in ("orders", "difference", "interval", "repairs", "mcnemar_log10_p", "accuracy"):
            assert row[name] == known[name]
    assert "method.space: noise / classes" in marc.compare(*runs).runs[0]["protocol_differences"]
    [changes] = marc.compare(*runs).changes
    assert len(changes) == sum(compared.runs[0]["repairs"] + compared.runs[0]["regressions"])


def test_runs_that_cannot_be_paired_are_refused(folders, stream, sources):
    with pytest.raises(MarcError, match="two runs"):
        marc.compare(folders / "classes")
    other = marc.run(marc.MARC("classes"), marc.load_stream(sources["other"]).in_order(0))
    with pytest.raises(MarcError, match="their labels differ"):
        marc.compare(folders / "classes", other)
    with pytest.raises(MarcError, match="no stream order in common"):
        marc.compare(folders / "classes", marc.run(marc.MARC("noise"), stream))
    orders = (stream, stream.reordered(np.arange(len(stream))[::-1]))
    with pytest.raises(MarcError, match="no seed drew"):
        marc.compare(*(marc.run(marc.MARC("noise"), each) for each in orders))


def test_a_page_is_that_of_the_command(folders, tmp_path):
    results = [folders / "classes", folders / "sweep"]
    call("report", *results, "-o", tmp_path / "command.html")
    written = marc.report(*results, output=tmp_path / "python.html")
    assert written.path.read_bytes() == (tmp_path / "command.html").read_bytes()


def test_a_choice_is_that_of_the_command(sources, stream):
    printed = call_json("select", sources["labelled"])
    chosen = marc.select(stream)
    assert (printed["space"], printed["tied"]) == (chosen.space, list(chosen.tied))
    assert [row["pseudo_purity"] for row in printed["ranking"]] == [
        each.pseudo_purity for each in chosen.ranking
    ]
    assert [row["radius"] for row in printed["ranking"]] == [each.radius for each in chosen.ranking]


def test_geometry_is_that_of_the_command(sources, stream):
    printed = call_json("geometry", sources["labelled"])["spaces"]
    measured = marc.geometry_of(stream)
    assert list(measured) == list(printed)
    for space, geometry in measured.items():
        for row, measures in zip(
            printed[space]["measures"], geometry.measures.values(), strict=True
        ):
            assert row["purity"] == measures.purity.estimate
            assert row["pseudo_purity_interval"] == [*measures.pseudo_purity[1:]]
            assert row["hub_skewness"] == measures.hub_skewness


def test_answers_by_image_are_in_the_order_of_the_rows(stream):
    run = marc.run(marc.MARC("classes"), stream.shuffled(3))
    answers = run.by_image()
    np.testing.assert_array_equal(answers.labels, stream.row_labels)
    np.testing.assert_array_equal(answers.predictions[run.order], run.predictions)
    np.testing.assert_array_equal(answers.base_predictions[run.order], run.base_predictions)
    assert (answers.accuracy, answers.gain) == (run.accuracy, run.gain)
    assert order_name(run.seed) == "seed 3"


@pytest.mark.parametrize(
    "before", ["", "import marc.report", "from marc.report import build", "marc.report"]
)
def test_report_is_a_verb_and_a_package(before):
    code = f"""import marc, inspect
{before}
assert callable(marc.report)
import marc.report
from marc.report import Report
assert 'output' in inspect.signature(marc.report).parameters
try:
    marc.report()
except marc.MarcError as error:
    print(error)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "one run, one sweep" in done.stdout


def test_type_checkers_see_the_signatures(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "mine.py").write_text(
        "import marc\n"
        "reveal_type(marc.report('run', output='page.html'))\n"
        "reveal_type(marc.load_run('run'))\n"
        "reveal_type(marc.compare('a', 'b'))\n"
        "marc.report('run', pages=3)\n"
    )
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "mine.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    for name in ("marc.report.build.Report", "list[marc.types.Run]", "compare.Comparison"):
        assert name in done.stdout
    assert 'Unexpected keyword argument "pages"' in done.stdout


def test_one_space_may_be_given_by_its_name(stream):
    assert marc.sweep(stream, "classes", seeds=(0,)).spaces == ("classes",)
    assert marc.select(stream, "classes", n_replicates=5).space == "classes"
    assert list(marc.geometry_of(stream, "classes", n_replicates=0)) == ["classes"]


def test_a_list_of_folders_is_refused_with_what_to_write(tmp_path):
    with pytest.raises(MarcError, match="own argument") as refused:
        marc.compare([str(tmp_path), tmp_path])
    assert refused.value.hint.startswith("marc.compare(*folders)")
