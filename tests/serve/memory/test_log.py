import sqlite3

import pytest

from marc.errors import MarcError
from marc.serve.memory.acknowledged import Acknowledged
from marc.serve.memory.log import LabelRow, Log, StepRow, new_head


def row(seq, **more):
    effect = more.pop("effect", b"effect" * 300)
    answer = b'{"seq": %d}' % seq
    values = (seq, f"id-{seq}", 1.5, 0, seq % 2, True, 10.0, True, answer, effect)
    return StepRow(*values)._replace(**more)


@pytest.fixture
def path(tmp_path):
    Log.create(tmp_path / "log.sqlite", new_head())
    return tmp_path / "log.sqlite"


def filled(path, n=6):
    log, head = Log(path), new_head()
    for seq in range(1, n + 1):
        head = {**head, "seq": seq, "n_seen": seq}
        log.commit(head, steps=[row(seq)], thumbnails=[(seq, b"picture")], sums=b"%d" % seq)
    return log, head


def test_a_log_gives_back_what_was_written(path):
    log, head = filled(path)
    log.commit(head, labels=[LabelRow(1, "id-2", 2, 1, None), LabelRow(2, "id-3", 3, -1, 0)])
    log.close()
    log = Log(path)
    assert log.head() == head
    assert [*log.effects(after=0)] == [row(seq) for seq in range(1, 7)]
    assert [each.seq for each in log.effects(after=4)] == [5, 6]
    assert log.known(["id-3", "no"]) == {"id-3": row(3, effect=None)}
    assert log.known_many([f"id-{n}" for n in range(2000)]).keys() == {
        f"id-{n}" for n in range(1, 7)
    }
    assert log.step(7) is None
    assert log.sums() == (6, b"6")
    assert [label.id for label in log.labels()] == ["id-2", "id-3"]
    assert log.label("id-3") == LabelRow(2, "id-3", 3, -1, 0)
    assert log.label("id-4") is None
    assert log.n_labels() == 2
    assert log.unlabelled(1, 10) == [5, 1]
    assert log.thumbnails([5, 6, 7]) == {5, 6}
    assert log.thumbnail(5) == b"picture"
    assert log.thumbnail(7) is None
    log.verify()
    log.close()


def test_a_label_may_be_corrected(path):
    log, head = filled(path)
    log.commit(head, labels=[LabelRow(1, "id-2", 2, 1, None)])
    log.commit(head, labels=[LabelRow(1, "id-2", 2, 0, 1), LabelRow(2, "id-1", 1, 0, 1)])
    log.close()
    log = Log(path)
    assert [label.label for label in log.labels()] == [0, 0]
    log.close()


def test_what_is_forgotten_is_gone_and_not_missed(path):
    log, head = filled(path)
    log.commit(head, forget=(5, 3))
    log.commit(head, forget=(5, -10))
    log.keep_thumbnails(5, [2])
    log.close()
    log = Log(path)
    assert [each.seq for each in log.effects(after=5)] == [6]
    assert [log.step(seq) is None for seq in (3, 4)] == [True, False]
    assert log.thumbnails(range(1, 7)) == {2, 5, 6}
    log.close()


def test_the_same_step_is_not_written_twice_and_nothing_of_that_commit_is(path):
    log, head = filled(path)
    with pytest.raises(MarcError, match="UNIQUE"):
        log.commit({**head, "seq": 8}, steps=[row(7), row(8, id="id-1")])
    assert log.head() == head
    assert log.step(7) is None
    log.commit({**head, "seq": 7}, steps=[row(7)])
    log.close()
    Log(path).close()


def read_all(path):
    log = Log(path)
    try:
        [*log.effects(0)], [*log.labels()], log.sums(), log.verify()
    finally:
        log.close()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("update steps set answer = x'00' where seq = 3", "step 3 is not what was written"),
        ("update steps set base = base + 1 where seq = 3", "step 3 is not what was written"),
        ("update effects set effect = x'00' where seq = 3", "the effect of step 3"),
        ("delete from effects where seq = 3", "step 3 is missing"),
        ("delete from steps where seq = 3", "5 answers"),
        ("delete from steps where seq = 6", "5 answers"),
        ("update steps set seq = 9 where seq = 6", "6 answers"),
        ("update thumbnails set picture = x'00'", "the picture of step 1"),
        ("update sums set n_seen = 3", "the sums of its weight"),
        ("delete from sums", "the sums of its weight"),
        ("update labels set label = 2", "the label of"),
        ("delete from labels", "it has 0 labels"),
        ("update labels set seal = seal + 1", "it has 1 labels"),
        ("update head set state = replace(state, 'shadow', 'live')", "its head"),
        ("update head set counts = replace(counts, '1', '2')", "its head"),
        ("delete from head", "its head"),
        ("drop table thumbnails", "its tables"),
        ("create table more (x)", "its tables"),
        ("pragma user_version = 2", "version 2"),
    ],
)
def test_a_change_is_noticed(path, change, problem):
    log, head = filled(path)
    log.commit(head, labels=[LabelRow(1, "id-2", 2, 1, None)])
    log.close()
    db = sqlite3.connect(path)
    db.execute(change)
    db.commit()
    db.close()
    with pytest.raises(MarcError, match=problem):
        read_all(path)


