"""Folders of runs and sweeps that were changed: read as they were written, or refused."""

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from helpers.commands import PAPER, call, reseal, tree
from helpers.fuzzing import Tries
from helpers.mutations import edit_arrays, edit_json, mutate

import marc

EDITORS = {".json": edit_json, ".npz": edit_arrays}
SETTINGS = {"run": [*PAPER, "--seed", "0", "1"], "sweep": ["--space", "classes", "--seed", "0"]}
UNREAD = {"log.jsonl", ".lock"}
"""Files that no reader reads."""


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    path = tmp_path_factory.mktemp("pack") / "whole.npz"
    marc.write_pack(marc.synthetic_stream(n_images=24, n_classes=4, n_views=2), path)
    return path


def make(kind, pack, out):
    return call(kind, f"arrays/{pack}", *SETTINGS[kind], "-o", out)


def content(kind, path):
    """Everything that the Python reader gives of a folder, but times."""
    if kind == "sweep":
        return plain(marc.load_sweep(path))
    return [{**plain(run), "seconds": None} for run in marc.load_run(path)]


def plain(value):
    """A value as what can be compared."""
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    return repr(value.tolist()) if isinstance(value, np.ndarray) else repr(value)


def change(folder, draw):
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in UNREAD)
    path = files[int(draw.integers(len(files)))]
    return mutate(path, draw, EDITORS.get(path.suffix))


@pytest.mark.parametrize("kind", SETTINGS)
def test_changed_folders(pack, tmp_path, record_property, kind):
    assert make(kind, pack, tmp_path / "whole").status == 0
    whole = content(kind, tmp_path / "whole")
    tries = Tries(f"{kind} folders", record_property)
    for draw in tries(250):
        path = tmp_path / f"{tries.seed}"
        shutil.copytree(tmp_path / "whole", path)
        with tries.one(change(path, draw)):
            try:
                assert content(kind, path) == whole
                tries.counts["same"] += 1
            except marc.MarcError:
                tries.counts["refused"] += 1


def test_comparisons_with_changed_folders(pack, tmp_path, record_property):
    whole, path = tmp_path / "whole", tmp_path / "b"
    assert make("run", pack, whole).status == 0
    shutil.copytree(whole, path)
    compared = call("compare", whole, path, "--json")
    assert compared.status == 0
    tries = Tries("comparisons", record_property)
    for draw in tries(100):
        shutil.rmtree(path)
        shutil.copytree(whole, path)
        with tries.one(change(path, draw)):
            outcome = call("compare", whole, path, "--json")
            if not tries.refused(outcome):
                assert outcome.out == compared.out
                tries.counts["same"] += 1


def test_reports_of_changed_folders(pack, tmp_path, record_property):
    whole, path, page = tmp_path / "whole", tmp_path / "b", tmp_path / "page.html"
    assert make("sweep", pack, whole).status == 0
    tries = Tries("reports", record_property)
    for draw in tries(30):
        shutil.rmtree(path, ignore_errors=True)
        page.unlink(missing_ok=True)
        shutil.copytree(whole, path)
        with tries.one(change(path, draw)):
            if tries.refused(call("report", path, "-o", page)):
                assert not page.exists()
            else:
                tries.counts["same"] += 1


@pytest.mark.parametrize("kind", SETTINGS)
def test_the_same_command_on_a_changed_folder(pack, tmp_path, record_property, kind):
    assert make(kind, pack, tmp_path / "whole").status == 0
    whole = content(kind, tmp_path / "whole")
    tries = Tries(f"{kind} into changed folders", record_property)
    for draw in tries(100):
        path = tmp_path / f"{tries.seed}"
        shutil.copytree(tmp_path / "whole", path)
        with tries.one(change(path, draw)):
            before = names(path)
            outcome = make(kind, pack, path)
            if tries.refused(outcome):
                assert names(path) == before
            else:
                assert content(kind, path) == whole
                tries.counts["same"] += 1


def names(folder):
    return {name for name in tree(folder) if name not in UNREAD}


@pytest.mark.parametrize("kind", SETTINGS)
def test_folders_that_were_edited_and_sealed_again(pack, tmp_path, record_property, kind):
    """No digest helps there: what is read is sound data, or refused."""
    whole, path, page = tmp_path / "whole", tmp_path / "b", tmp_path / "page.html"
    assert make(kind, pack, whole).status == 0
    tries = Tries(f"forged {kind} folders", record_property)
    for draw in tries(150):
        shutil.rmtree(path, ignore_errors=True)
        page.unlink(missing_ok=True)
        shutil.copytree(whole, path)
        files = [each for each in path.iterdir() if each.name not in {*UNREAD, "digests.json"}]
        file = sorted(files)[int(draw.integers(len(files)))]
        changed, words = EDITORS[file.suffix](file.read_bytes(), draw)
        file.write_bytes(changed)
        reseal(path)
        with tries.one(f"{file.name}: {words}"):
            command = ["compare", whole, path] if kind == "run" else ["report", path, "-o", page]
            outcome = call(*command)
            if not tries.refused(outcome):
                tries.counts["other"] += 1
            with contextlib.suppress(marc.MarcError):
                content(kind, path)
