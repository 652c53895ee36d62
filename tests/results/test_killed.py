"""A command killed in the middle of its work leaves nothing false and is taken up again."""

import contextlib
import signal
import subprocess
import time

import numpy as np
import pytest
from helpers.commands import MARC, PAPER, arrays_in, call, events, json_in

from marc.errors import MarcError
from marc.results.folder import Stored
from marc.sources.pack import write_pack
from marc.sources.synthetic import synthetic_stream

SPACES = ["classes", "both", "styles", "noise"]
COMMANDS = {
    "run": (
        [*PAPER, "--seed", *"01234567"],
        "order-0",
        "predictions.npz",
    ),
    "sweep": (
        ["--space", *SPACES, *(f"{space}+whiten" for space in SPACES)],
        "space-0-0",
        "intervals.npz",
    ),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    pack = tmp_path_factory.mktemp("packs") / "large.npz"
    write_pack(synthetic_stream(n_images=3000, n_classes=40), pack)
    return f"arrays/{pack}"


def kill_when_kept(words, log, line, patience=120):
    """Start a command and kill it as soon as its log has a line that holds `line`."""
    process = subprocess.Popen([MARC, *words], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(FileNotFoundError):
                if line in log.read_text():
                    break
            time.sleep(0.002)
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_killed_command_leaves_no_result_and_the_next_call_takes_up_its_parts(
    source, tmp_path, verb
):
    options, part, arrays = COMMANDS[verb]
    words = [verb, source, *options, "-o"]
    path, whole = tmp_path / "killed", tmp_path / "whole"
    partial = tmp_path / "killed.partial"

    kill_when_kept([*words, str(path)], partial / "log.jsonl", f'"{part}"')
    assert not path.exists()
    assert (partial / f"{part}.part.npz").exists()
    for place in (path, partial):
        with pytest.raises(MarcError, match=f"call marc {verb} again to finish it"):
            Stored.numbers(place, verb)
        assert call("compare", place, place).status == 2

    assert call(*words, path).status == 0
    assert not partial.exists()
    lines = events(path)
    assert lines.count("started") == 2
    assert lines.count(f"part {part}") == 1
    assert len([line for line in lines if line.startswith("part")]) == 8
    assert lines[-1] == "finished"

    assert call(*words, whole).status == 0
    stored, expected = arrays_in(path / arrays), arrays_in(whole / arrays)
    assert set(stored) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(stored[name], array)
    assert json_in(path / "metrics.json") == json_in(whole / "metrics.json")
    assert json_in(path / "config.json") == json_in(whole / "config.json")


def test_a_killed_replacement_leaves_the_old_result_whole(source, tmp_path):
    options, part, arrays = COMMANDS["run"]
    path = tmp_path / "out"
    assert call("run", source, "--method", "no-memory", "-o", path).status == 0
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    words = ["run", source, *options, "-o", str(path), "--force"]
    kill_when_kept(words, tmp_path / "out.partial/log.jsonl", f'"{part}"')
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert call("compare", path, path).status == 0
    assert call(*words).status == 0
    assert arrays_in(path / arrays)["seeds"].tolist() == list(range(8))
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
