"""What can be asked of a memory: labels, audits, modes, and the fall-back when it harms."""

import json

import pytest
from helpers.serving import MARC, N_CLASSES, contested, remembered, request, served, step

from marc.errors import MarcError
from marc.serve.memory import operations
from marc.serve.memory.served import Served
from marc.serve.refused import Refused


@pytest.fixture
def memory(tmp_path):
    with_close = served(tmp_path / "m")
    yield with_close
    with_close.close()


def _rows(steps, side):
    """Labels by which one side is right."""
    return [{"id": name, "label": (memory, base)[side]} for name, memory, base in steps]


def _until_harm(memory, steps):
    """Label losses one at a time until the judge says so; how many, and the last result."""
    for count, row in enumerate(_rows(steps, 1), 1):
        result = operations.label(memory, [row])
        if result["judgement"]["verdict"] == "harms":
            return count, result
    raise AssertionError("it never did")


@pytest.mark.parametrize("mode", ["live", "canary"])
def test_what_harms_falls_back_to_shadow(tmp_path, mode):
    memory = served(tmp_path / "m", mode=mode, fraction=1.0)
    steps = contested(memory, 60)
    assert step(memory, 1000)["answered_by"] == "memory"
    count, result = _until_harm(memory, steps)
    assert 5 <= count <= 12
    assert result["fell_back"]["from"] == mode
    assert "harms" in result["fell_back"]["why"]
    assert memory.head["mode"] == "shadow"
    info = operations.info(memory)
    assert (info["mode"], info["fell_back"]) == ("shadow", result["fell_back"])
    assert step(memory, 1001)["answered_by"] == "base"
    more = operations.label(memory, _rows(steps[count : count + 1], 1))
    assert more["fell_back"] is None  # it is reported once
    memory.close()
    memory = Served(tmp_path / "m")
    assert memory.head["mode"] == "shadow"
    assert operations.info(memory)["fell_back"] == result["fell_back"]
    memory.close()


def test_shadow_and_off_only_say_that_it_harms(memory):
    steps = contested(memory, 60)
    operations.mode(memory, "off")
    _, result = _until_harm(memory, steps)
    assert result["fell_back"] is None
    assert memory.head["mode"] == "off"


def test_what_harms_is_promoted_only_anyway(memory):
    steps = contested(memory, 80)
    count, _ = _until_harm(memory, steps)
    for to in ("live", "canary"):
        with pytest.raises(Refused) as refused:
            operations.mode(memory, to)
        assert refused.value.status == 409
        assert "anyway" in refused.value.hint
    assert operations.mode(memory, "off")["mode"] == "off"
    done = operations.mode(memory, "live", anyway=True)
    assert (done["mode"], done["before"]) == ("live", "off")
    assert operations.info(memory)["fell_back"] is None
    # the next label of the same kind does not overrule who decided it in spite of the verdict
    again = operations.label(memory, _rows(steps[count : count + 1], 1))
    assert again["fell_back"] is None
    assert memory.head["mode"] == "live"
    # once it was not shown any more, harm that is shown again counts
    wins = operations.label(memory, _rows(steps[count + 1 : count + 7], 0))
    assert wins["judgement"]["verdict"] == "not shown"
    rest = operations.label(memory, _rows(steps[count + 7 : count + 30], 1))
    assert rest["fell_back"]["from"] == "live"


def test_the_mode_is_changed_by_who_knows_it(memory):
    with pytest.raises(Refused) as refused:
        operations.mode(memory, "live", expect="canary")
    assert refused.value.status == 409
    assert operations.mode(memory, "canary", expect="shadow", fraction=0.25)["fraction"] == 0.25
    operations.mode(memory, "shadow")
    assert operations.mode(memory, "canary")["fraction"] == 0.25
    for wrong in ("on", "", None, 3):
        with pytest.raises(MarcError):
            operations.mode(memory, wrong)
    for wrong in (-0.1, 1.1, float("nan"), "x"):
        with pytest.raises(MarcError):
            operations.mode(memory, "canary", fraction=wrong)


