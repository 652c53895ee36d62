import pytest

import marc
from marc import MarcError


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