def test_a_log_is_open_once(path):
    log = Log(path)
    log.commit(new_head())
    db = sqlite3.connect(path, timeout=0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        db.execute("select * from head").fetchall()
    db.close()
    log.close()


def test_a_log_that_is_missing_or_there_already_is_refused(path):
    with pytest.raises(MarcError, match="no such log"):
        Log(path.with_name("other.sqlite"))
    with pytest.raises(MarcError, match="already"):
        Log.create(path, new_head())
    path.with_name("log.sqlite-wal").symlink_to("/dev/zero")
    with pytest.raises(MarcError, match="no plain file"):
        Log(path)


def test_a_new_log_is_one_file(path):
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    filled(path)[0].close()
    assert {each.name for each in path.parent.iterdir()} == {path.name, f"{path.name}-acknowledged"}
    Log.remove(path)
    assert not [*path.parent.iterdir()]


def test_the_write_ahead_log_does_not_grow_without_bound(path):
    log, head = Log(path), new_head()
    wal = path.with_name(f"{path.name}-wal")
    steps = [row(seq, effect=bytes(20_000)) for seq in range(1, 1501)]
    log.commit({**head, "seq": 1500}, steps=steps)  # 30 MB in one commit
    sizes = []
    for _ in range(30):
        log.commit({**head, "seq": 1500})
        sizes.append(wal.stat().st_size)
    assert sizes[-1] <= 2**24
    log.commit({**head, "seq": 1500}, forget=(1500, 0))
    for seq in range(1501, 2501):
        log.commit({**head, "seq": seq}, steps=[row(seq)])
        assert wal.stat().st_size <= 2**24
    assert path.stat().st_size < 45e6  # the pages of what was forgotten are used again
    log.close()


@pytest.mark.parametrize("durability", ["process", "power"])
def test_commits_that_were_acknowledged_and_are_missing_are_noticed(path, durability):
    log, _ = filled(path)
    log.close()
    count = Acknowledged(path.with_name(f"{path.name}-acknowledged"), durability)
    count.write(9)
    count.close()
    with pytest.raises(MarcError, match="last 2 commits are missing"):
        Log(path)


def test_a_count_that_says_nothing_is_passed_over(path):
    log, _ = filled(path)
    log.close()
    count = path.with_name(f"{path.name}-acknowledged")
    line = count.read_bytes()
    for content in (b"", line[:-1], line.replace(b"07 ", b"99 "), bytes(64), line * 40):
        count.write_bytes(content)
        Log(path).close()
    count.unlink()
    count.mkdir()
    Log(path).close()


def test_after_a_loss_of_power_unsynced_commits_may_be_missing(path, monkeypatch):
    name = path.with_name(f"{path.name}-acknowledged")
    for durability, missing in (("process", 0), ("power", 3)):
        monkeypatch.setattr("marc.serve.memory.acknowledged._boot", lambda: "a" * 36)
        count = Acknowledged(name, durability)
        count.write(4)
        count.close()
        monkeypatch.setattr("marc.serve.memory.acknowledged._boot", lambda: "b" * 36)
        count = Acknowledged(name, "process")
        assert count.missing(1) == missing
        count.close()


@pytest.mark.parametrize(("durability", "level"), [("process", 1), ("power", 2)])
def test_what_lets_older_snapshots_go_is_synced(path, durability, level):
    """Or a loss of power could bring back a head whose snapshot is gone."""
    log, levels = Log(path, durability), []

    def note(statement):
        if statement.lower() == "commit":
            levels.append(log._db.execute("pragma synchronous").fetchone()[0])

    log._db.set_trace_callback(note)
    for forget in (None, (0, 0), None):
        log.commit(new_head(), forget=forget)
    assert levels == [level, 2, level]
    log.close()
