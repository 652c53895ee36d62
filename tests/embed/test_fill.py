"""Filling a store: the features of a direct computation, resumed, shared out and never mixed."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import tree
from helpers.embedding_trees import PREDICTOR, SPACES, draw_lab_folder, embed_plan, make_plan
from helpers.image_trees import odd_folder
from PIL import Image

import marc
from marc import MarcError
from marc.embed.fill import _cut_chunk
from marc.embed.plan import EncoderSpec, Job
from marc.embed.store import FeatureStore
from marc.embed.workers import ViewPlan
from marc.encoders import create_encoder
from marc.pictures.decoding import Unreadable, decode
from marc.pictures.listing import with_class_names
from marc.pictures.views import make_views
from marc.scores import unit


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return draw_lab_folder(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="module")
def embedded(pictures, tmp_path_factory):
    store = tmp_path_factory.mktemp("stores") / "s"
    embed_plan(make_plan(pictures, store, n_views=3))
    return store


def direct(pictures, name, n_views=1):
    """One picture after the other, with nothing of the pipeline."""
    encoder = create_encoder(name)
    rows = []
    for path in sorted(pictures.rglob("*.png")):
        picture = Image.open(path).convert("RGB")
        key = path.relative_to(pictures).as_posix()
        if n_views == 1:
            squares = encoder.card.crop.cut(picture)[None]
        else:
            squares = make_views(picture, encoder.card.crop, "VC", n_views, key=key, seed=0)
        rows.append(encoder.encode(squares))
    return np.stack(rows)


def test_a_store_holds_what_the_encoders_give(pictures, embedded):
    store = FeatureStore(embedded)
    for name in SPACES:
        stored = store.read(f"spaces/{name.removeprefix('mini:')}")
        assert stored.dtype == np.float32
        np.testing.assert_allclose(stored, direct(pictures, name)[:, 0], atol=2e-6)
    views = store.read("predictor/views")
    assert views.dtype == np.float16
    np.testing.assert_allclose(views, direct(pictures, PREDICTOR, 3), atol=1e-3)


def test_a_store_is_a_stream(pictures, embedded):
    stream = marc.load_stream(f"store/{embedded}")
    assert stream.spaces == ("pairs-small", "pixels")
    assert (len(stream), stream.n_views, stream.n_classes) == (14, 3, 3)
    names = sorted(path.name for path in pictures.iterdir())
    assert stream.features.class_names == tuple(names)
    assert stream.features.ids[0].startswith(f"{names[0]}/")
    labels = [names.index(name.split("/")[0]) for name in stream.features.ids]
    assert stream.labels.tolist() == labels
    text = create_encoder(PREDICTOR)
    assert stream.features.predictor.logit_scale == pytest.approx(text.logit_scale)
    run = marc.run(marc.MARC(space="pairs-small", capacity=2, weight=1.0), stream)
    assert 0 <= run.accuracy <= 1


def test_a_prototype_is_the_normalised_mean_of_its_prompts(embedded):
    store = FeatureStore(embedded)
    prompts, owner = store.get("predictor/prompts"), store.get("predictor/prompt_class")
    assert len(store.get("predictor/texts")) == len(prompts) == 30
    for label in range(3):
        mean = unit(prompts[owner == label].mean(axis=0))
        assert np.allclose(store.get("predictor/prototypes")[label], mean, atol=1e-6)


def test_the_bytes_do_not_depend_on_workers_or_on_what_came_before(pictures, embedded, tmp_path):
    plan = make_plan(pictures, tmp_path / "s", n_views=3)
    first = embed_plan(replace(plan, spaces=plan.spaces[:1]), n_workers=2)
    assert first.n_chunks == 2 * 4
    second = embed_plan(plan)
    assert second.n_chunks == 4
    assert tree(tmp_path / "s") == tree(embedded)
    third = embed_plan(plan)
    assert (third.n_chunks, third.timing.images) == (0, 0)
    assert tree(tmp_path / "s") == tree(embedded)


@pytest.mark.parametrize("lost", ["spaces/pixels/c/2", "predictor/views/c/0"])
def test_a_lost_chunk_is_noticed_and_computed_again_by_force(pictures, embedded, tmp_path, lost):
    shutil.copytree(embedded, tmp_path / "s")
    shutil.rmtree(tmp_path / "s" / lost)
    stream = marc.load_stream(f"store/{tmp_path / 's'}")
    with pytest.raises(MarcError, match="is not what was written"):
        stream.features.keys("pixels" if "pixels" in lost else "predictor")
    # a lost chunk is computed again, an altered one by force
    embed_plan(make_plan(pictures, tmp_path / "s", n_views=3))
    assert tree(tmp_path / "s") == tree(embedded)
    chunk = next(path for path in (tmp_path / "s" / lost).rglob("*") if path.is_file())
    chunk.write_bytes(bytes(len(chunk.read_bytes())))
    embed_plan(make_plan(pictures, tmp_path / "s", n_views=3), force=True)
    assert tree(tmp_path / "s") == tree(embedded)


def test_force_computes_again_what_is_named_and_leaves_the_rest(pictures, embedded, tmp_path):
    shutil.copytree(embedded, tmp_path / "s")
    plan = make_plan(pictures, tmp_path / "s", n_views=3, spaces=SPACES[:1], predictor=None)
    done = embed_plan(plan, force=True)
    assert done.n_chunks == 4
    assert tree(tmp_path / "s") == tree(embedded)


def test_a_repaired_picture_comes_out_of_quarantine_by_force(tmp_path):
    folder = draw_lab_folder(tmp_path / "pictures", count=6)
    victim = sorted(folder.rglob("*.png"))[2]
    whole = victim.read_bytes()
    victim.write_bytes(whole[:50])
    plan = make_plan(folder, tmp_path / "s")
    assert len(embed_plan(plan).quarantined) == 1
    victim.write_bytes(whole)
    with pytest.raises(MarcError, match="not those that the store was made of"):
        embed_plan(plan)
    assert embed_plan(plan, force=True).quarantined == ()
    assert len(marc.load_stream(f"store/{tmp_path / 's'}")) == 6


@pytest.mark.parametrize("batch", [2, 5])
def test_batches_do_not_depend_on_what_else_there_is_to_do(pictures, tmp_path, monkeypatch, batch):
    """An encoder that shows its batches: each vector is of all pictures of its batch."""

    def encode(self, images):
        rows = images.reshape(len(images), -1)[:, :768].astype(np.float32) + 1
        for start in range(0, len(rows), batch):
            rows[start : start + batch] = rows[start : start + batch].sum(axis=0)
        return unit(rows)

    monkeypatch.setattr("marc_lab.encoders._Pixels.encode", encode)
    for name in ("one", "two"):
        plan = make_plan(pictures, tmp_path / name, n_views=30, spaces=SPACES[1:], chunk=9)
        if name == "two":
            embed_plan(replace(plan, spaces=()))
            embed_plan(replace(plan, predictor=None))
        embed_plan(plan)
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


def test_another_recipe_precision_or_prompt_is_refused_by_name(pictures, embedded, tmp_path):
    shutil.copytree(embedded, tmp_path / "s")
    before = tree(tmp_path / "s")
    plan = make_plan(pictures, tmp_path / "s", n_views=3)
    words = tmp_path / "words.txt"
    words.write_text("arrow\nstar\nheart\n")
    changes = {
        "views.seed: stored 0, now 1": replace(plan, views=ViewPlan("VC", 3, 1)),
        "views.n_views: stored 3, now 2": replace(plan, views=ViewPlan("VC", 2, 0)),
        "views.id: stored VC, now VA": replace(plan, views=ViewPlan("VA", 3, 0)),
        "class_names": replace(plan, images=with_class_names(plan.images, words)),
    }
    for message, changed in changes.items():
        with pytest.raises(MarcError, match=message):
            embed_plan(changed)
        assert tree(tmp_path / "s") == before
    renamed = embed_plan(changes["class_names"], force=True)
    assert renamed.n_chunks == 0  # new words need no new features of pictures
    names = marc.load_stream(f"store/{tmp_path / 's'}").features.class_names
    assert names == ("arrow", "star", "heart")


def test_a_picture_that_changed_is_noticed(pictures, tmp_path, monkeypatch):
    folder = shutil.copytree(pictures, tmp_path / "pictures")
    plan = make_plan(folder, tmp_path / "s")
    embed_plan(replace(plan, spaces=plan.spaces[:1]))
    victim = sorted(folder.rglob("*.png"))[5]
    Image.new("RGB", (80, 80), "red").save(victim)
    with pytest.raises(MarcError, match=rf"not those that(.|\n)*{victim.name}"):
        embed_plan(plan)
    monkeypatch.setattr("marc.embed.changes._SAMPLE", 1)  # not among those that are looked at
    with pytest.raises(MarcError, match=rf"not those that(.|\n)*{victim.name}"):
        embed_plan(plan)
    assert FeatureStore(tmp_path / "s").read("spaces/pairs-small") is not None


def test_other_pictures_of_the_same_names_are_not_taken_for_done(pictures, embedded, tmp_path):
    shutil.copytree(embedded, tmp_path / "s")
    other = shutil.copytree(pictures, tmp_path / "other")
    plan = make_plan(other, tmp_path / "s", n_views=3)
    assert embed_plan(plan).n_chunks == 0  # a moved folder is the same pictures
    victim = sorted(other.rglob("*.png"))[7]
    Image.new("RGB", (80, 80), "red").save(victim)
    with pytest.raises(MarcError, match=victim.name):
        embed_plan(plan)


def test_a_stream_needs_a_whole_predictor(pictures, tmp_path):
    plan = make_plan(pictures, tmp_path / "s")
    embed_plan(replace(plan, predictor=None))
    with pytest.raises(MarcError, match="no predictor"):
        marc.load_stream(f"store/{tmp_path / 's'}")


def test_a_space_that_is_not_whole_is_left_out_and_said(pictures, tmp_path):
    plan = make_plan(pictures, tmp_path / "s")
    embed_plan(plan)
    store = FeatureStore(tmp_path / "s")
    store.prepare("spaces/half", (8,), "float32", made={"encoder": "half"})
    store.write("spaces/half", 0, np.ones((4, 8), np.float32))
    with pytest.warns(UserWarning, match="left out: half"):
        stream = marc.load_stream(f"store/{tmp_path / 's'}")
    assert "half" not in stream.spaces


def reason_of(path):
    try:
        decode(path.read_bytes(), upright=True)
    except Unreadable as problem:
        return Unreadable.REASONS[problem.code]
    return None


def test_odd_files_are_quarantined_with_a_reason_and_the_others_embedded(tmp_path):
    folder = tmp_path / "odd"
    folder.mkdir()
    odd_folder(folder)
    plan = make_plan(folder, tmp_path / "s", spaces=("mini:pixels",), predictor=None)
    done = embed_plan(plan)
    bad = dict(done.quarantined)
    for name, place in zip(plan.images.ids, plan.images.locations, strict=True):
        assert bad.get(name) == reason_of(Path(place.path))
    assert 0 < len(bad) < done.n_images
    lines = (tmp_path / "s" / "quarantine.csv").read_text().splitlines()
    assert lines[0] == "id,reason"
    assert len(lines) == len(bad) + 1
    store = FeatureStore(tmp_path / "s")
    assert len(store.read("spaces/pixels")) == done.n_images - len(bad)


def test_a_predictor_without_words_says_what_to_type(tmp_path):
    draw_lab_folder(tmp_path / "tree", count=4, n_classes=1)
    folder = next((tmp_path / "tree").iterdir())  # no sub-folders: no labels
    with pytest.raises(MarcError, match="--class-names"):
        embed_plan(make_plan(folder, tmp_path / "s"))
    assert not (tmp_path / "s").exists()


def test_nothing_to_embed_with_and_one_space_twice_are_refused(pictures, tmp_path):
    plan = make_plan(pictures, tmp_path / "s")
    with pytest.raises(MarcError, match="--encoder"):
        replace(plan, predictor=None, spaces=()).load()
    with pytest.raises(MarcError, match="spaces/pixels"):
        replace(plan, spaces=(EncoderSpec("mini:pixels"),) * 2).load()


@pytest.mark.parametrize(("n_views", "most"), [(1, 50), (8, 8), (64, 1)])
def test_groups_cover_a_chunk_once_and_in_order(n_views, most):
    class Store:
        def rows(self, chunk):
            return range(chunk * 50, chunk * 50 + 50)

    jobs = [Job("spaces/x", create_encoder(SPACES[1]))]
    jobs.append(Job("predictor/views", create_encoder(PREDICTOR), ViewPlan("VC", n_views, 0)))
    groups = _cut_chunk(Store(), 2, jobs)
    assert [row for group in groups for piece in group for row in piece] == list(range(100, 150))
    assert max(sum(map(len, group)) for group in groups) == most


def test_new_prototypes_beside_old_views_are_refused(embedded, tmp_path):
    shutil.copytree(embedded, tmp_path / "s")
    store = FeatureStore(tmp_path / "s")
    made = store.attributes("predictor/prototypes")["made"]
    made["encoder"]["digest"] = "another"
    store.put("predictor/prototypes", store.get("predictor/prototypes"), made)
    with pytest.raises(MarcError, match="two predictors"):
        marc.load_stream(f"store/{tmp_path / 's'}")
