"""The embedding of every prompt, from wherever a stream comes."""

import numpy as np
import pytest
from helpers.embedding_trees import draw_lab_folder, embed_plan, make_plan
from helpers.making import make_stream

import marc
from marc.errors import MarcError
from marc.scores import unit
from marc.sources.pack import read_pack, write_pack
from marc.stream import Stream
from marc.stream.predictor import PromptEmbeddings
from marc_lab.encoders import mini_predictor

VIEWS = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
PROTOTYPES = np.random.default_rng(1).standard_normal((3, 6))


def test_the_first_prompts_of_each_class_are_as_many_as_the_class_with_the_fewest_has():
    rows = np.random.default_rng(2).standard_normal((7, 6)).astype(np.float32)
    class_of = np.array([1, 0, 2, 1, 0, 2, 1])
    prompts = PromptEmbeddings(class_of, lambda: rows)
    assert prompts.by_class.shape == (3, 2, 6)
    for label in range(3):
        expected = unit(rows[class_of == label][:2])
        np.testing.assert_array_equal(prompts.by_class[label], expected)


def test_prompts_are_read_once_and_only_when_they_are_used():
    reads = []

    def read():
        reads.append(1)
        return np.eye(3, dtype=np.float32)

    prompts = PromptEmbeddings(np.arange(3), read)
    assert not reads
    assert prompts.rows is prompts.rows
    assert prompts.by_class.shape == (3, 1, 3)
    assert len(reads) == 1


def test_a_cube_of_prompts_is_a_table_with_classes():
    cube = np.random.default_rng(2).standard_normal((3, 4, 6))
    whole = Stream.from_arrays(VIEWS, PROTOTYPES, prompts=cube)
    table = Stream.from_arrays(
        VIEWS, PROTOTYPES, prompts=cube.reshape(12, 6), prompt_class=np.repeat(np.arange(3), 4)
    )
    first, second = (stream.features.predictor.prompts for stream in (whole, table))
    np.testing.assert_array_equal(first.by_class, second.by_class)
    np.testing.assert_array_equal(first.by_class, unit(cube))
    assert whole.fingerprint == table.fingerprint


@pytest.mark.parametrize(
    ("prompts", "prompt_class"),
    [
        (np.ones((2, 4, 6)), None),  # a class too few
        (np.ones((3, 4, 5)), None),  # another dimension
        (np.ones((12, 6)), None),  # whose are they?
        (np.ones((4, 6)), np.array([0, 1, 2])),
        (np.ones((3, 6)), np.array([0, 1, 1])),  # a class without prompts
        (np.ones((4, 6)), np.array([0, 1, 2, 3])),
        (np.ones((3, 6)), np.array([0, 1, -1])),
        (np.ones((3, 4, 6)), np.arange(3)),
    ],
)
def test_prompts_that_do_not_fit_are_refused(prompts, prompt_class):
    with pytest.raises(MarcError, match="prompts"):
        Stream.from_arrays(VIEWS, PROTOTYPES, prompts=prompts, prompt_class=prompt_class)


def test_a_prompt_that_is_no_feature_is_refused():
    with pytest.raises(MarcError, match="prompts must be finite"):
        Stream.from_arrays(VIEWS, PROTOTYPES, prompts=np.zeros((3, 2, 6)))


def test_a_pack_keeps_the_prompts(tmp_path):
    stream = make_stream(n_prompts=4)
    write_pack(stream, tmp_path / "pack.npz")
    again = read_pack(tmp_path / "pack.npz")
    expected = stream.features.predictor.prompts
    np.testing.assert_array_equal(again.features.predictor.prompts.rows, expected.rows)
    np.testing.assert_array_equal(again.features.predictor.prompts.class_of, expected.class_of)
    assert again.fingerprint == stream.fingerprint


def test_prompt_classes_without_prompts_are_refused():
    with pytest.raises(MarcError, match="prompt_class without prompts"):
        Stream.from_arrays(VIEWS, PROTOTYPES, prompt_class=np.arange(3))


def test_the_same_prompts_of_other_classes_are_other_prompts():
    rows = np.random.default_rng(2).standard_normal((6, 6))
    streams = [
        Stream.from_arrays(VIEWS, PROTOTYPES, prompts=rows, prompt_class=class_of)
        for class_of in ([0, 0, 1, 1, 2, 2], [0, 1, 2, 0, 1, 2])
    ]
    assert streams[0].fingerprint != streams[1].fingerprint


def test_prompts_are_part_of_what_answers_depend_on():
    without, few, more = (make_stream(n_prompts=count) for count in (0, 4, 5))
    assert "prompts" not in without.fingerprint
    assert few.fingerprint["prompts"] != more.fingerprint["prompts"]


def test_the_prompts_of_the_lab_are_what_its_prototypes_are_means_of():
    predictor = mini_predictor((3, 7, 40))
    assert predictor.prompts.by_class.shape[:2] == (predictor.n_classes, 10)
    means = unit(predictor.prompts.by_class.mean(axis=1))
    np.testing.assert_allclose(means, predictor.prototypes, atol=1e-6)


def test_a_store_gives_the_prompts_that_were_embedded(tmp_path):
    embed_plan(make_plan(draw_lab_folder(tmp_path / "pictures"), tmp_path / "store"))
    predictor = marc.load_stream(f"store/{tmp_path / 'store'}").features.predictor
    assert predictor.prompts.by_class.shape[0] == predictor.n_classes
    means = unit(predictor.prompts.by_class.mean(axis=1))
    np.testing.assert_allclose(means, predictor.prototypes, atol=1e-6)
