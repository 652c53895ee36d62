"""What a hosting service and other tools read of the repository fits what is there."""

import json
import os
import re
import shutil
import subprocess
import tomllib

import pytest
import yaml
from helpers.repository import ROOT

from marc.peers.registry import METHODS

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
ONES = ["", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def read(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_citation_is_of_this_version():
    citation = read("CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == citation["preferred-citation"]["authors"]
    assert all({"given-names", "family-names"} <= {*each} for each in citation["authors"])


def test_the_changelog_has_this_version_below_what_is_unreleased():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\S+)", changelog, flags=re.MULTILINE)
    assert versions[:2] == ["Unreleased", PROJECT["version"]]


@pytest.mark.parametrize("form", [f for f in FORMS if f.stem != "config"], ids=lambda f: f.stem)
def test_a_form_has_what_the_service_asks_for(form):
    told = read(form)
    assert {"name", "description", "body"} <= {*told}
    fields = [each for each in told["body"] if each["type"] != "markdown"]
    assert all(each["attributes"]["label"] for each in fields)
    assert len({each["id"] for each in fields}) == len(fields)
    assert {each["type"] for each in fields} <= {"input", "textarea", "dropdown", "checkboxes"}


def test_there_are_three_forms():
    assert {form.stem for form in FORMS} == {"bug", "config", "encoder", "method"}


def test_the_hooks_are_the_checks_of_make_lint():
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    made = [line.strip().replace("$(BIN)", ".venv/bin") for line in lint[1].splitlines()]
    [local] = read(".pre-commit-config.yaml")["repos"]
    assert [hook["entry"] for hook in local["hooks"]] == [m.removesuffix(" .") for m in made]


def test_the_workflow_calls_what_continuous_integration_runs():
    [job] = read(".github/workflows/ci.yml")["jobs"].values()
    assert [step["run"].split()[-1] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_development_container_calls_make():
    told = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    verb, target = told["postCreateCommand"].split()
    assert verb == "make"
    assert f"\n{target}:" in (ROOT / "Makefile").read_text()


def test_the_image_is_made_of_files_that_are_there_and_runs_as_no_root():
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, flags=re.MULTILINE)
    assert all(re.fullmatch(r"python:\d\.\d+-slim", base) for base in bases)
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, flags=re.MULTILINE)
    let_in = (ROOT / ".dockerignore").read_text().split()
    for source in " ".join(copied).split():
        assert (ROOT / source).exists()
        assert f"!{source}" in let_in
    assert re.findall(r"^USER (\S+)", DOCKERFILE, flags=re.MULTILINE)[-1] != "root"
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", DOCKERFILE, flags=re.MULTILINE)[1])
    assert entry[0] in PROJECT["scripts"]


def test_the_image_is_built_and_tells_what_it_can():
    if (
        not shutil.which("docker")
        or subprocess.run(["docker", "info"], capture_output=True).returncode
    ):
        pytest.skip("no docker daemon answers")
    subprocess.run(["docker", "build", "-q", "-t", "marc-test", ROOT], check=True)
    run = ["docker", "run", "--rm", "marc-test", "list", "methods"]
    assert "class-means" in subprocess.run(run, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("page", ["README.md", "docs/commands.md"])
def test_the_pages_count_the_methods_of_the_field(page):
    of_the_field = {*METHODS.own} - {"class-means", "marc", "no-memory"}
    tens, ones = divmod(len(of_the_field), 10)
    words = (["Twenty", "Thirty", "Forty", "Fifty"][tens - 2], ONES[ones])
    found = re.search(r"(\w+(-\w+)?) methods of the field", (ROOT / page).read_text())
    assert found[1] == "-".join(filter(None, words))
