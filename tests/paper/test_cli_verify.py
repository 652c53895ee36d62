"""`marc verify`: what it prints, and its exit status."""

import json

import pytest
import typer
from helpers.paper_names import V2, A
from helpers.paper_plans import named_stream, paper_plan
from helpers.printed_studies import printed_spaces
from typer.testing import CliRunner

from marc.errors import MarcError
from marc.files import sealed
from marc.sources.pack import write_pack
from marc_paper.cli import verify
from marc_paper.study.artifacts import Column, Estimate, Table
from marc_paper.study.experiments import EXPERIMENTS
from marc_paper.study.folder import StudyFolder
from marc_paper.study.formats import files_of
from marc_paper.study.make import study
from marc_paper.study.plan import Plan
from marc_paper.study.tables import spaces
from marc_paper.verify.expected import EXPECTED
from marc_paper.verify.verify import _experiment_of

app = typer.Typer()
app.command()(verify)


def call(*words):
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)


def call_json(*words):
    return json.loads(call(*words, "--json").stdout)


def write(path, plan, tables):
    """A folder as a study writes it, with these tables in it."""
    folder = StudyFolder.open(path, plan.as_data())
    with folder.begin({}):
        for table in tables:
            name = _experiment_of(table.name, EXPERIMENTS)
            about = {"experiment": name, "streams": plan.describe()}
            folder.finish(name, files_of(table, about), [], {"seconds": 0.0, "artifacts": []})
    return path


@pytest.fixture
def printed(tmp_path):
    return write(tmp_path / "study", paper_plan(), [printed_spaces()])


def test_printed_values_meet(printed):
    result = call(printed, "--all")
    assert result.exit_code == 0
    deviations = [each for each in EXPECTED if each.is_deviation]
    values = f"{len(EXPECTED) - len(deviations):,}"
    assert f"of {values} printed values compared" in result.stdout
    assert f"met, 0 differ; and 0 of {len(deviations)} deviations" in result.stdout
    [line] = [line for line in result.stdout.splitlines() if line.startswith("deviations over")]
    assert line.split()[3:] == [str(len(deviations)), "0", "0", "0", str(len(deviations))]
    few = call(printed).stdout
    assert "\ndeviations over" not in few  # nothing of them was compared
    [line] = [line for line in few.splitlines() if line.startswith("tab:spaces16")]
    assert line.split()[:5] == ["tab:spaces16", "86", "80", "80", "0"]
    assert "note on tab:spaces16: The paper prints three oracle gains of CLIP" in result.stdout
    assert "the experiment paired was not made" in result.stdout


def test_a_value_outside_is_named_and_fails(tmp_path):
    table = printed_spaces({(A, "dinov2-b", "G*, first order"): 0.12})
    path = write(tmp_path / "study", paper_plan(), [table])
    result = call(path)
    assert result.exit_code == 1
    [line] = [line for line in result.stdout.splitlines() if line.startswith("differs")]
    for part in ("DINOv2-B, gain A", "+10.27", "12.00", "+1.73", "1.005", f"{A}, clip-b16"):
        assert part in line
    assert "1 differ" in result.stdout


def test_reasons_are_counted_or_listed(printed):
    short, long = call(printed).stdout, call(printed, "--all").stdout
    assert short.count("copied by the paper") == 1
    assert long.count("copied by the paper") > 200
    assert "ViT TDA, A" in long


def test_json_has_every_compared_value(printed):
    data = call_json(printed)
    assert data["printed"] == len(EXPECTED)
    assert data["compared"] == data["meets"] == len(data["values"])
    assert data["printed"] == data["compared"] + data["no_match"]
    assert sum(each["values"] for each in data["reasons"]) == data["no_match"]
    assert sum(each["printed"] for each in data["tables"]) == len(EXPECTED)
    assert data["tables"][-1]["label"] == "deviations over orders"
    assert len(call_json(printed, "--all")["values"]) == len(EXPECTED)
    value = next(v for v in data["values"] if (v["row"], v["column"]) == ("CLIP", "gain A"))
    assert value["printed"] == "+0.44"
    assert value["got"] == pytest.approx(0.44)
    assert value["allowed"] == pytest.approx(0.305)
    assert value["why_allowed"]


