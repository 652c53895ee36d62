"""`marc list methods --paper`: printed rows, and runs that have a place beside them."""

import pytest
from helpers.commands import call, call_json
from helpers.embedding_trees import draw_lab_folder, embed_plan, make_plan
from helpers.making import make_stream

from marc.errors import MarcError
from marc.peers.registry import METHODS, absent_methods
from marc.sources import load_stream
from marc.sources.pack import write_pack
from marc.stream import digest
from marc_paper.cli import paper_rows


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a pack in it that is taken for ImageNet-A, as CLIP ViT-B/16 sees it."""
    monkeypatch.chdir(tmp_path)
    write_pack(make_stream(3, n_images=40), tmp_path / "a.npz")
    prototypes = digest(load_stream("a.npz").features.predictor.prototypes)
    known = {"arrays/a.npz": ("clip-b16-text", "imagenet-a", prototypes)}
    monkeypatch.setattr(paper_rows, "_predictor", known.get)
    return known


def run(*words):
    assert call("run", "arrays/a.npz", "--seed", "0", *words).status == 0


def test_every_printed_method_runs_or_says_why_not():
    methods = {row.method for row in paper_rows._printed_rows()}
    assert {"zero-shot", "tda", "cosmic", "marc", "tata"} <= methods
    assert methods <= {*METHODS, *absent_methods()}


def test_printed_numbers_stand_under_the_names_of_data_sets():
    rows = {(row.backbone, row.printed_as): row for row in paper_rows._printed_rows() if row.table}
    assert rows["RN50", "TDA"].numbers["imagenet-a"] == "30.29"
    assert rows["ViT", "ETTA"].method == "etta"
    assert rows["ViT", "ETTA"].numbers["dtd"] == "49.64"


def test_a_run_stands_beside_what_was_printed(here):
    run("--method", "tda", "-o", "runs/tda")
    run("--method", "marc", "--space", "good", "-o", "runs/other/marc")
    ran = {row["method"]: row for row in call_json("list", "methods", "--paper")["ran"]}
    assert ran["tda"]["printed"] == {"TDA": "60.11"}
    assert (ran["tda"]["backbone"], ran["tda"]["dataset"]) == ("ViT", "imagenet-a")
    assert ran["tda"]["gain"] == pytest.approx(ran["tda"]["accuracy"] - ran["tda"]["base_accuracy"])
    assert ran["tda"]["selection"] == "fixed"
    assert set(ran["marc"]["printed"]) == {"MARC, M = 4", "MARC, M = 64"}
    out = call("list", "methods", "t*", "--paper").out
    assert "runs/tda" in out
    assert "runs/other/marc" not in out


def test_without_runs_it_says_what_to_type(here):
    assert "marc run imagenet-a --method all" in call("list", "methods", "--paper").out


def test_a_run_over_other_prompts_is_left_out(here):
    run("--method", "tda", "-o", "runs/tda")
    here["arrays/a.npz"] = (*here["arrays/a.npz"][:2], "0" * 16)
    assert call_json("list", "methods", "--paper")["ran"] == []


def test_what_is_no_finished_run_is_left_out(here, tmp_path):
    run("--method", "tda", "-o", "runs/tda")
    (tmp_path / "runs/tda/metrics.json").write_text("{}")
    assert call("sweep", "arrays/a.npz", "--space", "good", "-o", "runs/sweep").status == 0
    assert call_json("list", "methods", "--paper")["ran"] == []


def test_a_store_of_other_pictures_has_no_place(tmp_path):
    plan = make_plan(draw_lab_folder(tmp_path / "pictures"), tmp_path / "store")
    embed_plan(plan)
    assert paper_rows._predictor(f"store/{plan.store}") is None
    assert paper_rows._predictor("folder/nowhere") is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["methods", "lame", "--paper"], "the paper prints no number of this method"),
        (["methods", "--paper", "--card", "tda"], "the paper's rows have no cards"),
        (["encoders", "--paper"], "kind of thing to list with --paper"),
    ],
)
def test_what_is_wrong_is_an_error(words, message):
    outcome = call("list", *words)
    assert outcome.status == 2
    assert message in outcome.err


def test_the_listing_is_a_call(capsys):
    paper_rows.list_paper("tda", "", json=False)
    assert "46.63" not in capsys.readouterr().out  # means over data sets are of no data set
    with pytest.raises(MarcError):
        paper_rows.list_paper("none-such", "", json=False)
