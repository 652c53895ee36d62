import pytest

import marc
from marc import MarcError
from marc.cli._options import open_stream
from marc.sources import draws_views


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("pack.npz", "arrays/pack.npz"),
        ("data/pack.npz", "arrays/data/pack.npz"),
        ("/data/pack.npz", "arrays//data/pack.npz"),
        ("folders/images", "lab/sketch-12"),
        ("pack", "lab/sketch-12"),
        ("arrays", "arrays/FILE.npz"),
        ("arrays/", "arrays/FILE.npz"),
        ("", "lab/sketch-12"),
        ("lab/", "lab/NAME"),
        ("neon-12", "lab/neon-12"),
    ],
)
def test_another_spelling_of_a_source_gets_the_right_one(source, hint):
    with pytest.raises(MarcError) as refusal:
        marc.load_stream(source)
    message = str(refusal.value)
    assert message.startswith("a source is written type/name, and this type is not known.")
    assert "allowed:  arrays/FILE.npz, lab/NAME, store/DIR, folder/DIR" in message
    assert message.endswith(f"try:  {hint}")


def test_an_unknown_stream_of_the_lab_is_refused_with_the_names():
    with pytest.raises(MarcError, match="mosaic-12"):
        marc.load_stream("lab/sketches")


def test_stored_views_are_taken_as_far_as_asked(sources):
    assert marc.load_stream(sources["labelled"]).n_views == 2
    one = marc.load_stream(sources["labelled"], n_views=1)
    whole = marc.load_stream(sources["labelled"])
    assert one.fingerprint == whole.with_views(1).fingerprint
    assert marc.load_stream(sources["labelled"], n_views=2).fingerprint == whole.fingerprint
    with pytest.raises(MarcError, match="does not store that many views"):
        marc.load_stream(sources["labelled"], n_views=3)


@pytest.mark.parametrize("source", ["lab/sketch-12", "labelled"])
def test_no_views_are_not_all_views(sources, source):
    with pytest.raises(MarcError, match="views must be an integer"):
        marc.load_stream(sources.get(source, source), n_views=0)


def test_the_lab_draws_as_many_views_as_are_asked_for():
    plain = marc.load_stream("lab/sketch-12")
    assert plain.n_views == 1
    three = marc.load_stream("lab/sketch-12", n_views=3)
    assert three.n_views == 3
    assert three.with_views(1).fingerprint == plain.fingerprint
    assert draws_views("lab/sketch-12")
    assert not draws_views("labs/sketch-12")


def test_the_command_line_takes_all_stored_views_for_zero(sources):
    assert open_stream(sources["labelled"], 0).n_views == 2
    assert open_stream(sources["labelled"], 1).n_views == 1
    assert open_stream("lab/sketch-12", 0).n_views == 1
    assert open_stream("lab/sketch-12", 3).n_views == 3