def test_a_study_of_the_lab_has_nothing_to_compare(tmp_path):
    path = write(tmp_path / "study", Plan.read(Plan.SHIPPED / "lab-quick.toml"), [])
    result = call(path)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].startswith("nothing could be compared")
    assert call_json(path)["compared"] == 0


def test_deviations_are_factors_and_count_apart(tmp_path):
    settings = {"stream": A, "capacity": 16, "weight": 10.0, "views": 1, "seeds": (0, 1, 2)}
    columns = (Column("policy"), Column("deployed", "percent"), Column("strong", "percent"))
    rows = (("entropy", Estimate(0.6014, sd=0.0076), Estimate(0.6993, sd=0.02)),)
    table = Table("policies", "", "", columns, rows, (), settings)
    path = write(tmp_path / "study", paper_plan(), [table])
    result = call(path)
    assert result.exit_code == 1
    lines = [line for line in result.stdout.splitlines() if "entropy, DINOv2-B, deviation" in line]
    assert "x 2.00" in lines[0]
    assert "x 6.1" in lines[0]
    assert result.stdout.splitlines()[-1].endswith(
        "2 met, 0 differ; and 2 of 115 deviations over orders: 1 met, 1 differ"
    )


def test_an_advantage_names_what_it_may_have_of_the_other_sign(tmp_path):
    settings = {"stream": A, "capacity": 16, "weight": 10.0, "views": 8, "seeds": (0, 1, 2)}
    columns = (Column("order"), Column("advantage", "points"))
    rows = (("1", Estimate(-0.008, -0.01, 0.006)),)
    settings["space"] = "dinov2-b"
    table = Table("matched-orders-oracle", "", "", columns, rows, (), settings)
    path = write(tmp_path / "study", paper_plan(), [table])
    [line] = [line for line in call(path).stdout.splitlines() if line.startswith("differs")]
    for part in ("1, advantage", "+0.37", "-0.80", "-1.17", "1.405, 0.702 beyond zero"):
        assert part in line


def test_no_study_is_bad_use(tmp_path):
    with pytest.raises(MarcError, match="no study here"):
        call(tmp_path)


def test_help_has_an_example():
    result = call("--help")
    assert "Example:  marc verify" in result.stdout
    assert result.exit_code == 0


def test_a_real_study_is_compared_and_differs(tmp_path):
    plan = paper_plan().as_data()
    plan["streams"] = {name: {**plan["streams"][name], "views": 1} for name in (A, V2)}
    for seed, name in enumerate(plan["streams"]):
        write_pack(named_stream(name, seed).with_views(1), tmp_path / f"{name}.npz")
        plan["streams"][name]["source"] = f"arrays/{tmp_path / name}.npz"
    made = Plan.of(json.loads(json.dumps(plan)))
    folder = StudyFolder.open(tmp_path / "study", made.as_data())
    study(made, folder, [spaces._EXPERIMENT], EXPERIMENTS)
    result = call(tmp_path / "study")
    assert result.exit_code == 1
    assert "has 70 images of" in result.stdout  # a part of a data set is not the data set
    assert "not the 7,500 of 200 of imagenet-a" in result.stdout
    sizes = {A: (7500, 200), V2: (10000, 1000)}
    known = json.loads((tmp_path / "study" / "streams.json").read_text())
    for name, (images, classes) in sizes.items():
        plain = {k: v for k, v in known[name].items() if k != "seal"}
        known[name] = sealed({**plain, "images": images, "classes": classes})
    (tmp_path / "study" / "streams.json").write_text(json.dumps(known))
    data = call_json(tmp_path / "study")
    assert data["differs"] > 10
    table = json.loads((tmp_path / "study" / "tables" / "spaces.json").read_text())
    row = next(row for row in table["rows"] if row[:2] == [A, "dinov2-l"])
    value = next(v for v in data["values"] if (v["row"], v["column"]) == ("DINOv2-L", "purity A"))
    assert value["got"] == pytest.approx(100 * row[2]["value"])
    assert value["status"] == "differs"
