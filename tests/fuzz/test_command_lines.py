"""Every option of every command with odd values: an end within seconds, and no surprise."""

import shutil

import pytest
import typer.main
from helpers.commands import PAPER, call
from helpers.fuzzing import Tries
from PIL import Image

import marc
from marc.cli import app

NUMBERS = [-1, 0, 1, 2**31, 2**63, 10**24, "1e308", "nan", "-inf", "1e-320", "x", "", "0x10", "٣"]
TEXTS = [
    "",
    "x",
    "-",
    "..",
    "/dev/zero",
    "\x1b[31m",
    "\udcff",
    "a\0b",
    "a" * 5000,
    "=1+1",
    "[" * 999,
]
SLOW = {"--ray", "--lab", "--paper", "--quick", "--help", "--version", "--figures"}


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """For every command a line that works."""
    folder = tmp_path_factory.mktemp("lines")
    pack = f"arrays/{folder / 'a.npz'}"
    marc.write_pack(marc.synthetic_stream(n_images=40, n_classes=4, n_views=2), folder / "a.npz")
    (folder / "photos" / "cat").mkdir(parents=True)
    for row in range(4):
        Image.new("RGB", (40, 40), (40 * row, 0, 0)).save(folder / "photos" / "cat" / f"{row}.png")
    for kind, words in {"run": [*PAPER, "--seed", "0"], "sweep": ["--space", "classes"]}.items():
        assert call(kind, pack, *words, "-o", folder / kind).status == 0
    encoders = ["--encoder", "mini:pixels", "--predictor", "mini:captions", "--workers", "0"]
    return {
        "run": [pack, *PAPER],
        "sweep": [pack, "--space", "classes"],
        "geometry": [pack, "--replicates", "2"],
        "select": [pack, "--replicates", "2"],
        "compare": [folder / "run", folder / "run"],
        "judge": [folder / "run"],
        "report": [folder / "sweep"],
        "embed": [f"folder/{folder / 'photos'}", *encoders],
        "check": [pack, "--encoder", "mini:pixels"],
        "list": ["methods"],
        "study": ["no-such-plan.toml"],
    }


COMMANDS = {
    name: [p for p in command.params if p.param_type_name == "option" and not p.is_flag]
    for name, command in typer.main.get_command(app._app).commands.items()
    if name not in ("demo", "verify")  # it takes a minute, or has no options
}


@pytest.mark.parametrize("name", COMMANDS)
def test_odd_values_of_options(lines, tmp_path, monkeypatch, record_property, name):
    monkeypatch.chdir(tmp_path)
    cases = [
        (option.opts[-1], value)
        for option in COMMANDS[name]
        if option.opts[-1] not in SLOW
        for value in (*NUMBERS, *TEXTS)
    ]
    tries = Tries(f"options of {name}", record_property)
    for (option, value), _ in zip(cases, tries(len(cases)), strict=True):
        for left in tmp_path.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        with tries.one(f"{option} {value!r:.40}"):
            outcome = call(name, *lines[name], option, value)
            if not tries.refused(outcome):
                tries.counts["other"] += 1