def test_labels_count_once_and_may_be_corrected(memory):
    (name, mine, base), (other, *_), *_ = contested(memory, 40)
    third = next(c for c in range(N_CLASSES) if c not in (mine, base))

    def labelled(*rows):
        result = operations.label(memory, [{"id": i, "label": v} for i, v in rows])
        counts = result["judgement"]["labelled"]
        return {**{k: v for k, v in {**result, **counts}.items() if isinstance(v, int) and v}}

    assert labelled((name, mine)) == {"accepted": 1, "won": 1}
    assert labelled((name, mine)) == {"repeated": 1, "won": 1}
    assert labelled((name, str(mine))) == {"repeated": 1, "won": 1}  # by name
    assert labelled((name, base)) == {"changed": 1, "lost": 1}
    assert labelled((name, third)) == {"changed": 1, "neither": 1}
    assert labelled((name, "neither")) == {"changed": 1, "neither": 1}
    twice = labelled((other, third), (other, "neither"), (name, mine), (name, base))
    assert twice == {"accepted": 1, "changed": 3, "lost": 1, "neither": 1}
    curve, tally = memory.trial.curve(), memory.trial.tally
    folder = memory.folder
    memory.close()
    again = Served(folder)
    assert (again.trial.curve(), again.trial.tally) == (curve, tally)
    again.close()


def test_labels_of_agreements_are_counted_beside(memory):
    agreed = [a for a in (step(memory, n) for n in range(30)) if not a["disagree"]]
    result = operations.label(memory, [{"id": each["id"], "label": 0} for each in agreed])
    judged = result["judgement"]
    assert judged["labelled"] == {"won": 0, "lost": 0, "neither": 0, "agreements": len(agreed)}
    assert judged["gain"] is None


def test_labels_of_steps_while_it_was_off_are_taken_and_not_counted(memory):
    operations.mode(memory, "off")
    step(memory, 1)
    operations.mode(memory, "shadow")
    result = operations.label(memory, [{"id": "1", "label": 0}])
    assert result["accepted"] == 1
    assert sum(result["judgement"]["labelled"].values()) == 0


@pytest.mark.parametrize(
    "labels",
    [
        {"id": "1", "label": 0},
        "1",
        [["1", 0]],
        [{"id": "1"}],
        [{"id": "1", "label": 0, "more": 1}],
        [{"id": 1, "label": 0}],
        [{"id": "1", "label": N_CLASSES}],
        [{"id": "1", "label": -1}],
        [{"id": "1", "label": True}],
        [{"id": "1", "label": None}],
        [{"id": "1", "label": "other"}],
        [{"id": "1", "label": [0]}],
        [{"id": "\ud800", "label": 0}],
        [{"id": "1", "label": 0}] * 10_001,
    ],
)
def test_what_is_no_label_is_refused_and_nothing_taken(memory, labels):
    step(memory, 1)
    before = remembered(memory)
    taken = labels if not isinstance(labels, list) else [{"id": "1", "label": 0}, *labels]
    with pytest.raises(MarcError):
        operations.label(memory, taken)
    assert remembered(memory) == before


def test_ten_thousand_labels_at_once_take_no_time(memory, tmp_path):
    memory.steps([request(n) for n in range(500)])
    rows = [{"id": str(n), "label": n % N_CLASSES} for n in range(500)]
    result = operations.label(memory, (rows + [{"id": f"x{n}", "label": 0} for n in range(9500)]))
    assert result["accepted"] == 500
    assert len(result["unknown"]) == 9500


