"""`marc check`: is everything as it should be? Program, device, disk, encoders and data."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sqlite3
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from marc.cli import console
from marc.cli._data_checks import Finding, Level, check_data, open_data
from marc.cli._options import OFFLINE, ROOT, WEIGHTS
from marc.embed.plan import EncoderSpec
from marc.embed.store import FeatureStore
from marc.encoders import create_encoder, encoder_card, list_encoders
from marc.encoders.cards import Encoder
from marc.encoders.golden import check_golden
from marc.errors import MarcError
from marc.files import cache_folder, versions
from marc.peers.contract import CHECKS, maker, run_checks
from marc.peers.registry import METHODS
from marc.replay.evidence import n_threads
from marc.sources import is_pictures, resolve_source
from marc.types import OnProgress

_LOW = 5e9  # bytes of free disk that are worth a word
_LEVELS: dict[str, Level] = {"same": "ok", "stored": "note", "changed": "wrong", "failed": "wrong"}


def check(
    source: str = typer.Argument("", help="Pictures or features; none checks the rest."),
    encoder: list[str] = typer.Option([], help="Encoders; all mini: ones by default."),
    method: str = typer.Option("", help="A method, to be held to the rules of all methods."),
    root: str = ROOT,
    weights: list[str] = WEIGHTS,
    offline: bool = OFFLINE,
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check program, device, disk, encoders and data. The exit status is 1 if something is wrong.

    Example:  marc check folder/photos --encoder dinov2-b

    A method of your own:  marc check --method package.module:Name
    """
    if method:
        after = f"marc run SOURCE --method {method}"
        _finish([*_check_method(method)], source, after, json=json)
        return
    names = encoder or list_encoders("mini:*")
    for name in names:
        encoder_card(name)  # a name that is not known is refused before anything is done
    if weights and not encoder:
        raise MarcError("weights belong to an encoder", got="--weights", hint="--encoder NAME")
    place = {name: EncoderSpec.weights_of(name, weights, names) for name in names}
    source = resolve_source(source)
    data = open_data(source, Path(root) if root else None) if source else None
    findings = [*_check_program(), *_check_device(), *_check_disk()]
    with console.progress() as bar:
        findings += _check_encoders(place, bar.report, offline=offline)
    if data is not None:
        findings += check_data(source, data)
    _finish(findings, source, _what_next(source, root, encoder), json=json)


def _finish(findings: list[Finding], source: str, after: str, *, json: bool) -> None:
    wrong = [each for each in findings if each.level == "wrong"]
    if json:
        listed = [dataclasses.asdict(each) for each in findings]
        console.as_json("check", {"source": source, "ok": not wrong, "findings": listed})
    else:
        _show(findings, "mend what is wrong, then the same command again" if wrong else after)
    if wrong:
        raise typer.Exit(1)


def _check_method(text: str) -> Iterator[Finding]:
    """The rules of all methods, one by one."""
    card = METHODS.known(METHODS.resolve(text))
    with TemporaryDirectory() as folder, console.progress() as bar:
        checks = run_checks(maker(card, Path(folder)))
        for done, (rule, problem) in enumerate(checks, start=1):
            bar.report("checking the method", done, len(CHECKS))
            text = f"{rule}: {problem}" if problem else rule
            yield Finding(f"method {card.name}", "wrong" if problem else "ok", text)


def _check_program() -> Iterator[Finding]:
    """Versions, found without importing anything."""
    found = {**versions(encoding=True), "sqlite": sqlite3.sqlite_version}
    text = ", ".join(f"{name} {number}" for name, number in found.items())
    yield Finding("program", "ok", text, data={"versions": found})
    missing = [name for name in ("torch", "timm", "open_clip") if find_spec(name) is None]
    if missing:
        text = f"no {', '.join(missing)}: only mini: and onnx: encoders can be used"
        yield Finding("program", "note", text, "pip install 'marc-clip[encoders]'")


def _check_device() -> Iterator[Finding]:
    text = f"{n_threads()} processor cores"
    if {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= {*getattr(os, "sysconf_names", ())}:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        text += f", {memory / 1e9:.0f} GB of memory"
    yield Finding("device", "ok", text)
    if find_spec("torch") is not None:
        yield _gpus()


def _gpus() -> Finding:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a driver that does not answer is reported below
        there = torch.cuda.is_available()
    if there:
        cards = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
        text = ", ".join(f"{card.name} ({card.total_memory / 1e9:.0f} GB)" for card in cards)
        return Finding("device", "ok", f"GPU: {text}")
    if shutil.which("nvidia-smi"):
        text = f"there is a GPU driver, but this torch ({version('torch')}) finds no GPU"
        return Finding("device", "note", text, "install a torch that is built for CUDA")
    return Finding("device", "ok", "no GPU: encoders run on the processor")


def _check_disk() -> Iterator[Finding]:
    for what, folder in (("kept features", cache_folder()), ("this folder", Path.cwd())):
        there = next(each for each in (folder, *folder.parents) if each.is_dir())
        free = shutil.disk_usage(there).free
        text = f"{free / 1e9:.1f} GB free for {what} ({folder})"
        if free < _LOW:
            fix = "MARC_CACHE=DIR puts kept features elsewhere, -o DIR a store"
            yield Finding("disk", "note", text, fix, {"free": free})
        else:
            yield Finding("disk", "ok", text, data={"free": free})


def _check_encoders(
    weights: dict[str, str | None], report: OnProgress, *, offline: bool
) -> Iterator[Finding]:
    """The golden vectors of each encoder, in float32: a coarser number would hide mistakes."""
    for done, (name, place) in enumerate(weights.items()):
        report("checking encoders", done, len(weights))
        try:
            loaded = create_encoder(name, weights=place, offline=offline, precision="float32")
        except MarcError as error:
            text = f"{name}: {error.problem}" + (f" ({error.got})" if error.got else "")
            yield Finding("encoders", "wrong", text, error.hint or "")
            continue
        yield _compared(loaded)
    report("checking encoders", len(weights), len(weights))


def _compared(encoder: Encoder) -> Finding:
    verdict = check_golden(encoder)
    text = f"{verdict.name}: {verdict.message}"
    if verdict.tolerance:
        text += f" (1 - cosine {verdict.largest:.0e}, noise up to {verdict.tolerance:.0e})"
    data = {**dataclasses.asdict(verdict), "digest": encoder.card.digest}
    return Finding("encoders", _LEVELS[verdict.status], text, data=data)


def _show(findings: list[Finding], after: str) -> None:
    section = ""
    for each in findings:
        if each.section != section:
            section = each.section
            console.say(section, bold=True)
        console.say(f"  {each.level:5}  {each.text}", always=each.level == "wrong")
        if each.fix:
            console.say(f"         try: {each.fix}")
    n_wrong, n_notes = (sum(e.level == level for e in findings) for level in ("wrong", "note"))
    notes = f", {n_notes} to note" if n_notes else ""
    console.say(f"{f'{n_wrong} wrong' if n_wrong else 'nothing is wrong'}{notes}")
    console.say(f"next: {after}")


def _what_next(source: str, root: str, encoders: list[str]) -> str:
    if not source:
        return "marc check folder/DIR for your pictures, or marc demo"
    if is_pictures(source):
        where = f" --root {root}" if root else ""
        embed = f"marc embed {source}{where} --encoder {' '.join(encoders or ['dinov2-b'])}"
        store = FeatureStore.default_path(source)
        return f"{embed}\n  then: marc check store/{store}, for the label order"
    return f"marc select {source}"
