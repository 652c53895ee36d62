"""A store that was damaged gives what was written or an error, whatever part of it is read."""

import contextlib
import json
import random
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest
import zarr
from helpers.commands import call, tree
from helpers.embedding_trees import embed_plan
from helpers.stores import (
    chunk_files,
    edit_json,
    files_of,
    make_store,
    replace_values,
    seal_array,
    seal_store,
)

from marc.embed.store import FeatureStore
from marc.errors import MarcError

VIEWS, PROTOTYPES = FeatureStore.VIEWS, FeatureStore.PROTOTYPES
WORDS = ("predictor/texts", "predictor/prompts", "predictor/prompt_class", PROTOTYPES)
DAMAGED = r"not what was written(.|\n)*marc embed"


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("sealed"))


@pytest.fixture
def path(plan, tmp_path):
    return shutil.copytree(plan.store, tmp_path / "store")


def features(path, n_views=None):
    """All that a stream gives, as plain data."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a space that is left out is not the same features
        stream = FeatureStore(path).stream()
    known = stream.features
    views = known.views if n_views is None else known.views.first(n_views)
    arrays = [np.asarray(views), *(known.spaces[name] for name in stream.spaces)]
    arrays += [known.predictor.prototypes, known.predictor.prompts.rows, stream.labels]
    facts = [known.ids, known.class_names, known.predictor.logit_scale, stream.fingerprint]
    return [array.tobytes() for array in arrays], facts


def negate_second_view(path):
    file = chunk_files(path, VIEWS)[1]
    values = np.frombuffer(file.read_bytes(), "<f2").reshape(4, 3, -1).copy()
    values[:, 1] *= -1
    file.write_bytes(values.tobytes())


@pytest.mark.parametrize("n_views", [2, 3])
def test_a_view_that_was_changed_is_found_however_few_are_read(path, n_views):
    negate_second_view(path)
    with pytest.raises(MarcError, match=DAMAGED):
        features(path, n_views)


def test_views_that_are_not_read_harm_nobody(plan, path):
    negate_second_view(path)
    assert features(path, 1) == features(plan.store, 1)


def test_the_command_refuses_a_negated_view_too(path):
    file = chunk_files(path, VIEWS)[1]
    values = np.frombuffer(file.read_bytes(), "<f2")
    file.write_bytes((-values).tobytes())
    done = call("run", f"store/{path}", "--views", "1", "--space", "pixels", "-o", path / "out")
    assert done.status == 2
    assert "predictor/views is not what was written" in done.err


@pytest.mark.parametrize(
    "name", [VIEWS, "spaces/pixels", *WORDS[2:], "images/ids", "images/status"]
)
@pytest.mark.parametrize("of", ["", "digests/"])
def test_a_lost_chunk_is_no_chunk_of_zeros(path, name, of):
    chunk_files(path, of + name)[-1].unlink()
    with pytest.raises(MarcError, match=DAMAGED):
        features(path, 1)


def test_two_chunks_that_were_exchanged_are_found(path):
    for folder in (VIEWS, f"digests/{VIEWS}"):
        one, other = chunk_files(path, folder)[:2]
        first = one.read_bytes()
        one.write_bytes(other.read_bytes())
        other.write_bytes(first)
    with pytest.raises(MarcError, match=DAMAGED):
        features(path)


def test_a_stream_that_is_open_never_gives_what_was_put_in_its_place(plan, path):
    stream = FeatureStore(path).stream()
    replace_values(path, "spaces/pixels", lambda rows: -rows)
    with pytest.raises(MarcError, match=DAMAGED):
        _ = stream.features.spaces["pixels"]


@pytest.mark.parametrize("part", range(4))
def test_a_flipped_byte_ends_in_the_same_features_or_in_an_error(plan, path, part):
    """Of whatever file; those that are never read, as the list of bad pictures, do no harm."""
    expected, files = features(plan.store), files_of(path)
    found = 0
    for seed in range(part * 80, part * 80 + 80):
        draw = random.Random(seed)
        file = files[seed % len(files)]
        whole = file.read_bytes()
        harmed = bytearray(whole)
        harmed[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        file.write_bytes(harmed)
        try:
            assert features(path) == expected, (seed, file)
        except MarcError:
            found += 1
        file.write_bytes(whole)
    assert found > 40
    assert features(path) == expected


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, 3.0])
@pytest.mark.parametrize("name", [VIEWS, "spaces/pixels"])
def test_features_that_no_encoder_gives_are_refused_though_they_are_sealed(path, name, value):
    def harm(rows):
        rows[5, ...] = value
        return rows

    replace_values(path, name, harm)
    with pytest.raises(MarcError, match=rf"{name} is(.|\n)*finite"):
        features(path)


@pytest.mark.parametrize("scale", [-5, 0, 1e12, "100", None, True, [1.0]])
def test_a_logit_scale_that_no_predictor_has_is_refused(path, scale):
    def change(document):
        document["attributes"]["made"]["logit_scale"] = scale

    shutil.copytree(path, path.with_name("other"))
    edit_json(path / PROTOTYPES / "zarr.json", change)
    with pytest.raises(MarcError, match="sealed"):
        features(path)
    seal_array(path.with_name("other"), PROTOTYPES, change)
    with pytest.raises(MarcError, match=rf"prototypes is {DAMAGED}"):
        features(path.with_name("other"))


ODD = (None, -1, 2**70, 1.5, "x", [], {}, True)


@pytest.mark.parametrize("field", ["n_images", "list", "labelled", "upright", "chunk", "source"])
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_facts_of_a_store_that_make_no_sense_are_refused(path, field, value):
    about = json.loads((path / "zarr.json").read_text())["attributes"]["marc_store"]
    value = 7 if type(value) is type(about[field]) and value not in (-1, 2**70) else value
    harmed = shutil.copytree(path, path.with_name("harmed"))
    edit_json(
        harmed / "zarr.json", lambda all: all["attributes"]["marc_store"].update({field: value})
    )
    with pytest.raises(MarcError, match=DAMAGED):
        features(harmed)
    seal_store(path, lambda about: about.update({field: value}))
    with pytest.raises(MarcError, match=DAMAGED):
        features(path)


def places(value, at=()):
    """Every place in a document."""
    for key in value if isinstance(value, dict) else ():
        yield (*at, key)
        yield from places(value[key], (*at, key))


@pytest.mark.parametrize("name", [VIEWS, PROTOTYPES, "images/ids", "spaces/pixels", ""])
def test_a_document_edited_anywhere_is_refused_or_says_the_same(plan, path, name):
    file = path / name / "zarr.json"
    whole, expected = file.read_text(), features(plan.store, 1)
    for place in places(json.loads(whole)):
        for value in ODD:

            def change(document, place=place, value=value):
                for key in place[:-1]:
                    document = document[key]
                document[place[-1]] = value

            edit_json(file, change)
            with contextlib.suppress(MarcError):
                assert features(path, 1) == expected, (place, value)
            file.write_text(whole)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        (VIEWS, ("shape", 1), 4097),
        (VIEWS, ("shape", 0), 2**31),
        (VIEWS, ("shape", 2), 2**20),
        (VIEWS, ("data_type",), "string"),
        (VIEWS, ("data_type",), "object"),
        ("images/ids", ("shape", 0), 13),
        (PROTOTYPES, ("shape", 0), 10**9),
        ("spaces/pixels", ("chunk_grid", "configuration", "chunk_shape", 0), 0),
    ],
)
def test_sizes_that_no_store_has_are_refused_before_anything_is_made_of_them(
    path, name, place, value
):
    def change(document):
        for key in place[:-1]:
            document = document[key]
        document[place[-1]] = value

    seal_array(path, name, change)
    with pytest.raises(MarcError, match=DAMAGED):
        features(path)


@pytest.mark.parametrize(
    "name", [VIEWS, "spaces/pixels", *WORDS, "images/status", "images/content"]
)
@pytest.mark.parametrize("of", ["", "digests/"])
def test_the_same_call_makes_a_damaged_chunk_again(plan, path, name, of):
    before = tree(path)
    file = chunk_files(path, of + name)[-1]
    for harm in (lambda: file.write_bytes(file.read_bytes()[:-1]), file.unlink):
        harm()
        embed_plan(replace(plan, store=path))
        assert tree(path) == before


@pytest.mark.parametrize("name", ["", "images/ids", "images/status", VIEWS, PROTOTYPES])
def test_a_damaged_document_is_made_again_by_force(plan, path, name):
    expected = features(plan.store)
    (path / name / "zarr.json").write_text("{")
    with pytest.raises(MarcError, match=r"--force"):
        embed_plan(replace(plan, store=path))
    embed_plan(replace(plan, store=path), force=True)
    assert features(path) == expected


def test_a_store_of_the_first_format_says_what_to_type(path):
    edit_json(path / "zarr.json", lambda all: all["attributes"]["marc_store"].update(format=1))
    with pytest.raises(MarcError, match=r"format 1(.|\n)*--force"):
        FeatureStore(path)


def test_a_zarr_library_reads_what_was_written(plan):
    group, store = zarr.open_group(plan.store, mode="r"), FeatureStore(plan.store)
    for name in (VIEWS, "spaces/pixels", *WORDS, "images/ids", "images/labels", "images/content"):
        assert np.array_equal(np.asarray(group[name][...]), store.get(name)), name
    assert group[f"digests/{VIEWS}"][...].tobytes() == store.pin(VIEWS).table.tobytes()
