import pytest

import marc
from marc import MarcError


@pytest.mark.parametrize("source", ["", "lab", "lab/", "photos/x", "x.npz", "/tmp/x.npz"])
def test_a_source_of_no_known_type_is_refused_with_the_types(source):
    with pytest.raises(MarcError, match=r"arrays/FILE\.npz, lab/NAME"):
        marc.load_stream(source)


def test_a_file_without_a_type_is_told_its_spelling():
    with pytest.raises(MarcError, match=r"try:  arrays/photos\.npz"):
        marc.load_stream("photos.npz")


def test_a_stream_of_the_lab_without_its_type_is_told_its_spelling():
    with pytest.raises(MarcError, match=r"try:  lab/neon-12"):
        marc.load_stream("neon-12")


def test_an_unknown_stream_of_the_lab_is_refused_with_the_names():
    with pytest.raises(MarcError, match="mosaic-12"):
        marc.load_stream("lab/sketches")
