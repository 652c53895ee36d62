"""Files of a memory that were damaged: it opens as it really was, or says clearly why not."""

import shutil
import sqlite3

import numpy as np
import pytest
from helpers.durable import METHODS, killed_copy, lived, opened, state_of, step
from helpers.fuzzing import Tries
from helpers.mutations import damage, swap

from marc.errors import MarcError

TRIES = 60
PAGE = 4096
COUNT = "log.sqlite-acknowledged"


@pytest.fixture(scope="module", params=METHODS)
def memory(request, tmp_path_factory):
    """The folder of a memory that was killed, its states commit by commit, and its answers."""
    folder = tmp_path_factory.mktemp("memory")
    served, states, answers = lived(folder / "m", request.param)
    killed_copy(served, folder / "killed")
    served.close()
    return folder / "killed", states, answers


def wreck(path, draw):
    """Change a file as disks and people do; says how."""
    chance, content = draw.random(), path.read_bytes()
    if chance < 0.1:
        return swap(path, draw)
    if chance < 0.3 and len(content) >= 2 * PAGE:
        pages = [content[at : at + PAGE] for at in range(0, len(content), PAGE)]
        one, other = draw.choice(len(pages), 2, replace=False)
        pages[one], pages[other] = pages[other], pages[one]
        path.write_bytes(b"".join(pages))
        return f"{path.name}: pages {one} and {other} swapped"
    if chance < 0.45 and len(content) >= PAGE:
        at = PAGE * int(draw.integers(len(content) // PAGE))
        path.write_bytes(content[:at] + bytes(PAGE) + content[at + PAGE :])
        return f"{path.name}: page {at // PAGE} zeroed"
    changed, words = damage(content, draw)
    path.write_bytes(changed)
    return f"{path.name}: {words}"


def files_of(folder):
    snapshots = sorted((folder / "snapshots").glob("*"))
    names = ("log.sqlite", "log.sqlite-wal", "made.safetensors", COUNT)
    return [folder / name for name in names] + snapshots


def outcome(folder, states, answers):
    """The number of the state that it opens in, and goes on from; None where it is refused."""
    try:
        with opened(folder) as served:
            number = states.index(state_of(served))
            if (seq := served.seq) < len(answers):
                assert step(served, seq + 1) == answers[seq]
            return number
    except MarcError:
        return None


@pytest.mark.parametrize("is_counted", [True, False], ids=["counted", "uncounted"])
def test_a_damaged_memory_opens_as_it_was_or_is_refused(
    memory, tmp_path, is_counted, record_property
):
    folder, states, answers = memory
    tries = Tries(f"serve-{is_counted}", record_property)
    for draw in tries(TRIES):
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        if not is_counted:
            (copy / COUNT).unlink()
        paths = [path for path in files_of(copy) if path.exists()]
        with tries.one(words := wreck(paths[int(draw.integers(len(paths)))], draw)):
            number = outcome(copy, states, answers)
            if is_counted and not words.startswith(COUNT):
                assert number in (None, len(states) - 1)
            is_last = number == len(states) - 1
            tries.counts["refused" if number is None else "same" if is_last else "other"] += 1
        shutil.rmtree(copy)
    assert tries.counts["refused"] > 0
    assert tries.counts["same"] > 0
    assert (tries.counts["other"] > 0) == (not is_counted)


def test_the_fixture_has_something_to_lose_in_every_file(memory):
    folder, states, answers = memory
    assert len(set(states)) > len(answers)  # steps and labels; a snapshot changes no state
    for path in files_of(folder):
        assert path.stat().st_size > (60 if path.name == COUNT else PAGE // 8), path


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.6, 0.9, 0.999])
def test_a_log_that_was_cut_is_refused_by_the_count(memory, tmp_path, fraction):
    folder, states, answers = memory
    shutil.copytree(folder, tmp_path / "copy")
    wal = tmp_path / "copy" / "log.sqlite-wal"
    wal.write_bytes(wal.read_bytes()[: int(wal.stat().st_size * fraction)])
    with pytest.raises(MarcError, match="commits are missing"), opened(tmp_path / "copy"):
        pass
    (tmp_path / "copy" / COUNT).unlink()  # as the hint says: go on from what is left
    assert outcome(tmp_path / "copy", states, answers) is not None


def test_a_log_that_was_deleted_is_refused_by_the_count(memory, tmp_path):
    folder, _, _ = memory
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "log.sqlite-wal").unlink()
    with pytest.raises(MarcError, match="commits are missing"), opened(tmp_path / "copy"):
        pass


@pytest.mark.parametrize("table", ["steps", "effects", "labels", "sums", "head"])
def test_a_row_that_is_gone_or_changed_is_noticed(memory, tmp_path, table):
    folder, states, answers = memory
    columns = {
        "steps": "answer = x'00'",
        "effects": "effect = x'00'",
        "labels": "label = 3 - label",
        "sums": "content = x'00'",
        "head": "state = replace(state, 'shadow', 'live')",
    }
    for change in (f"delete from {table} where rowid = (select max(rowid) from {table})",
                   f"delete from {table} where rowid = (select min(rowid) from {table})",
                   f"update {table} set {columns[table]}"):  # fmt: skip
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        db = sqlite3.connect(copy / "log.sqlite")
        changed = db.execute(change).rowcount
        db.commit()
        db.close()
        if changed or table != "sums":  # which only a learned weight has
            assert outcome(copy, states, answers) is None, change
        shutil.rmtree(copy)


def test_every_bit_of_a_head_counts(memory, tmp_path):
    folder, states, answers = memory
    copy = shutil.copytree(folder, tmp_path / "copy")
    with opened(copy):
        pass  # all of it is in one file now
    content = (copy / "log.sqlite").read_bytes()
    at = content.index(b'{"seq":')
    for place in np.random.default_rng(0).integers(at, at + 150, 20):
        changed = bytearray(content)
        changed[place] ^= 4
        (copy / "log.sqlite").write_bytes(changed)
        assert outcome(copy, states, answers) is None


def test_the_log_of_one_memory_with_the_snapshot_of_another_is_refused(tmp_path):
    for name, at in (("one", 9), ("other", 8)):
        served, _, _ = lived(tmp_path / name, snapshot_at=at)
        served.close()
    [mine], [others] = ([*(tmp_path / n / "snapshots").iterdir()] for n in ("one", "other"))
    mine.write_bytes(others.read_bytes())
    with pytest.raises(MarcError, match="another snapshot"), opened(tmp_path / "one"):
        pass
