import json
import os
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from helpers.making import make_stream
from helpers.snapshots import STREAM, header_of, make_method, rewritten, saved, steps
from safetensors.numpy import load_file, save_file

from marc.admission import POLICIES
from marc.errors import MarcError
from marc.loop import iter_steps
from marc.method import MARC
from marc.peers.contract import _stream_for
from marc.peers.registry import METHODS, create_method
from marc.results.snapshot import load_snapshot, save_snapshot
from marc.stream import Stream

SETTINGS = [
    *({"policy": policy} for policy in POLICIES),
    {"refine_labels": True, "clip_weight": 1.0, "negative_weight": 0.117},
    {"policy": "fifo", "negative_weight": 0.117},
    {"policy": "reservoir", "seed": 5},
    {"admission_capacity": 0},
    {"capacity": 0},
    {"weight": "auto"},
    {"gamma": 0.5, "use_base": False, "view_entropy": "tda", "alpha": 1 / 3, "beta": 4.1},
]


def refusal(path):
    with pytest.raises(MarcError) as refused:
        load_snapshot(path)
    return str(refused.value)


def assert_same_steps(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        assert (one.item, one.label, one.prediction) == (other.item, other.label, other.prediction)
        assert one.priority == other.priority
        assert one.weights == other.weights
        assert list(one.evidence) == list(other.evidence)
        for name in one.evidence:
            np.testing.assert_array_equal(one.evidence[name], other.evidence[name])
        np.testing.assert_array_equal(one.logits, other.logits)


@pytest.mark.parametrize("n_seen", [1, 40])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_saving_and_going_on_equals_never_stopping(tmp_path, settings, n_seen):
    whole = make_method(**settings)
    steps(whole, range(n_seen))
    resumed = load_snapshot(saved(tmp_path / "memory.safetensors", n_seen, **settings))
    rest = range(n_seen, 90)
    assert_same_steps(steps(resumed, rest), steps(whole, rest))


def test_a_default_method_goes_on_bit_for_bit(tmp_path):
    whole = MARC("good")
    steps(whole, range(50))
    save_snapshot(whole, tmp_path / "memory.safetensors")
    resumed = load_snapshot(tmp_path / "memory.safetensors")
    assert_same_steps(steps(resumed, range(50, 90)), steps(whole, range(50, 90)))


def test_equal_items_of_the_negative_memory_keep_their_order(tmp_path):
    nearness = np.array([0.33, 0.33, 0.46, 0.33])  # to class 0: all are in the band of entropies
    views = np.stack([nearness, 0 * nearness, np.sqrt(1 - nearness**2) * [1, -1, 1, -1]], axis=1)
    stream = Stream.from_arrays(views, np.eye(3)[:2], logit_scale=5.0)
    whole = MARC("predictor", negative_weight=0.117)
    before = [whole.step(stream.query(item)) for item in (0, 1)]
    assert before[0].base.tolist() == before[1].base.tolist()
    save_snapshot(whole, tmp_path / "memory")
    resumed = load_snapshot(tmp_path / "memory")
    actual, expected = ([m.step(stream.query(i)) for i in (2, 3)] for m in (resumed, whole))
    assert_same_steps(actual, expected)
    assert expected[1].evidence["negative"].any()


def test_saving_does_not_change_the_method(tmp_path):
    method, undisturbed = make_method(), make_method()
    for item in range(60):
        save = [method.step(STREAM.query(item))]
        save_snapshot(method, tmp_path / "memory.safetensors")
        assert_same_steps(save, [undisturbed.step(STREAM.query(item))])


def test_a_restored_method_has_the_settings_and_the_items(tmp_path):
    method = make_method(weight=0.1, policy="confidence")
    steps(method, range(40))
    save_snapshot(method, str(tmp_path / "memory.safetensors"))
    restored = load_snapshot(str(tmp_path / "memory.safetensors"))
    assert restored.config() == method.config()
    assert restored.memory.items == method.memory.items
    assert restored.state()["n_seen"] == 40


def test_a_snapshot_of_a_snapshot_is_the_same_file(tmp_path):
    first = saved(tmp_path / "first", negative_weight=0.117)
    save_snapshot(load_snapshot(first), tmp_path / "second")
    assert (tmp_path / "second").read_bytes() == first.read_bytes()


def test_a_snapshot_is_a_plain_safetensors_file(tmp_path):
    path = saved(tmp_path / "memory.safetensors", negative_weight=0.117)
    arrays, header = load_file(path), header_of(path)
    assert {name.split("/")[0] for name in arrays} == {"retrieval", "clip", "negative"}
    assert arrays["retrieval/keys"].dtype == np.float32
    assert (header["format"], header["version"]) == ("marc-memory", 2)
    assert header["state"]["config"]["space"] == "good"


def test_nothing_but_the_snapshot_is_left_behind(tmp_path):
    saved(tmp_path / "memory.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["memory.safetensors"]


def test_a_method_that_saw_nothing_has_no_snapshot(tmp_path):
    with pytest.raises(MarcError) as refused:
        save_snapshot(make_method(), tmp_path / "memory")
    assert str(refused.value) == (
        "nothing was seen yet, so there is no state.\n  try:  step(query) first"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_missing_snapshot_is_refused(tmp_path):
    path = tmp_path / "memory"
    assert refusal(path) == f"there is no such snapshot.\n  got:  {path}\n  try:  ls {tmp_path}"


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"marc": '{"format": "other"}'}])
def test_a_foreign_safetensors_file_is_refused(tmp_path, metadata):
    path = tmp_path / "memory"
    save_file({"weight": np.ones(3)}, path, metadata=metadata)
    message = refusal(path)
    assert message.startswith(f"this file is not a memory snapshot.\n  got:  {path}: header ")
    assert message.endswith("allowed:  a header with format marc-memory")


