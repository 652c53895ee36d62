"""Every example of docs/extending.md, in a package that is installed as others would install it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import marc

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, flags=re.DOTALL)
DOORS = re.findall(r"^## A.? (\w+)$", PAGE, flags=re.MULTILINE)
FILES = {
    found[1]: text
    for kind, text in BLOCKS
    if kind in ("python", "toml") and (found := re.match(r"# (\S+\.\w+)\n", text))
}
SNIPPETS = [text for kind, text in BLOCKS if kind == "python" and text.startswith("# in Python")]
COMMANDS = [
    line.removeprefix("$ ").split()
    for kind, text in BLOCKS
    if kind == "console"
    for line in text.splitlines()
]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a pack, pictures and the source of the package."""
    folder = tmp_path_factory.mktemp("extending")
    for path, text in FILES.items():
        (folder / "package" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "package" / path).write_text(text)
    (folder / "package" / "mine" / "__init__.py").write_text("")
    marc.write_pack(marc.synthetic_stream(60, n_classes=4, n_views=1), folder / "photos.npz")
    draw = np.random.default_rng(0)
    for name in ("mug", "key"):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(4):
            pixels = draw.integers(256, size=(70, 80, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def installed(work):
    """Where the package is installed, without a network."""
    install(work / "package", work / "site")
    return work / "site"


def install(package, site):
    copy = site.with_name(f"{site.name}-sources")  # what is built leaves its mark beside it
    package = shutil.copytree(package, copy)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    flags = ["--no-build-isolation", "--disable-pip-version-check", "--target", str(site)]
    done = subprocess.run([*pip, *flags, str(package)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def python(code, folder, path, *args):
    known = os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": known, "COLUMNS": "300"}
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


def call(arguments, folder, path):
    return python("from marc.cli.app import main; main()", folder, path, *arguments)


def test_each_door_has_a_file_and_all_ways():
    assert DOORS == ["method", "policy", "transform", "encoder", "source"]
    assert len(FILES) == len(DOORS) + 1
    assert len(SNIPPETS) == len(DOORS)
    references = [c for c in COMMANDS if "mine." in " ".join(c)]
    assert len(references) >= len(DOORS)
    assert len(COMMANDS) - len(references) >= len(DOORS)


@pytest.mark.parametrize("path", [path for path in FILES if path.endswith(".py")])
def test_an_example_has_at_most_twenty_lines(path):
    code = [line for line in FILES[path].splitlines()[1:] if line.strip()]
    assert len(code) <= 20


@pytest.mark.parametrize("snippet", SNIPPETS, ids=DOORS)
def test_by_object(snippet, work):
    done = python(snippet, work, work / "package")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_on_the_command_line(command, work, request):
    """By reference from the plain source, by name from the installed package."""
    by_reference = "mine." in " ".join(command)
    path = work / "package" if by_reference else request.getfixturevalue("installed")
    command = [part.replace("arrays/", f"arrays/{work}/") for part in command]
    done = call([*command[1:]], work, path)
    assert done.returncode == 0, done.stderr + done.stdout


def test_what_is_installed_is_listed(work, installed):
    assert "counts" in call(["list", "methods", "--json"], work, installed).stdout
    assert "margin" in call(["list", "policies", "--json"], work, installed).stdout
    assert "mine:colours" in call(["list", "encoders", "--json"], work, installed).stdout
    code = "import marc; print(marc.load_stream('drawn/30').features.dim('classes+power'))"
    assert python(code, work, installed).stdout.strip() == "48"


def test_runs_of_others_are_compared(work, installed):
    for name in ("counts", "no-memory"):
        flags = ["--method", name, "--seed", "0", "-o", f"pair/{name}"]
        assert call(["run", f"arrays/{work}/photos.npz", *flags], work, installed).returncode == 0
    done = call(["compare", "pair/counts", "pair/no-memory", "--json"], work, installed)
    assert done.returncode == 0, done.stderr
    assert "counts" in done.stdout


def test_a_snapshot_names_a_method_and_never_imports_one(work, installed):
    save = """import marc; from mine.method import Counts
method = Counts(); list(marc.iter_steps(method, marc.synthetic_stream(9)))
marc.save_snapshot(method, 'theirs.safetensors')"""
    assert python(save, work, work / "package").returncode == 0
    load = "import marc; print(marc.load_snapshot('theirs.safetensors').name)"
    assert python(load, work, installed).stdout.strip() == "counts"
    done = python(load, work, work / "package")
    assert "not known here" in done.stderr
    assert "marc.register_method" in done.stderr
    marked = work / "package" / "mine" / "marked.py"
    marked.write_text("open('imported', 'w')\nclass Counts: pass\n")
    sly = save.replace("marc.save", "type(method).name = 'mine.marked:Counts'; marc.save")
    assert python(sly, work, work / "package").returncode == 0
    assert "not known here" in python(load, work, work / "package").stderr
    assert not (work / "imported").exists()


@pytest.fixture(scope="module")
def broken(work):
    """A package with a method that cannot be imported, one that fails, and one of our names."""
    package = work / "broken"
    (package / "theirs").mkdir(parents=True)
    (package / "theirs" / "__init__.py").write_text("")
    (package / "theirs" / "no_import.py").write_text("raise RuntimeError('no licence')")
    fails = FILES["mine/method.py"].replace('"counts"', '"fails"')
    fails = fails.replace("def step(self, query):", "def step(self, query):\n        1 / 0")
    (package / "theirs" / "fails.py").write_text(fails)
    text = FILES["pyproject.toml"].replace('"mine"', '"theirs"')
    text = re.sub(r"\[project.entry-points\].*", "", text, flags=re.DOTALL)
    text += """[project.entry-points."marc.methods"]
absent = "theirs.no_import:Method"
fails = "theirs.fails:Counts"
tda = "theirs.fails:Counts"
"""
    (package / "pyproject.toml").write_text(text)
    install(package, work / "broken-site")
    return work / "broken-site"


def test_all_goes_on_with_a_broken_package_and_says_why(work, broken):
    flags = ["--method", "all", "--space", "classes", "--dry-run", "--json"]
    done = call(["run", f"arrays/{work}/photos.npz", *flags], work, broken)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {"absent", "fails", "tda"} <= set(result["left_out"])
    assert "no licence" in result["left_out"]["absent"]
    assert "ZeroDivisionError" in result["left_out"]["fails"]
    assert "marc" in result["would_run"]


def test_a_name_of_ours_is_refused_with_both_owners(work, broken):
    done = call(["run", f"arrays/{work}/photos.npz", "--method", "tda"], work, broken)
    assert done.returncode == 2
    assert "that of marc and the package theirs" in done.stderr
    done = call(["list", "methods"], work, broken)
    assert done.returncode == 0, done.stderr
    assert "no licence" in done.stdout


def test_a_broken_method_fails_its_check(work, broken):
    done = call(["check", "--method", "fails"], work, broken)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stdout
    done = call(["check", "--method", "theirs.nothing:Method"], work, broken)
    assert done.returncode == 2
    assert "theirs.nothing" in done.stderr
