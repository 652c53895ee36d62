"""Two writers of one folder: one is refused by name, and nothing of both is ever mixed."""

import subprocess
import threading

import pytest
from helpers.commands import MARC, call, json_in, make_sources
from helpers.making import make_stream

import marc
from marc.errors import MarcError
from marc.results.all_methods import AllMethods
from marc.results.folder import Folder, Stored

CONFIG = {"kind": "run", "seeds": [0]}


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_of_many_writers_at_once_the_result_is_of_one(tmp_path, verb):
    source = make_sources(tmp_path)["labelled"]
    refusals = 0
    for number in range(4):
        path = tmp_path / f"out-{number}"
        words = [MARC, verb, source, "--seed", "0", "-o", path, "--space"]
        running = [
            subprocess.Popen([*words, space], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for space in ("classes", "noise", "classes", "noise")
        ]
        errors = [each.communicate()[1].decode() for each in running]
        for process, error in zip(running, errors, strict=True):
            assert process.returncode in (0, 2), error
            assert "Traceback" not in error
            if process.returncode:
                refusals += 1
                assert f"another marc {verb} is writing here" in error or "another result" in error
        stored = Stored.read(path, verb)
        space = (stored.config["method"] if verb == "run" else stored.config)["spaces"]
        alone = tmp_path / f"alone-{space[0]}"
        assert call(verb, source, "--seed", "0", "-o", alone, "--space", *space).status == 0
        assert stored.metrics == json_in(alone / "metrics.json")
        left = {each.name for each in tmp_path.iterdir() if each.name.startswith((".", "out"))}
        assert left == {f"out-{n}" for n in range(number + 1)}
    assert refusals >= 4  # in each round at least the two of the other space


def test_the_second_writer_is_refused_while_the_first_works(tmp_path):
    first, second = (Folder.open(tmp_path / "a", CONFIG) for _ in range(2))
    with first.begin():
        outcome = []

        def attempt():
            try:
                with second.begin():
                    outcome.append("both write")
            except MarcError as error:
                outcome.append(str(error))

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
    assert "another marc run is writing here" in outcome[0]
    assert str(tmp_path / "a") in outcome[0]


def test_the_refusal_of_a_second_writer_reads_well_in_a_line(tmp_path):
    first, second = (Folder.open(tmp_path / "a", CONFIG) for _ in range(2))
    with first.begin(), pytest.raises(MarcError) as refused, second.begin():
        pass
    assert AllMethods.reason(refused.value) == (
        "another marc run is writing here; try again when it ends, or another folder: -o FOLDER"
    )


def test_what_another_finished_meanwhile_is_looked_at_again(tmp_path):
    stream = make_stream()
    runs = [marc.run(marc.MARC(space), stream) for space in ("good", "bad")]
    marc.save_run(runs[0], tmp_path / "a", stream)
    config = json_in(tmp_path / "a/config.json")
    late, other = (
        Folder(tmp_path / "a", {**config, **change}, done=False) for change in ({}, {"seeds": [7]})
    )
    with late.begin() as wanted:
        assert not wanted
    with pytest.raises(MarcError, match="another result"), other.begin():
        pass


def test_the_lock_of_a_killed_writer_blocks_nobody(tmp_path):
    (tmp_path / ".a.lock").touch()
    with Folder.open(tmp_path / "a", CONFIG).begin() as wanted:
        assert wanted
    assert not (tmp_path / ".a.lock").exists()