def test_an_audit_is_drawn_from_unlabelled_disagreements(memory):
    steps = contested(memory, 60)
    names = {name for name, _, _ in steps}
    drawn = operations.audit(memory, 1000)
    assert {each["id"] for each in drawn["items"]} == names
    assert drawn["left"] == len(names)
    for each in drawn["items"]:
        answer = operations.stored(memory, each["id"])
        numbers = [choice["number"] for choice in each["choices"]]
        assert numbers == sorted({answer["prediction"], answer["base_prediction"]})
        assert "prediction" not in each  # who labels does not see whose answer it is
    operations.label(memory, _rows(steps[:5], 0))
    left = operations.audit(memory, 1000)
    assert {each["id"] for each in left["items"]} == {name for name, _, _ in steps[5:]}
    firsts = {operations.audit(memory, 1)["items"][0]["id"] for _ in range(60)}
    assert len(firsts) > 5
    for wrong in (0, 1001, 1.5, "2"):
        with pytest.raises(MarcError):
            operations.audit(memory, wrong)


def test_information_about_a_memory(memory):
    empty = operations.info(memory)
    assert (empty["weight"], empty["held"], empty["seq"]) == (None, 0, 0)
    contested(memory, 30)
    info = operations.info(memory)
    assert info["method"]["name"] == "marc"
    assert info["method"]["weight"] == MARC["weight"]
    assert info["weight"] == MARC["weight"]
    assert info["sizes"] == [2] * N_CLASSES
    assert info["held"] == 2 * N_CLASSES
    judged = operations.judgement(memory)
    assert info["shadow"] == {name: judged[name] for name in info["shadow"]}
    json.dumps(info)
    json.dumps(judged)


def test_samples_and_history(memory):
    contested(memory, 30)
    [newest] = operations.samples(memory, 1)["items"]
    assert newest["id"] == "0"  # the first step is one; the others came too soon after it
    points = operations.history(memory, 10)["points"]
    assert sum(point["steps"] for point in points) == 30
    assert sum(point["disagreements"] for point in points) == memory.head["disagreements"]
    folder = memory.folder
    memory.close()
    again = Served(folder)
    rows = operations.samples(again, 4)["items"]
    assert [row["id"] for row in rows] == ["29", "28", "27", "26"]
    for row in rows:
        answer = operations.stored(again, row["id"])
        top = {each["number"]: each for each in answer["top"]}
        assert row["class"] == str(answer["prediction"])
        assert row["base_confidence"] == top[answer["base_prediction"]]["base_probability"]
    again.close()


def test_pictures_and_snapshots_that_are_not_there(memory):
    with pytest.raises(Refused) as refused:
        operations.picture(memory, 1)
    assert refused.value.status == 404
    with pytest.raises(MarcError):
        operations.picture(memory, 0)
    for name in ("\ud800", "nobody"):
        with pytest.raises(Refused) as refused:
            operations.stored(memory, name)
        assert refused.value.status == 404
    with pytest.raises(MarcError):
        operations.snapshot_file(memory, "../log.sqlite")
    step(memory, 1, thumbnail=b"small")
    assert operations.picture(memory, 1) == b"small"
    made = operations.snapshot(memory)
    assert made["seq"] == 1
    assert operations.snapshot_file(memory, made["file"]).endswith(made["file"])


def test_every_operation_has_a_name():
    assert {*operations.OPERATIONS} >= {
        "info", "labels", "audit", "judgement", "mode", "snapshot", "snapshot_file", "samples",
        "history", "stored", "picture",
    }  # fmt: skip


def test_an_audit_shows_an_id_that_had_a_label_in_a_life_before(tmp_path):
    memory = served(tmp_path / "small", limits={"window": 5, "snapshot_every": 5})
    steps = contested(memory, 30)
    name = steps[0][0]
    operations.snapshot(memory)
    rows = [{"id": each, "label": base} for each, _, base in steps[-1:]]
    operations.label(memory, rows)
    again = rows[0]["id"]
    for image in range(100, 140):  # it leaves the window
        step(memory, image)
    operations.snapshot(memory)
    answers = [step(memory, image, name=again) for image in (200,)]
    shown = {each["id"] for each in operations.audit(memory, 1000)["items"]}
    assert (again in shown) == answers[0]["disagree"]
    assert name not in shown
    memory.close()
