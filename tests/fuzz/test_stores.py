"""Feature stores that were changed: the same features, all views or few, or a clear refusal."""

import shutil

import numpy as np
import pytest
from helpers.commands import call
from helpers.embedding_trees import PREDICTOR, SPACES, draw_lab_folder
from helpers.fuzzing import Tries
from helpers.mutations import edit_json, mutate

import marc


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    draw_lab_folder(folder / "photos", count=9)
    words = ["--encoder", *SPACES, "--predictor", PREDICTOR, "--views", "3", "--chunk", "4"]
    made = call("embed", f"folder/{folder / 'photos'}", *words, "-o", folder / "whole")
    assert made.status == 0, made.err
    return folder / "whole"


def content(path, n_views):
    """Everything that a stream has of a store."""
    stream = marc.load_stream(f"store/{path}")
    stream = stream.with_views(n_views) if n_views else stream
    features = stream.features
    arrays = [features.views, features.predictor.prototypes, stream.row_labels]
    arrays += [features.spaces[name] for name in stream.spaces]
    told = (
        stream.spaces,
        stream.features.class_names,
        stream.features.ids,
        features.predictor.logit_scale,
    )
    return [np.asarray(array).tobytes() for array in arrays], told


@pytest.mark.parametrize("n_views", [0, 1])
def test_changed_stores(store, tmp_path, record_property, n_views):
    whole = content(store, n_views)
    tries = Tries(f"stores, {n_views or 'all'} views", record_property)
    for draw in tries(120):
        path = tmp_path / "store"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(store, path)
        files = sorted(each for each in path.rglob("*") if each.is_file())
        file = files[int(draw.integers(len(files)))]
        with tries.one(mutate(file, draw, edit_json if file.suffix == ".json" else None)):
            try:
                assert content(path, n_views) == whole
                tries.counts["same"] += 1
            except marc.MarcError:
                tries.counts["refused"] += 1
