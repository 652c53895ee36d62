"""Reports as files: what they say, what they refuse, and that they need nothing outside."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import typer
from helpers.commands import arrays_in, call, json_in
from helpers.report_pages import NASTY, Page
from typer.testing import CliRunner

import marc
from marc import MarcError
from marc.cli.report import report
from marc.results.sweep import load_sweep
from marc.sources.pack import read_pack
from marc.stats import paired_difference
from marc_paper.analysis.interaction import WarmUp


@pytest.fixture(scope="session")
def pages(results, tmp_path_factory):
    """Pages by what they were made from."""
    folder = tmp_path_factory.mktemp("pages")
    wanted = {
        "both": ["run", "sweep"],
        **{name: [name] for name in ("run", "sweep", "unlabelled", "online", "means", "learned")},
    }
    made = {}
    for name, folders in wanted.items():
        others = [results["other"]] if name == "both" else []
        paths = [results[each] for each in folders]
        made[name] = marc.report(*paths, output=folder / f"{name}.html", held_out=others)
    return made


def read(page):
    return Page(page.path.read_text("utf-8"))


@pytest.mark.parametrize(
    "name", ["both", "run", "sweep", "unlabelled", "online", "means", "learned"]
)
def test_a_page_is_well_formed_and_needs_nothing_outside(pages, name):
    page = read(pages[name])
    identities = [a["id"] for _, a in page.elements if "id" in a]
    assert len(identities) == len(set(identities))
    for tag, attributes in page.elements:
        assert tag not in {"link", "iframe", "object", "embed", "base", "form", "image"}
        for attribute, value in attributes.items():
            assert not attribute.startswith("on")
            if attribute in {"src", "href", "xlink:href", "action", "data"}:
                assert value.startswith(("#", "data:image/webp;base64,")), value
    for target in (a["href"][1:] for a in page.all("a")):
        assert target in identities or target.startswith("q-")
    assert "http:" not in page.text.replace("http-equiv", "")
    assert "https:" not in page.text
    assert "@import" not in page.text
    assert not re.search(r"url\((?!#)", page.text)
    assert "eval(" not in page.text
    assert "innerHTML" not in page.text


def test_the_policy_lets_only_the_script_of_the_page_run(pages):
    import base64
    import hashlib

    page = read(pages["both"])
    [policy] = [a["content"] for a in page.all("meta") if "http-equiv" in a]
    scripts = re.findall(r"<script>(.*?)</script>", page.text, flags=re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_names_of_the_user_are_text_and_nothing_else(pages):
    page = read(pages["both"])
    assert page.data["classes"][1] == NASTY
    assert "alert(" not in "".join(page.texts["script"][1:])
    assert page.text.count("<script") == 2
    assert "&lt;/script&gt;&lt;script&gt;alert(" in page.text
    assert "日本 $x_1$" in page.text
    assert not [a for a in page.all("b") if a]


def test_every_figure_is_svg_with_a_table_under_it(pages):
    page = read(pages["both"])
    figures = re.findall(r"<svg.*?</svg>", page.text, flags=re.DOTALL)
    assert len(figures) == 5
    for figure in figures:
        ElementTree.fromstring(figure)
        assert "var(--ink)" in figure
    for name in ("by-weight", "by-purity", "by-capacity", "warm-up", "reliability"):
        section = page.text[page.text.index(f'<section id="{name}"') :]
        section = section[: section.index("</section>")]
        assert re.search(r"<svg.*<details><summary>.*<table>", section, flags=re.DOTALL)
    assert "_noise$" in page.text


def test_the_reliability_diagram_has_the_bins_of_the_run(pages, results):
    page, metrics = read(pages["run"]), json_in(results["run"] / "metrics.json")
    found = metrics["calibration"]
    words = f"{found['base_ece']:.4f} without memory, {found['ece']:.4f} with it"
    assert f"ECE (15 equal-width bins) {words}" in page.words
    with np.load(results["run"] / "predictions.npz") as arrays:
        confidence, base = arrays["confidence"][0], arrays["base_confidence"]
    section = page.text[page.text.index('<section id="reliability"') :]
    section = section[: section.index("</section>")]
    for each in (confidence, base):
        assert f">{(each > 14 / 15).sum()}<" in section
    assert 'id="reliability"' not in read(pages["sweep"]).text  # a sweep has no probabilities


def test_the_sentence_is_the_result_of_the_run(pages, results):
    metrics = json_in(results["run"] / "metrics.json")
    page = read(pages["run"])
    low, high = metrics["gain_interval"]
    texts = [f"{100 * value:+.2f}".replace("-", "−") for value in (metrics["gain"], low, high)]
    assert f"The gain is {texts[0]} points, with a 95 % interval of {texts[1]} to" in page.words
    assert f"to {texts[2]}, paired over images, mean of 2 orders" in page.words
    assert (
        "The setting is fixed: space “both”, K = 4, w = 7, not chosen with any label" in page.words
    )
    assert "the same images, views, prompts and orders at weight 0" in page.words


def test_the_held_out_choice_is_that_of_the_sweep(pages, results):
    sweeps = [load_sweep(results[name]) for name in ("sweep", "other")]
    score = sweeps[0].held_out("both", sweeps[1], 4)
    text = f"w = {score.weights[0]:g} gives {100 * score.gain:+.2f}.".replace("-", "−")
    assert (
        f"Chosen on “other” and applied here unchanged (held-out), {text}"
        in pages["both"].story.text
    )
    assert "held-out" not in pages["run"].story.text


def test_a_sweep_is_shown_at_the_fixed_setting_in_the_space_of_highest_pseudo_purity(
    pages, results
):
    stream = read_pack(results["sweep"].parent / "small.npz")
    pseudo = marc_geometry(stream)
    best, worst = max(pseudo, key=pseudo.get), min(pseudo, key=pseudo.get)
    data = read(pages["sweep"]).data
    assert data["spaces"] == [best, worst]
    assert data["weight"] == 10
    sweep = load_sweep(results["sweep"])
    right = [sweep.correct(best, 16, 10.0, seed) for seed in (0, 1)]
    gain = paired_difference(right, [sweep.base_correct] * 2)
    assert (
        f"The gain is {100 * gain.estimate:+.2f} points".replace("-", "−")
        in pages["sweep"].story.text
    )
    run = marc.replay(marc.MARC(best, 16, 10.0), stream.shuffled(0))
    adapted = dict(zip(run.order.tolist(), run.predictions.tolist(), strict=True))
    assert {q["row"]: q["adapted"] for q in data["queries"]} == {
        q["row"]: adapted[q["row"]] for q in data["queries"]
    }


def marc_geometry(stream):
    from marc.spaces.geometry import pseudo_labels, pseudo_purity

    labels = pseudo_labels(stream)
    return {s: pseudo_purity(stream.features.keys(s), labels) for s in stream.spaces}


def test_without_labels_the_page_says_what_changed_and_nothing_of_right_and_wrong(pages, results):
    page = read(pages["unlabelled"])
    changed = np.mean(json_in(results["unlabelled"] / "metrics.json")["changed"])
    assert f"The memory changes {100 * changed:.2f} % of the predictor's answers" in page.words
    for word in ("accuracy", "repaired", "broken", "oracle", "correctly"):
        assert word not in page.words, word
    kinds = [a["value"] for a in page.all("input") if a.get("name") == "kind"]
    assert kinds == ["all", "changed", "low margin", "hubs"]
    assert len(re.findall("<svg", page.text)) == 4


def test_the_unlabelled_curve_counts_changed_answers(results):
    from marc.report.inputs import Inputs
    from marc.report.setting import Subject
    from marc.report.sweep_figures import _by_weight

    inputs = Inputs.read([results["unlabelled"]])
    subject = Subject.of(inputs, None, lambda step: None)
    curves = _by_weight(subject, [])
    at = int(np.flatnonzero(curves.x == 7.0)[0])
    stored = arrays_in(results["unlabelled"] / "predictions.npz")
    changed = (stored["prediction"] != stored["base_prediction"]).mean()
    assert curves.curves["both"][at] == pytest.approx(changed)
    assert set(curves.marks) == {"fixed"}


def test_a_policy_that_cannot_be_swept_has_its_own_stream_alone(pages):
    page = read(pages["online"])
    assert len(re.findall("<svg", page.text)) == 2
    assert "depends on its answers" in page.words


def test_the_table_of_classes_is_the_accuracy_by_class(pages, results):
    stored = arrays_in(results["run"] / "predictions.npz")
    truth = stored["label"]
    mine = stored["prediction"][:, truth == 0] == 0
    base = (stored["base_prediction"] == truth)[truth == 0].mean()
    rows = re.findall(
        r'<th scope="row" data-value="cat">.*?</tr>', pages["run"].path.read_text("utf-8")
    )
    values = [float(value) for value in re.findall(r'<td data-value="([^"]*)"', rows[0])]
    assert values == pytest.approx([base, mine.mean(), mine.mean() - base, (truth == 0).sum()])


def test_the_warm_up_is_that_of_the_library(pages, results):
    stream = read_pack(results["run"].parent / "small.npz")
    runs = [marc.replay(marc.MARC("both", 4, 7.0), stream.shuffled(seed)) for seed in (0, 1)]
    parts = np.mean([WarmUp.of(run).accuracy for run in runs], axis=0)
    page = pages["run"].path.read_text("utf-8")
    section = page[page.index('<section id="warm-up"') :]
    cells = re.findall(r"<td>([^<]*)</td>", section[: section.index("</section>")])
    assert [float(cell) for cell in cells[1::3]] == pytest.approx((100 * parts).round(2))


def test_how_it_was_made_names_seeds_versions_and_digests(pages, results):
    words = read(pages["both"]).words
    config = json_in(results["run"] / "config.json")
    for text in ("method.capacity 4", "seeds 0, 1", config["fingerprint"]["views"]):
        assert text in words
    assert f"versions.numpy {np.__version__}" in words


def test_only_what_is_shown_is_embedded_and_small(pages):
    data = read(pages["both"]).data
    shown = {q["row"] for q in data["queries"]}
    shown |= {e["row"] for q in data["queries"] for entries in q["entries"] for e in entries}
    assert {int(row) for row in data["ids"]} == shown
    assert {int(row) for row in data["pictures"]} == {r for r in shown if r % 2 == 0 and r < 159}


def test_the_size_of_the_page_is_stated(pages):
    page = read(pages["both"])
    assert f"one file of {pages['both'].n_bytes / 1e6:.2f} MB" in page.words


def test_the_number_of_queries_is_bounded(results, tmp_path):
    made = marc.report(
        results["run"], output=tmp_path / "few.html", n_queries=12, against="classes"
    )
    page = read(made)
    assert len(page.data["queries"]) == 12
    assert page.data["spaces"] == ["both", "classes"]
    assert "12 of 160 images are listed" in page.words


def test_figures_are_written_as_svg_pdf_and_png(results, tmp_path):
    made = marc.report(results["run"], output=tmp_path / "page.html", figures=tmp_path / "figures")
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    figures = ("by-weight", "by-purity", "by-capacity", "warm-up", "reliability")
    assert names == {f"{name}.{kind}" for name in figures for kind in ("svg", "pdf", "png")}
    assert {path.name for path in made.figures} == names
    for path in made.figures:
        head = path.read_bytes()[:8]
        assert {"svg": b"<?xml", "pdf": b"%PDF-", "png": b"\x89PNG"}[path.suffix[1:]] in head
    ElementTree.parse(tmp_path / "figures/by-weight.svg")


def test_the_command_prints_the_sentence_and_the_path(results, tmp_path):
    app = typer.Typer()
    app.command()(report)
    path = tmp_path / "page.html"
    words = [str(results["run"]), str(results["sweep"]), "-o", str(path), "--queries", "5"]
    outcome = CliRunner().invoke(app, words)
    assert outcome.exit_code == 0, outcome.output
    assert "The gain is" in outcome.output
    assert f"written: {path}" in outcome.output.replace("\n", "")
    again = CliRunner().invoke(app, words)
    assert "already there" in again.output
    printed = CliRunner().invoke(app, [*words, "--force", "--json"])
    assert '"was_there": false' in printed.output


@pytest.mark.parametrize("n_images", [1, 2, 3])
def test_the_smallest_streams_have_a_page_or_a_reason(tmp_path, monkeypatch, n_images):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    views, prototypes = draw.standard_normal((n_images, 4)), draw.standard_normal((2, 4))
    keys = {"one": draw.standard_normal((n_images, 3))}
    labels = np.zeros(n_images, dtype=np.int64)
    marc.write_pack(marc.Stream.from_arrays(views, prototypes, keys, labels=labels), "tiny.npz")
    assert (
        call("run", "arrays/tiny.npz", "--method", "marc", "--seed", "0", "-o", "run").status == 0
    )
    if n_images == 1:
        with pytest.raises(MarcError, match="neighbours"):
            marc.report("run", output="page.html")
    else:
        page = read(marc.report("run", output="page.html"))
        assert len(page.data["queries"]) == n_images


def test_a_method_that_changes_nothing_makes_no_difference(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    marc.write_pack(marc.synthetic_stream(40, 3), "tiny.npz")
    call("run", "arrays/tiny.npz", "--method", "zero-shot", "-o", "run")
    page = read(marc.report("run", output="page.html"))
    assert "makes no difference" in page.words
    assert "clear difference" not in page.words
