"""The lab's study in its reduced form, from the command to the page: every experiment, once."""

import re

from helpers.commands import call, json_in, tree

from marc_paper.study.experiments import EXPERIMENTS

ALLOWED = {"second-predictor"}  # the lab has one predictor with words


def test_the_small_study_of_the_lab_is_made_once_and_verified(tmp_path):
    path = tmp_path / "study"
    outcome = call("study", "--lab", "--quick", "-o", path)
    assert outcome.status == 0, outcome.err
    assert re.search(r"this took \d+ s", outcome.out)
    made = {record.stem for record in (path / "records").iterdir()}
    assert made == {experiment.name for experiment in EXPERIMENTS} - ALLOWED
    page = (path / "index.html").read_text()
    for link in re.findall(r'(?:href|src)="((?:tables|figures)/[^"]+)"', page):
        assert (path / link).is_file()
    for figure in (path / "figures").glob("*.json"):
        json_in(figure)

    before = tree(path)
    again = call("study", "--lab", "--quick", "-o", path)
    assert again.status == 0
    assert again.out.count("already there") == len(made) + 1  # each line, and the tally
    assert tree(path) == before

    verified = call("verify", path)
    assert verified.status == 1
    assert "0 of" in verified.out or "nothing" in verified.out + verified.err
