"""`marc embed` killed at random moments ends with the bytes of a run that was left in peace."""

import random
import shutil
import signal
import subprocess
import time

import pytest
from helpers.commands import MARC, call, tree
from helpers.embedding_trees import draw_lab_folder

import marc

KILLS, N_IMAGES = 20, 96


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return draw_lab_folder(tmp_path_factory.mktemp("pictures"), count=N_IMAGES, n_classes=4)


def words(pictures, store):
    encoders = ["--predictor", "mini:captions", "--encoder", "mini:pairs-small", "mini:pixels"]
    views = ["--views", "12", "--recipe", "vc", "--chunk", "4", "--workers", "0"]
    return ["embed", f"folder/{pictures}", *encoders, *views, "-o", str(store)]


def chunks_in(store):
    try:
        return len(list(store.glob("*/*/c/*")))
    except FileNotFoundError:  # a folder that was put in its place while it was looked into
        return 0


def kill_a_little_later(pictures, store, delay):
    """Let it write at least one chunk more, then kill it after a moment; whether it was killed."""
    before, process = chunks_in(store), subprocess.Popen([MARC, *words(pictures, store)])
    while process.poll() is None and chunks_in(store) <= before:
        time.sleep(0.001)
    time.sleep(delay)
    process.kill()
    return process.wait() == -signal.SIGKILL


def test_a_store_killed_at_random_moments_ends_byte_equal(pictures, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert call(*words(pictures, whole)).status == 0
    draw = random.Random()  # the outcome must not depend on the moments
    counts = []
    while len(counts) < KILLS:
        if kill_a_little_later(pictures, killed, draw.uniform(0, 0.02)):
            counts.append(chunks_in(killed))
        else:  # it was done before: begin again
            assert tree(killed) == tree(whole)
            shutil.rmtree(killed)
    assert len(set(counts)) > KILLS // 2
    assert call(*words(pictures, killed)).status == 0
    assert tree(killed) == tree(whole)
    assert len(marc.load_stream(f"store/{killed}")) == N_IMAGES
