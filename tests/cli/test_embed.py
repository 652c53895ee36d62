"""`marc embed` as a person calls it."""

import json
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from helpers.commands import call, call_json, tree
from helpers.embedding_trees import draw_lab_folder

import marc
from marc import MarcError
from marc.embed.plan import EncoderSpec
from marc.embed.store import FeatureStore

ENCODERS = ("--predictor", "mini:captions", "--encoder", "mini:pairs-small", "mini:pixels")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current folder with pictures in it, one of them damaged, and a file that is none."""
    monkeypatch.chdir(tmp_path)
    draw_lab_folder(tmp_path / "photos", count=10)
    first = sorted((tmp_path / "photos").iterdir())[0]
    (first / "bad.jpg").write_bytes(b"\xff\xd8\xff\xe0 and no more")
    (first / "notes.txt").write_text("not a picture")
    return tmp_path


def embed(*words):
    return call("embed", "folder/photos", *ENCODERS, "--workers", "0", *words)


def test_from_a_folder_to_a_run_in_two_commands(here):
    outcome = embed()
    assert outcome.status == 0, outcome.err
    assert "11 pictures -> store/stores/folder-photos" in outcome.out
    assert "passed over: 1 file (1 no picture by its name)" in outcome.out
    assert "quarantined: 1 picture (1 truncated or damaged)" in outcome.out
    assert outcome.out.endswith("next: marc select folder/photos\n")
    assert (here / "stores/folder-photos/quarantine.csv").read_text().count("\n") == 2
    run = call_json("run", "folder/photos", "--space", "pairs-small", "--seed", "0")
    assert run["config"]["n_images"] == 10
    same = call_json("run", "store/stores/folder-photos", "--space", "pairs-small", "--seed", "0")
    assert same["metrics"] == run["metrics"]


def test_a_second_call_recomputes_nothing(here):
    embed()
    before = tree(here / "stores")
    outcome = embed()
    assert "everything was there already" in outcome.out
    assert tree(here / "stores") == before


def test_another_encoder_joins_with_few_words(here):
    embed("--chunk", "4", "--views", "2")
    before = tree(here / "stores/folder-photos/predictor")
    outcome = call("embed", "folder/photos", "--encoder", "mini:crops")
    assert outcome.status == 0, outcome.err
    assert tree(here / "stores/folder-photos/predictor") == before
    assert marc.load_stream("folder/photos").spaces == ("crops", "pairs-small", "pixels")
    assert outcome.out.endswith("next: marc select folder/photos\n")
    refused = call("embed", "folder/photos", "--encoder", "mini:crops", "--views", "8")
    assert refused.status == 2
    assert "--predictor mini:captions" in refused.err


def test_features_alone_say_what_is_missing(here):
    outcome = call("embed", "folder/photos", "--predictor", "none", *ENCODERS[2:])
    assert outcome.status == 0, outcome.err
    assert "features alone" in outcome.out
    assert outcome.out.endswith("next: marc embed folder/photos --predictor clip-b16-text\n")


def test_json_says_what_was_made_and_left_out(here):
    told = call_json("embed", "folder/photos", *ENCODERS, "--workers", "0", "-o", "out")
    assert told["store"] == "out"
    assert told["n_images"] == 11
    assert [reason for _, reason in told["quarantined"]] == ["truncated or damaged"]
    assert [path.split("/")[-1] for path, _ in told["passed_over"]] == ["notes.txt"]
    assert told["arrays"]["spaces/pixels"]["encoder"]["name"] == "mini:pixels"
    assert told["chunks_computed"] == 3


def test_a_dry_run_counts_and_writes_nothing(here):
    outcome = embed("--dry-run", "--chunk", "4")
    assert outcome.status == 0, outcome.err
    assert "predictor/views               0      3" in outcome.out
    assert "in all" in outcome.out
    assert not (here / "stores").exists()
    call("embed", "folder/photos", *ENCODERS[:4], "--workers", "0", "--chunk", "4")
    told = json.loads(embed("--dry-run", "--chunk", "4", "--json").out)
    assert told["chunks"]["spaces/pairs-small"] == [3, 0]
    assert told["chunks"]["spaces/pixels"] == [0, 3]
    assert told["n_bytes"] == 11 * 768 * 4
    assert told["seconds"] > 0


def test_views_are_stored_and_nested(here):
    embed("--views", "4", "-o", "four")
    embed("--views", "2", "-o", "two")
    four, two = (FeatureStore(here / name).read("predictor/views") for name in ("four", "two"))
    assert (four.shape[1], two.shape[1]) == (4, 2)
    assert np.allclose(four[:, :2], two, atol=1e-3)
    made = FeatureStore(here / "four").attributes("predictor/views")["made"]
    assert (made["views"]["id"], made["views"]["n_views"], made["views"]["seed"]) == ("VC", 4, 0)
    assert made["views"]["scale"] == [0.5, 1.0]
    assert marc.load_stream("store/four").with_views(2).n_views == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--encoder", "dinov9"), "dinov9"),
        (("--predictor", "mini:pixels"), "mini:pixels"),
        (("--views", "3", "--recipe", "VX"), "'VX'"),
        (("--views", "0"), "views"),
        (("--predictor", "none", "--views", "2"), "for a predictor"),
        (("--predictor", "none", "--prompts", "t1"), "for a predictor"),
        (("--views", "4", "--recipe", "V0"), "V0 is one view"),
        (("--view-seed", "-1", "--views", "2"), "seed"),
        (("--prompts", "t2"), "t2"),
        (("--class-names", "nowhere.txt"), "nowhere.txt"),
        (("--chunk", "-1"), "chunk"),
        (("--workers", "-2"), "workers"),
        (("--device", "abacus"), "abacus"),
        (("--root", "photos"), "takes no root folder"),
    ],
)
def test_bad_use_is_refused_before_anything_is_written(here, words, message):
    outcome = embed(*words)
    assert outcome.status == 2, outcome.out
    assert message in outcome.err
    assert not (here / "stores").exists()


def test_words_that_cannot_be_said_leave_nothing_behind(here):
    (here / "cupl.json").write_text('{"cat": ["a cat"]}')
    for words in (("--prompts", "cupl.json"), ("--class-names", "odd.txt")):
        (here / "odd.txt").write_text("arrow\nwombat\n")
        outcome = embed(*words)
        assert outcome.status == 2
        assert not (here / "stores" / "folder-photos").exists()


def test_a_folder_that_has_changed_is_not_taken_for_its_store(here):
    embed()
    draw_lab_folder(here / "photos", count=12)
    outcome = call("run", "folder/photos", "--space", "pixels")
    assert outcome.status == 2
    assert "store/stores/folder-photos" in outcome.err
    refused = embed()
    assert refused.status == 2
    assert "--force" in refused.err
    assert embed("--force").status == 0
    assert call("run", "folder/photos", "--space", "pixels", "--seed", "0").status == 0


def test_pictures_that_are_not_embedded_say_how(here):
    outcome = call("geometry", "folder/photos")
    assert outcome.status == 2
    assert "marc embed folder/photos --encoder" in outcome.err


def test_weights_are_named_or_lie_in_one_folder(tmp_path):
    names, folder = ["clip-b16-text", "dinov2-b", "mini:pixels"], str(tmp_path)
    assert EncoderSpec.weights_of("dinov2-b", [folder], names) == folder
    assert EncoderSpec.weights_of("mini:pixels", [folder], names) is None
    assert EncoderSpec.weights_of("dinov2-b", [], names) is None
    assert EncoderSpec.weights_of("dinov2-b", ["file.pt"], ["dinov2-b", "mini:pixels"]) == "file.pt"
    assert EncoderSpec.weights_of("dinov2-b", ["dinov2-b=a=b.pt", folder], names) == "a=b.pt"
    assert EncoderSpec.weights_of("clip-b16-text", ["dinov2-b=a=b.pt", folder], names) == folder
    own = ["my-clip=open_clip:ViT-B-32", "mine=timm:resnet18"]
    assert EncoderSpec.weights_of(own[1], ["my-clip=a.pt", "mine=b.pt"], own) == "b.pt"
    assert EncoderSpec.weights_of(own[0], [folder], own) == folder
    for unclear in (["file.pt"], [folder, "file.pt"]):
        with pytest.raises(MarcError, match="--weights dinov2-b=PATH"):
            EncoderSpec.weights_of("dinov2-b", unclear, names)


SOCKETS_FORBIDDEN = """
import socket, sys
def refuse(*words, **more):
    raise AssertionError("a socket was asked for")
class Forbidden(socket.socket):
    def __init__(self, family=-1, *words, **more):  # a pair within the process is no network
        super().__init__(family, *words, **more) if family == socket.AF_UNIX else refuse()
socket.socket, socket.getaddrinfo, socket.create_connection = Forbidden, refuse, refuse
from marc.cli.app import main
main()
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("timm") is None, reason="needs the extra [encoders]")
def test_a_real_architecture_from_a_file_without_a_network(here):
    from safetensors.torch import save_file

    from marc.encoders import encoder_card
    from marc.encoders.from_timm import _build_tower
    from marc.encoders.torch_runtime import import_libraries

    import_libraries("timm")
    (here / "models").mkdir()
    tower = _build_tower(encoder_card("dinov2-s"))
    save_file(tower.state_dict(), here / "models" / "dinov2-s.safetensors")
    words = ["embed", "folder/photos", "--predictor", "mini:captions", "--encoder", "dinov2-s"]
    words += ["--weights", "models", "--offline", "--workers", "0"]
    command = [sys.executable, "-c", SOCKETS_FORBIDDEN, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert marc.load_stream("folder/photos").spaces == ("dinov2-s",)
    refused = subprocess.run([*command[:-5], "--offline"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "--weights" in refused.stderr