@pytest.mark.parametrize("text", ["{", "not json", "[1]", "3"])
def test_a_header_that_is_no_header_is_refused(tmp_path, text):
    save_file({"weight": np.ones(3)}, tmp_path / "memory", metadata={"marc": text})
    assert "this file is not a memory snapshot" in refusal(tmp_path / "memory")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99])
def test_a_truncated_snapshot_is_refused(tmp_path, share):
    path = saved(tmp_path / "memory")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert refusal(path).startswith(f"this file is not a memory snapshot.\n  got:  {path}: ")


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "memory").write_text("not a memory, " * 100)
    assert "this file is not a memory snapshot" in refusal(tmp_path / "memory")


@pytest.mark.parametrize("version", [0, 1, 3, "2", None])
def test_another_version_of_the_format_is_refused(tmp_path, version):
    path = rewritten(saved(tmp_path / "memory"), version=version)
    assert refusal(path) == (
        "this memory snapshot was written by another version of marc.\n"
        f"  got:  {path}: version {version} of the format\n  allowed:  version 2\n"
        "  try:  that version of marc, or start again with an empty memory"
    )


@pytest.mark.parametrize("version", [0, 2, "1", None, True])
def test_another_version_of_the_state_is_refused(tmp_path, version):
    path = saved(tmp_path / "memory")
    assert refusal(rewritten(path, state={**header_of(path)["state"], "version": version}))


@pytest.mark.parametrize("missing", ["config", "n_classes", "n_seen"])
def test_a_snapshot_without_a_part_of_its_state_is_refused(tmp_path, missing):
    path = saved(tmp_path / "memory")
    state = header_of(path)["state"]
    del state[missing]
    assert "damaged" in refusal(rewritten(path, state=state))


@pytest.mark.parametrize(
    "missing", ["retrieval/keys", "retrieval/rank", "clip/labels", "negative/against"]
)
def test_a_snapshot_without_one_of_its_arrays_is_refused(tmp_path, missing):
    path = saved(tmp_path / "memory", negative_weight=0.117)
    arrays = load_file(path)
    del arrays[missing]
    assert refusal(rewritten(path, arrays=arrays))


@pytest.mark.parametrize("name", ["keys", "items", "priorities", "rank"])
def test_a_snapshot_whose_arrays_differ_in_length_is_refused(tmp_path, name):
    path = saved(tmp_path / "memory")
    arrays = load_file(path)
    arrays[f"retrieval/{name}"] = arrays[f"retrieval/{name}"][:-1].copy()
    assert refusal(rewritten(path, arrays=arrays))


@pytest.mark.parametrize("label", [-1, 5])
def test_a_snapshot_with_a_label_out_of_range_is_refused(tmp_path, label):
    path = saved(tmp_path / "memory")
    arrays = load_file(path)
    arrays["retrieval/labels"][0] = label
    assert refusal(rewritten(path, arrays=arrays))


