"""The seed of an order decides what MARC draws; a method's own seed is a setting of the method."""

import numpy as np
import pytest
from helpers.making import make_stream

from marc.errors import MarcError
from marc.loop import run
from marc.peers.registry import create_method
from marc.results.folder import Folder
from marc.results.run import RunPlan, load_run
from marc.sources.pack import write_pack


def written(plan, path):
    folder = Folder.open(path, plan.config())
    plan.write(folder)
    return folder.config["method"], load_run(path)


def test_a_method_keeps_its_own_seed_in_every_order(tmp_path):
    write_pack(make_stream(3, n_images=15), tmp_path / "more.npz")
    stream, settings = make_stream(), {"space": "good", "unlabelled": str(tmp_path / "more.npz")}
    for seed in (0, 3):
        plan = RunPlan(stream, [0, 1], "gpua", {**settings, "steps": 2, "seed": seed})
        config, runs = written(plan, tmp_path / str(seed))
        assert config["seed"] == seed
        assert [each.method["seed"] for each in runs] == [seed, seed]
        method = create_method("gpua", **settings, steps=2, seed=seed)
        for each in runs:
            same = run(method, stream.in_order(each.seed))
            assert np.array_equal(each.predictions, same.predictions)


def test_a_reservoir_draws_from_the_seed_of_the_order(tmp_path):
    settings = {"space": "good", "policy": "reservoir"}
    plan = RunPlan(make_stream(), [0, 4], "marc", settings)
    config, runs = written(plan, tmp_path / "marc")
    assert "seed" not in config
    assert [each.method["seed"] for each in runs] == [0, 4]
    with pytest.raises(MarcError, match="takes the seed of its order"):
        RunPlan(make_stream(), [0], "marc", {**settings, "seed": 4}).config()
