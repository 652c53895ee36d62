"""Every option of every command with odd values: an end within seconds, and no surprise."""

import asyncio
import inspect
import json
import shutil

import pytest
import typer.main
from helpers.commands import PAPER, call
from helpers.embedding_trees import PREDICTOR, SPACES, draw_lab_folder
from helpers.fuzzing import Tries

import marc
from marc.cli import app
from marc.peers.registry import METHODS
from marc.serve import server
from marc.serve.server import running

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
    -1,
    2**63,
    "nan",
    "1e308",
]
SETTINGS = [-1, 0, 2**31, 10**24, 1e9, "1e308", "nan", "1e-320", "x"]
SLOW = {"--ray", "--track", "--lab", "--paper", "--quick", "--help", "--version", "--figures"}


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """For every command a line that works."""
    folder = tmp_path_factory.mktemp("lines")
    with running(folder / "memories") as url:
        yield made(folder, url)


def made(folder, url):
    pack = f"arrays/{folder / 'a.npz'}"
    marc.write_pack(marc.synthetic_stream(n_images=40, n_classes=4, n_views=2), folder / "a.npz")
    draw_lab_folder(folder / "photos", count=4)
    for kind, words in {"run": [*PAPER, "--seed", "0"], "sweep": ["--space", "classes"]}.items():
        assert call(kind, pack, *words, "-o", folder / kind).status == 0
    encoders = ["--encoder", SPACES[0], "--predictor", PREDICTOR, "--workers", "0", "--offline"]
    return {
        "run": [pack, *PAPER],
        "sweep": [pack, "--space", "classes"],
        "geometry": [pack, "--replicates", "2"],
        "select": [pack, "--replicates", "2"],
        "compare": [folder / "run", folder / "run"],
        "judge": [folder / "run"],
        "report": [folder / "sweep"],
        "export": [folder / "run", "--to", "csv"],
        "embed": [f"folder/{folder / 'photos'}", *encoders],
        "adapt": [folder / "photos", *encoders[:4], "--offline"],
        "check": [pack, "--encoder", "mini:pixels"],
        "list": ["methods"],
        "study": ["no-such-plan.toml"],
        "serve": ["--data", folder / "served", "--port", 0],
        "send": [pack, "--to", url, "--memory", "m", "--limit", 2],
    }


@pytest.fixture(autouse=True)
def not_for_ever(monkeypatch):
    """A server stops as soon as it is there."""

    def run(self, sockets):
        async def briefly():
            await self._context.service.start()
            await self._context.service.stop()

        asyncio.run(briefly())
        self.started = True

    monkeypatch.setattr(server._Server, "run", run)


def values(command, option):
    """Odd values of an option: numbers of one that takes them, else texts."""
    kind = str(inspect.signature(command.callback).parameters[option.name].annotation)
    return NUMBERS if "int" in kind or "float" in kind else TEXTS


COMMANDS = {
    name: [
        (option.opts[-1], value)
        for option in command.params
        if option.param_type_name == "option" and not option.is_flag
        if option.opts[-1] not in SLOW
        for value in values(command, option)
    ]
    for name, command in typer.main.get_command(app._app).commands.items()
    if name not in ("demo", "verify")  # it takes a minute, or has no options
}


@pytest.mark.parametrize("name", COMMANDS)
def test_odd_values_of_options(lines, tmp_path, monkeypatch, record_property, name):
    monkeypatch.chdir(tmp_path)
    assert name == "study" or call(name, *lines[name]).status == 0
    cases = COMMANDS[name]
    tries = Tries(f"options of {name}", record_property)
    for (option, value), _ in zip(cases, tries(len(cases)), strict=True):
        clear(tmp_path)
        with tries.one(f"{option} {value!r:.40}"):
            outcome = call(name, *lines[name], option, value)
            if not tries.refused(outcome):
                tries.counts["other"] += 1


def clear(folder):
    for left in folder.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()


def test_odd_values_of_settings(lines, tmp_path, monkeypatch, record_property):
    """Settings of every method, whose words say which it was."""
    monkeypatch.chdir(tmp_path)
    cases = [
        (method, setting, value)
        for method, card in METHODS.items()
        for setting in card.settings
        for value in SETTINGS
    ]
    tries = Tries("settings of methods", record_property)
    for (method, setting, value), _ in zip(cases, tries(len(cases)), strict=True):
        clear(tmp_path)
        words = ["--method", method, "--seed", 0, "--views", 1, "--json"]
        words += PAPER[2:] if "space" in METHODS[method].needs else []
        own = setting in ("capacity", "weight", "policy")
        words += [f"--{setting}", value] if own else ["--set", f"{setting}={value}"]
        with tries.one(f"{method} {setting} {value}"):
            outcome = call("run", lines["run"][0], *words)
            assert "encountered in" not in outcome.err, outcome.err  # NumPy's words
            if not tries.refused(outcome):
                json.loads(outcome.out, parse_constant=pytest.fail)
                tries.counts["other"] += 1
