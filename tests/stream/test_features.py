"""Features that are read when they are used are the same features."""

from dataclasses import replace

import numpy as np
from helpers.making import make_stream

from marc.stream import Features, LazySpaces, LazyViews, Stream, digest, rows


def lazily(stream, calls, known=()):
    """The same stream, with features that note when they are read."""
    old = stream.features
    views = np.asarray(old.views)

    def read(n_views):
        calls.append(f"views {n_views}")
        return views[:, :n_views]

    def reader(name):
        def read_space():
            calls.append(name)
            return old.spaces[name]

        return read_space

    features = Features(
        LazyViews(read, views.shape),
        old.predictor,
        LazySpaces(
            {name: reader(name) for name in old.spaces},
            {name: keys.shape[1] for name, keys in old.spaces.items()},
        ),
        old.class_names,
        old.ids,
        known=dict(known),
    )
    return Stream(features, stream.order, stream.row_labels, name=stream.name)


def test_nothing_is_read_before_it_is_used_and_each_thing_once():
    calls = []
    stream = lazily(make_stream(n_views=4), calls)
    assert (len(stream), stream.n_views) == (len(make_stream()), 4)
    assert stream.spaces == make_stream().spaces
    assert calls == []
    space = stream.spaces[0]
    stream.features.keys(space)
    stream.features.keys(space)
    assert calls == [space]
    few = stream.with_views(2)
    assert few.n_views == 2
    assert calls == [space]
    assert few.features.base.logits is not None
    assert calls == [space, "views 2"]


def test_lazy_features_are_the_same_features():
    plain, lazy = make_stream(n_views=4), lazily(make_stream(n_views=4), [])
    assert lazy.fingerprint == plain.fingerprint
    assert lazy.features.images == plain.features.images
    assert np.array_equal(lazy.features.base.logits, plain.features.base.logits)
    assert np.array_equal(np.asarray(lazy.features.views), plain.features.views)
    fewer = lazy.with_views(2), plain.with_views(2)
    assert fewer[0].fingerprint == fewer[1].fingerprint
    for query, other in zip(lazy, plain, strict=True):
        assert np.array_equal(query.views, other.views)
        assert np.array_equal(query.keys[lazy.spaces[0]], other.keys[lazy.spaces[0]])


def test_a_known_digest_spares_the_reading():
    plain, calls = make_stream(n_views=2), []
    known = {"views": digest(plain.features.views)}
    known |= {f"spaces/{name}": digest(keys) for name, keys in plain.features.spaces.items()}
    lazy = lazily(plain, calls, known)
    assert lazy.fingerprint == plain.fingerprint
    assert calls == []
    # a known digest is of all views, so it does not stand for fewer of them
    assert lazy.with_views(1).fingerprint == plain.with_views(1).fingerprint
    assert calls == ["views 1"]


def test_a_digest_sees_type_shape_and_numbers():
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    others = [array.astype(np.float64), array.reshape(2, 3), array + 1, array[:2]]
    assert len({digest(each) for each in [array, *others]}) == 5
    assert digest(array) == digest(array.copy())


def test_what_is_held_is_not_prepared():
    calls, told = [], []
    stream = lazily(make_stream(), calls)
    stream.features.prepare([], lambda *words: told.append(words))
    assert (calls, told) == ([], [])


def test_what_is_not_held_is_read_and_asked_once(monkeypatch):
    monkeypatch.setattr(rows, "_LARGE", 10)
    calls, told = [], []
    stream = make_stream(n_views=2)
    n_images, features = len(stream), stream.features

    def read(index):
        calls.append(len(index))
        return features.spaces["good"][index]

    held = features.spaces["good"]
    good = rows.lazy_rows(read, held.shape, held.dtype)
    unheld = replace(features, spaces={"good": good}, _transformed={})
    unheld.prepare(["good", "predictor"], lambda *words: told.append(words))
    assert sum(calls) == n_images
    assert ("what the predictor says", n_images, n_images) in told
    assert told[-1] == ("reading good", n_images, n_images)
    monkeypatch.setattr(rows, "_LARGE", 2**28)
    expected = features.base.label
    monkeypatch.setattr(type(features.predictor), "logits", lambda *_: 1 / 0)
    assert np.array_equal(unheld.base.label, expected)
