"""`marc check`: is everything as it should be? Program, device, disk, encoders and data."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import typer

from marc.cli import console
from marc.cli._label_order import check_label_order
from marc.cli._options import open_stream
from marc.embed.plan import EncoderSpec
from marc.embed.store import FeatureStore
from marc.encoders import create_encoder, encoder_card, list_encoders
from marc.encoders.cards import Encoder
from marc.encoders.golden import check_golden
from marc.errors import MarcError
from marc.files import cache_folder, user_path, versions
from marc.peers.contract import CHECKS, maker, run_checks
from marc.peers.registry import METHODS
from marc.pictures import NAMED_SETS, ImageSet, open_images
from marc.pictures.decoding import Unreadable, read_picture
from marc.pictures.image_set import Location
from marc.replay.evidence import n_threads
from marc.sources import is_pictures, resolve_source
from marc.stream import Stream
from marc.types import OnProgress

_Level = Literal["ok", "note", "wrong"]
_Labels = Sequence[int] | np.ndarray | None

_LOW = 5e9  # bytes of free disk that are worth a word
_SHOWN = 3  # examples in a line
_LEVELS: dict[str, _Level] = {"same": "ok", "stored": "note", "changed": "wrong", "failed": "wrong"}


@dataclass(frozen=True)
class _Finding:
    """One line of a check."""

    section: str
    level: _Level
    text: str
    fix: str = ""
    """What to do about it."""
    data: dict[str, Any] = field(default_factory=dict)
    """The whole of it, for JSON."""


_of_data = partial(_Finding, "data")


def check(
    source: str = typer.Argument("", help="Pictures or features; none checks the rest."),
    encoder: list[str] = typer.Option([], help="Encoders; all mini: ones by default."),
    method: str = typer.Option("", help="A method, to be held to the rules of all methods."),
    root: str = typer.Option("", help="Where a named data set lies."),
    weights: list[str] = typer.Option(
        [], help="Weights on disk: a file, a folder with NAME.safetensors, or NAME=PATH."
    ),
    offline: bool = typer.Option(False, "--offline", help="Never touch the network."),
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
    data = _open_data(source, Path(root) if root else None) if source else None
    findings = [*_check_program(), *_check_device(), *_check_disk()]
    with console.progress() as bar:
        findings += _check_encoders(place, bar.report, offline=offline)
    if data is not None:
        findings += _check_data(source, data)
    _finish(findings, source, _what_next(source, root, encoder), json=json)


def _finish(findings: list[_Finding], source: str, after: str, *, json: bool) -> None:
    wrong = [each for each in findings if each.level == "wrong"]
    if json:
        listed = [dataclasses.asdict(each) for each in findings]
        console.as_json("check", {"source": source, "ok": not wrong, "findings": listed})
    else:
        _show(findings, "mend what is wrong, then the same command again" if wrong else after)
    if wrong:
        raise typer.Exit(1)


def _check_method(text: str) -> Iterator[_Finding]:
    """The rules of all methods, one by one."""
    card = METHODS.known(METHODS.resolve(text))
    with TemporaryDirectory() as folder, console.progress() as bar:
        checks = run_checks(maker(card, Path(folder)))
        for done, (rule, problem) in enumerate(checks, start=1):
            bar.report("checking the method", done, len(CHECKS))
            text = f"{rule}: {problem}" if problem else rule
            yield _Finding(f"method {card.name}", "wrong" if problem else "ok", text)


def _check_program() -> Iterator[_Finding]:
    """Versions, found without importing anything."""
    found = versions(encoding=True)
    text = ", ".join(f"{name} {number}" for name, number in found.items())
    yield _Finding("program", "ok", text, data={"versions": found})
    missing = [name for name in ("torch", "timm", "open_clip") if find_spec(name) is None]
    if missing:
        text = f"no {', '.join(missing)}: only mini: and onnx: encoders can be used"
        yield _Finding("program", "note", text, "pip install 'marc-clip[encoders]'")


def _check_device() -> Iterator[_Finding]:
    text = f"{n_threads()} processor cores"
    if {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= {*getattr(os, "sysconf_names", ())}:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        text += f", {memory / 1e9:.0f} GB of memory"
    yield _Finding("device", "ok", text)
    if find_spec("torch") is not None:
        yield _gpus()


def _gpus() -> _Finding:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a driver that does not answer is reported below
        there = torch.cuda.is_available()
    if there:
        cards = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
        text = ", ".join(f"{card.name} ({card.total_memory / 1e9:.0f} GB)" for card in cards)
        return _Finding("device", "ok", f"GPU: {text}")
    if shutil.which("nvidia-smi"):
        text = f"there is a GPU driver, but this torch ({version('torch')}) finds no GPU"
        return _Finding("device", "note", text, "install a torch that is built for CUDA")
    return _Finding("device", "ok", "no GPU: encoders run on the processor")


def _check_disk() -> Iterator[_Finding]:
    for what, folder in (("kept features", cache_folder()), ("this folder", Path.cwd())):
        there = next(each for each in (folder, *folder.parents) if each.is_dir())
        free = shutil.disk_usage(there).free
        text = f"{free / 1e9:.1f} GB free for {what} ({folder})"
        if free < _LOW:
            fix = "MARC_CACHE=DIR puts kept features elsewhere, -o DIR a store"
            yield _Finding("disk", "note", text, fix, {"free": free})
        else:
            yield _Finding("disk", "ok", text, data={"free": free})


def _check_encoders(
    weights: dict[str, str | None], report: OnProgress, *, offline: bool
) -> Iterator[_Finding]:
    """The golden vectors of each encoder, in float32: a coarser number would hide mistakes."""
    for done, (name, place) in enumerate(weights.items()):
        report("checking encoders", done, len(weights))
        try:
            loaded = create_encoder(name, weights=place, offline=offline, precision="float32")
        except MarcError as error:
            text = f"{name}: {error.problem}" + (f" ({error.got})" if error.got else "")
            yield _Finding("encoders", "wrong", text, error.hint or "")
            continue
        yield _compared(loaded)
    report("checking encoders", len(weights), len(weights))


def _compared(encoder: Encoder) -> _Finding:
    verdict = check_golden(encoder)
    text = f"{verdict.name}: {verdict.message}"
    if verdict.tolerance:
        text += f" (1 - cosine {verdict.largest:.0e}, noise up to {verdict.tolerance:.0e})"
    data = {**dataclasses.asdict(verdict), "digest": encoder.card.digest}
    return _Finding("encoders", _LEVELS[verdict.status], text, data=data)


def _show(findings: list[_Finding], after: str) -> None:
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


def _open_data(source: str, root: Path | None) -> ImageSet | Stream:
    """The pictures of a source, or its features as seen through one view."""
    if is_pictures(source):
        return open_images(source, root)
    if root is not None:
        got = f"{source} --root {root}"
        raise MarcError("only sources of pictures have a root folder", got=got)
    return open_stream(source, 1)


def _check_data(source: str, data: ImageSet | Stream) -> Iterator[_Finding]:
    if isinstance(data, ImageSet):
        with console.progress() as bar:
            yield from _check_pictures(data, bar.report)
        return
    if source.startswith("store/"):
        yield from _store(user_path(source.removeprefix("store/")))
    yield from _check_features(data)


def _check_pictures(images: ImageSet, report: OnProgress) -> Iterator[_Finding]:
    """Counts, what was passed over, pictures that cannot be read, and copies."""
    yield _of_data(
        "ok", f"{len(images):,} pictures in {images.name}", data={"n_images": len(images)}
    )
    yield from _classes(images.labels, images.class_names)
    published = NAMED_SETS.get(images.name)
    if published is not None:
        whole = len(images) == published.images
        text = f"the published set has {published.images:,} pictures, this one {len(images):,}"
        fix = "" if whole else "unpack the published archive again; results will not be comparable"
        yield _of_data("ok" if whole else "wrong", text, fix)
    for note in images.notes:
        if "the published set has" not in note or "classes" in note:
            yield _of_data("note", note)
    if images.passed_over:
        reasons = console.tally([reason for _, reason in images.passed_over])
        text = f"{console.count(len(images.passed_over), 'other file')} passed over ({reasons})"
        examples = _examples([path for path, _ in images.passed_over])
        data = {"passed_over": [list(each) for each in images.passed_over]}
        yield _of_data("note", f"{text}: {examples}", data=data)
    yield _readable(images, report)
    yield from _copies(images, report)


def _check_features(stream: Stream) -> Iterator[_Finding]:
    """Counts, equal vectors, and whether labels and predictor count the classes alike."""
    spaces = ", ".join(stream.spaces)
    text = f"{len(stream):,} images, {stream.n_classes:,} classes; spaces: {spaces}"
    yield _of_data("ok", text, data={"n_images": len(stream), "spaces": [*stream.spaces]})
    labels = stream.row_labels
    yield from _classes(labels, stream.features.class_names)
    yield from _equal_vectors(stream)
    if labels is None:
        return
    answers = stream.features.base.label
    found = check_label_order(answers, labels, stream.n_classes, stream.features.class_names)
    levels: dict[str, _Level] = {"fine": "ok", "permuted": "wrong", "cannot tell": "note"}
    level = "note" if found.moved else levels[found.status]
    yield _of_data(level, found.message, found.fix, {"label_order": dataclasses.asdict(found)})


def _classes(labels: _Labels, names: Sequence[str]) -> Iterator[_Finding]:
    if labels is None:
        yield _of_data("note", "no labels: spaces can be chosen, accuracy cannot be measured")
        return
    seen = Counter(int(each) for each in labels)
    known = dict(enumerate(names)) or {label: f"class {label}" for label in sorted(seen)}
    few, many = (pick(seen, key=lambda label: seen[label]) for pick in (min, max))
    text = f"{len(seen):,} classes with {seen[few]:,}"
    if seen[few] < seen[many]:
        text += f" ({known[few]}) to {seen[many]:,} ({known[many]})"
    counts = [[name, seen[label]] for label, name in known.items()]
    yield _of_data("ok", f"{text} images each", data={"per_class": counts})
    empty = [name for label, name in known.items() if label not in seen]
    if empty:
        yield _of_data("note", f"{len(empty)} classes without images: {_examples(empty)}")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        fix = "other names: the predictor cannot tell classes of one name apart"
        text = f"{len(twice)} names are given to several classes: {_examples(twice)}"
        yield _of_data("note", text, fix)


def _readable(images: ImageSet, report: OnProgress) -> _Finding:
    """Whether all pictures can be decoded. Threads will do: decoders let others run."""
    bad: dict[str, str] = {}
    with ThreadPoolExecutor() as pool:
        problems = pool.map(partial(_problem, upright=images.upright), images.locations)
        for done, (name, problem) in enumerate(zip(images.ids, problems, strict=True), 1):
            report("reading pictures", done, len(images))
            if problem is not None:
                bad[name] = problem
    if not bad:
        return _of_data("ok", "all pictures can be read")
    reasons = console.tally([*bad.values()])
    text = f"not readable: {console.count(len(bad), 'picture')} ({reasons}): {_examples([*bad])}"
    fix = "replace or delete them; marc embed leaves them out and says so"
    return _of_data("wrong", text, fix, {"unreadable": bad})


def _problem(location: Location, *, upright: bool) -> str | None:
    try:
        read_picture(location, upright=upright)
    except Unreadable as error:
        return error.reason
    return None


def _copies(images: ImageSet, report: OnProgress) -> Iterator[_Finding]:
    row = {name: index for index, name in enumerate(images.ids)}
    rows = [[row[name] for name in group] for group in images.duplicates(report)]
    yield from _copied(rows, images.ids, images.labels, "pictures have the same bytes")


def _equal_vectors(stream: Stream) -> Iterator[_Finding]:
    seen: dict[bytes, list[int]] = {}
    for index, key in enumerate(stream.features.clip_keys):
        seen.setdefault(hashlib.sha256(key.tobytes()).digest(), []).append(index)
    groups = [group for group in seen.values() if len(group) > 1]
    what = "images have equal features in the predictor's space"
    yield from _copied(groups, stream.features.ids, stream.row_labels, what)


def _copied(
    groups: list[list[int]],
    ids: Sequence[str],
    labels: _Labels,
    what: str,
) -> Iterator[_Finding]:
    """Groups of copies: within one label they waste room, under two labels one is wrong."""
    if not groups:
        yield _of_data("ok", f"no two {what}")
        return
    torn = [g for g in groups if labels is not None and len({int(labels[row]) for row in g}) > 1]
    rest = [group for group in groups if group not in torn]
    for level, some, more, fix in (
        ("wrong", torn, " but different labels", "keep each once, under its true label"),
        ("note", rest, "", "keep one of each, unless the published set has them too"),
    ):
        if some:
            named = [[ids[row] for row in group] for group in some]
            # one of each label, so that the conflict can be seen; of one label the first two
            by_label = (
                {int(labels[row]): ids[row] for row in reversed(some[0])}
                if torn is some and labels is not None
                else {}
            )
            shown = [*reversed(by_label.values())] if by_label else named[0]
            n_images = sum(map(len, some))
            text = f"{n_images} {what}{more}, in {len(some)} groups: {' = '.join(shown[:2])}"
            yield _Finding("data", level, text, fix, {"copies": named})  # type: ignore[arg-type]


def _store(path: Path) -> Iterator[_Finding]:
    store = FeatureStore(path)
    codes = [int(code) for code in store.get(store.STATUS) if code]
    if codes:
        reasons = console.tally([Unreadable.REASONS.get(code, f"code {code}") for code in codes])
        text = f"in quarantine: {len(codes)} of {store.n_images:,} pictures ({reasons})"
        yield _of_data("note", text, f"marc check {quote(store.about['source'])} names them")
    whole = [name for name in store.feature_arrays() if store.is_complete(name)]
    broken = sorted(name for name in whole if not store.is_sound(name))
    if broken:
        text = f"not what was written: {', '.join(broken)}"
        yield _of_data(
            "wrong", text, "the marc embed that made it, with --force", {"broken": broken}
        )
    else:
        yield _of_data("ok", f"{console.count(len(whole), 'array')} as they were written")


def _examples(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
