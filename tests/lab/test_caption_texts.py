import numpy as np
import pytest

from marc import MarcError
from marc_lab.caption_texts import CAPTION_LENGTH, VOCABULARY, caption, tokens
from marc_lab.classes import CLASSES
from marc_lab.encoders import PROMPTS
from marc_lab.world import render

PICTURES = [render(5, index) for index in range(300)]
CAPTIONS = [
    caption(picture.facts, np.random.default_rng([5, index, 4]))
    for index, picture in enumerate(PICTURES)
]


def names(label):
    return {CLASSES[label].name, *CLASSES[label].synonyms}


def test_a_caption_never_names_another_class():
    for picture, text in zip(PICTURES, CAPTIONS, strict=True):
        others = set().union(*(names(label) for label in range(48) if label != picture.label))
        assert not set(text.split()) & (others - names(picture.label)), text


def test_three_quarters_of_the_captions_name_the_thing():
    named = [
        bool(names(picture.label) & set(text.split()))
        for picture, text in zip(PICTURES, CAPTIONS, strict=True)
    ]
    assert 0.68 < np.mean(named) < 0.82


def test_captions_speak_the_vocabulary_and_fit():
    for text in CAPTIONS:
        row = tokens(text)
        assert row.shape == (CAPTION_LENGTH,)
        assert (row > 0).sum() == len(text.split()) <= CAPTION_LENGTH
    assert sorted(VOCABULARY.values()) == list(range(1, len(VOCABULARY) + 1))


def test_every_prompt_can_be_asked_of_every_class():
    for prompt in PROMPTS:
        for kind in CLASSES:
            tokens(prompt.format(kind.name))


def test_an_unknown_word_is_named():
    with pytest.raises(MarcError, match="giraffe"):
        tokens("a photo of a giraffe")