def test_a_snapshot_with_a_setting_of_another_version_is_refused(tmp_path):
    path = saved(tmp_path / "memory")
    state = header_of(path)["state"]
    state["config"]["temperature"] = 1.0
    assert "temperature" in refusal(rewritten(path, state=state))


@pytest.mark.parametrize(
    "name", [name for name, c in METHODS.items() if not {"shots", "unlabelled"} & {*c.needs}]
)
@pytest.mark.parametrize("n_seen", [1, 5, 25])
def test_every_method_goes_on_from_its_file(name, n_seen, tmp_path):
    stream, needs = make_stream(4, n_images=40, n_prompts=5), {*METHODS[name].needs}
    if needs & {"text-tower", "image-tower"}:
        pytest.importorskip("torch")
        stream = _stream_for(METHODS[name], 4, 40, 10)
    settings = {"space": "good"} if "space" in needs else {}
    method = create_method(name, **settings)
    list(iter_steps(method, replace(stream, order=np.arange(n_seen))))
    save_snapshot(method, tmp_path / "memory.safetensors")
    again = load_snapshot(tmp_path / "memory.safetensors")
    assert again.config() == method.config()
    rest = replace(stream, order=np.arange(n_seen, 40))
    for mine, theirs in zip(iter_steps(method, rest), iter_steps(again, rest), strict=True):
        np.testing.assert_array_equal(mine.logits, theirs.logits)


def test_a_changed_array_is_noticed(tmp_path):
    path = saved(tmp_path / "memory.safetensors")
    arrays, header = load_file(path), header_of(path)
    arrays["retrieval/keys"][0] *= -1
    save_file(arrays, path, metadata={"marc": json.dumps(header)})
    assert "damaged: it is not what was written" in refusal(path)


@pytest.mark.parametrize("digest", ["", None, 0, "0" * 32])
def test_a_snapshot_without_its_digest_is_refused(tmp_path, digest):
    path = saved(tmp_path / "memory.safetensors")
    header = {**header_of(path), "digest": digest}
    save_file(load_file(path), path, metadata={"marc": json.dumps(header)})
    assert "damaged: it is not what was written" in refusal(path)


def test_every_bit_of_the_header_counts(tmp_path):
    """A flipped bit is refused, or the method is the very same: no setting becomes another."""
    path = saved(tmp_path / "memory", n_seen=12, weight=10.0, capacity=16)
    whole, expected = path.read_bytes(), load_snapshot(path)
    same, queries = 0, range(12, 20)
    answers = [step.logits.tolist() for step in steps(expected, queries)]
    for bit in range(8 * (8 + int.from_bytes(whole[:8], "little"))):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        try:
            method = load_snapshot(path)
        except MarcError:
            continue
        same += 1
        assert method.config() == expected.config(), bit
        assert [step.logits.tolist() for step in steps(method, queries)] == answers, bit
    assert same < 50  # spaces that became other spaces


@pytest.mark.parametrize("place", ["state", "config", "n_seen"])
@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "9" * 5000, '"\\ud800"', "1e999"],
    ids=["deep", "long", "half", "infinite"],
)
def test_a_header_that_no_reader_takes_is_refused(tmp_path, place, text):
    path = saved(tmp_path / "memory")
    spelled = json.dumps({**header_of(path), place: "@"}).replace('"@"', text)
    save_file(load_file(path), path, metadata={"marc": spelled})
    assert refusal(path)


def test_what_is_no_plain_file_is_refused_at_once(tmp_path):
    for name, target in (("device", "/dev/zero"), ("ring", "ring"), ("dangling", "nowhere")):
        (tmp_path / name).symlink_to(target)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in [*tmp_path.iterdir(), tmp_path / "a\0b"]:
        message = refusal(path)
        assert "no plain file, so no snapshot" in message or "no such snapshot" in message


def test_a_number_of_classes_that_no_memory_holds_is_refused_unallocated(tmp_path):
    path = saved(tmp_path / "memory", weight="auto")
    path = rewritten(path, state={**header_of(path)["state"], "n_classes": 10**9})
    tracemalloc.start()
    try:
        assert "n_classes must be an integer <= 1048576" in refusal(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
