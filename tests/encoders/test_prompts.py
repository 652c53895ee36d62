import hashlib
import json
from importlib import resources
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from marc import MarcError
from marc.encoders.prompts import PromptSet, Prototypes
from marc_lab.encoders import PROMPTS

DIM = 16
CLASSES = ("cat", "missile", "dog", "missile")
SHIPPED = sorted(
    file.name.removesuffix(".json")
    for file in (resources.files("marc.encoders") / "prompt_sets").iterdir()
    if file.name.endswith(".json")
)


class FakePredictor:
    """Every text gets a random direction of its own; the length is not one on purpose."""

    def __init__(self, known=(), vectors=None):
        self.card = SimpleNamespace(name="fake", prompts=known)
        self.seen = []
        self._vectors = vectors

    def encode_text(self, texts):
        self.seen += texts
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text):
        if self._vectors is not None:
            return np.array(self._vectors[text], dtype=np.float32)
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
        return 3 * np.random.default_rng(seed).standard_normal(DIM).astype(np.float32)


def cupl(**sentences):
    return PromptSet("cupl", "file", sentences=tuple(sentences.items()))


def slow_prototype(texts):
    total = np.zeros(DIM)
    for text in texts:
        vector = FakePredictor().encode_text([text])[0].astype(float)
        total += vector / np.linalg.norm(vector)
    mean = total / len(texts)
    return mean / np.linalg.norm(mean)


def written(folder, name, content):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_set_is_named_versioned_and_told_of(name):
    text = (resources.files("marc.encoders") / "prompt_sets" / f"{name}.json").read_text()
    assert list(json.loads(text)) == ["name", "version", "summary", "source", "templates"]
    read = PromptSet.read(name)
    assert (read.name, read.version) == (name, "1")
    assert read.source
    assert PromptSet.available()[name] == read.summary != ""
    assert len(set(read.templates)) == len(read.templates) >= 1


def test_the_shipped_sets_are_these():
    by_count = {name: len(PromptSet.read(name).templates) for name in SHIPPED}
    assert by_count.pop("tip-7") == 7
    assert by_count.pop("lab") == 10
    assert set(by_count.values()) == {1}
    of_data_sets = [
        "aircraft",
        "cars",
        "dtd",
        "eurosat",
        "flowers",
        "food101",
        "pets",
        "t1",
        "ucf101",
    ]
    assert sorted(by_count) == of_data_sets
    assert list(PromptSet.available()) == sorted([*SHIPPED, "t80"])


def test_the_lab_speaks_the_prompts_of_the_lab():
    assert PromptSet.read("lab").templates == PROMPTS


@pytest.mark.skipif(not find_spec("open_clip"), reason="needs open_clip")
def test_the_eighty_templates_are_eighty():
    eighty = PromptSet.read("t80")
    assert len(set(eighty.templates)) == 80
    assert eighty.templates[0] == "a bad photo of a {}."
    assert set(PromptSet.read("tip-7").templates) < set(eighty.templates)


def test_the_eighty_templates_need_open_clip(monkeypatch):
    monkeypatch.setattr("marc.encoders.prompts.find_spec", lambda name: None)
    with pytest.raises(MarcError, match=r"not installed(.|\n)*\[encoders\](.|\n)*tip-7"):
        PromptSet.read("t80")


def test_a_digest_is_of_the_texts_alone():
    read = PromptSet.read("t1")
    assert read.digest == PromptSet("other", "2", templates=read.templates).digest
    assert read.digest != PromptSet("t1", "1", templates=("a photo of the {}.",)).digest
    assert cupl(cat=("a",), dog=("b",)).digest != cupl(cat=("b",), dog=("a",)).digest


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mine.txt", "\ufeffa {}.\n\n  the {}.  \n"),
        ("mine.json", ["a {}.", "the {}."]),
        ("mine.json", {"templates": ["a {}.", "the {}."]}),
        ("MINE.JSON", {"templates": ["a {}.", "the {}."], "version": "7", "name": "ours"}),
    ],
)
def test_templates_of_a_user(tmp_path, name, content):
    read = PromptSet.read(written(tmp_path, name, content))
    assert read.templates == ("a {}.", "the {}.")
    named = isinstance(content, dict) and "name" in content
    assert (read.name, read.version) == (("ours", "7") if named else (name, "file"))


def test_sentences_of_a_user(tmp_path):
    said = {"cat": ["It purrs.", "It {is} soft."], "dog": ["It barks."]}
    read = PromptSet.read(written(tmp_path, "cupl.json", said))
    assert read.prompts(["dog", "cat", "dog"]) == (
        ("It barks.",),
        ("It purrs.", "It {is} soft."),
        ("It barks.",),
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "a photo\n", "one {} where the class name goes"),
        ("a.txt", "a {} or {}\n", "exactly one"),
        ("a.txt", "a {name} {}\n", "no other braces"),
        ("a.txt", "a {}}\n", "no other braces"),
        ("a.txt", "\n", "no prompts in the file"),
        ("a.json", "[", "is not JSON"),
        ("a.json", [], "no prompts in the file"),
        ("a.json", "7", "no prompts in the file"),
        ("a.json", ["a {}", 7], "lists of texts"),
        ("a.json", {"cat": "It purrs."}, "lists of texts"),
        ("a.json", {"cat": []}, "lists of texts"),
        ("a.json", {"templates": []}, "lists of texts"),
        ("a.json", {"cat": ["It purrs.", " "]}, "none of them empty"),
        ("a.json", '{"cat": ["a"], "cat": ["b"]}', "two entries"),
    ],
)
def test_a_file_that_is_no_prompt_set_is_refused(tmp_path, name, content, message):
    with pytest.raises(MarcError, match=message):
        PromptSet.read(written(tmp_path, name, content))


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path):
    with pytest.raises(MarcError, match="no such file"):
        PromptSet.read(str(tmp_path / "none.txt"))
    (tmp_path / "bytes.txt").write_bytes(b"caf\xe9 {}\n")
    with pytest.raises(MarcError, match="not text in UTF-8"):
        PromptSet.read(str(tmp_path / "bytes.txt"))


def test_an_unknown_name_lists_the_others():
    with pytest.raises(MarcError, match=r"got:  'tip'\n.*aircraft, cars.*tip-7.*path") as error:
        PromptSet.read("tip")
    assert "has no templates of its own" not in str(error.value)
    with pytest.raises(MarcError, match="tip-7 as in TDA and COSMIC, t1 as in CoOp"):
        PromptSet.read("caltech101")


def test_several_sets_are_pooled_class_by_class():
    pooled = PromptSet.pooled(
        ["cat", "dog"],
        [PromptSet.read("t1"), cupl(cat=("It purrs.",), dog=("It barks.", "Woof."))],
    )
    assert pooled == (
        ("a photo of a cat.", "It purrs."),
        ("a photo of a dog.", "It barks.", "Woof."),
    )


def test_missing_classes_are_named_with_the_closest_spelling():
    said = cupl(**{"Maine_Coon": ("a",), "pug": ("b",)})
    with pytest.raises(MarcError) as error:
        PromptSet.pooled(["maine coon", "pug", "zebra", "maine coon"], [said])
    told = str(error.value)
    assert "says nothing of 2 classes" in told
    assert "'maine coon' (there is 'Maine_Coon'), 'zebra'\n" in told


def test_many_missing_classes_are_counted():
    with pytest.raises(MarcError, match=r"nothing of 9 classes(.|\n)*'c4' and 4 more"):
        PromptSet.pooled([f"c{n}" for n in range(9)], [cupl(pug=("b",))])


def test_prototypes_are_normalised_means_of_normalised_prompts():
    sets = [
        PromptSet.read("tip-7"),
        cupl(cat=("Purr.",), dog=("Woof.", "Wag."), missile=("Bang.",)),
    ]
    made = Prototypes.embed(FakePredictor(), CLASSES, sets)
    by_class = PromptSet.pooled(CLASSES, sets)
    slow = np.stack([slow_prototype(texts) for texts in by_class])
    np.testing.assert_allclose(made.prototypes, slow, atol=2e-7)
    assert made.prototypes.dtype == made.prompts.dtype == np.float32
    assert made.texts == tuple(text for texts in by_class for text in texts)
    assert made.prompt_class.dtype == np.int64
    assert made.prompt_class.tolist() == [0] * 8 + [1] * 8 + [2] * 9 + [3] * 8
    alone = np.stack([slow_prototype([text]) for text in made.texts])
    np.testing.assert_allclose(made.prompts, alone, atol=2e-7)


def test_a_class_name_that_comes_twice_is_computed_once_and_told():
    encoder = FakePredictor()
    made = Prototypes.embed(encoder, CLASSES, [PromptSet.read("tip-7"), PromptSet.read("t1")])
    assert len(encoder.seen) == len(set(encoder.seen)) == 3 * 8
    assert made.prototypes[1].tobytes() == made.prototypes[3].tobytes()
    assert len(made.notes) == 1
    assert "classes 1 and 3 have the same prompts ('missile')" in made.notes[0]
    assert "3 will never be predicted" in made.notes[0]


def test_a_text_in_two_sets_counts_twice():
    once = PromptSet.read("t1")
    twice = Prototypes.embed(FakePredictor(), ["cat", "dog"], [once, once, PromptSet.read("tip-7")])
    slow = slow_prototype(twice.texts[:9])
    assert twice.texts[:2] == ("a photo of a cat.",) * 2
    np.testing.assert_allclose(twice.prototypes[0], slow, atol=2e-7)


def test_sentences_that_no_class_needs_are_noted():
    said = cupl(cat=("Purr.",), dog=("Woof.",), cow=("Moo.",))
    made = Prototypes.embed(FakePredictor(), ["dog", "cat"], [said])
    assert made.notes == ("cupl also speaks of 1 class that the data set does not have: 'cow'",)
    assert "Moo." not in made.texts


def test_many_texts_are_embedded_in_portions_with_the_same_result():
    names = [f"thing {n}" for n in range(90)]
    told = []
    sets = [PromptSet.read("tip-7")]
    made = Prototypes.embed(FakePredictor(), names, sets, on_progress=lambda *now: told.append(now))
    assert told == [(256, 630), (512, 630), (630, 630)]
    few = Prototypes.embed(FakePredictor(), names[-2:], sets)
    assert few.prototypes.tobytes() == made.prototypes[-2:].tobytes()


@pytest.mark.parametrize("names", [[], ["cat"], "cat", ["cat", ""], ["cat", " "]])
def test_classes_that_cannot_be_told_apart_or_said_are_refused(names):
    with pytest.raises(MarcError, match=r"at least two classes|needs a name"):
        Prototypes.embed(FakePredictor(), names, [PromptSet.read("t1")])


def test_no_prompt_set_is_refused():
    with pytest.raises(MarcError, match="no prompt set"):
        Prototypes.embed(FakePredictor(), ["cat", "dog"], [])
    with pytest.raises(MarcError, match="not both and not neither"):
        PromptSet("empty", "1")


def test_a_predictor_of_few_words_refuses_other_prompts():
    encoder = FakePredictor(known=("lab",))
    assert Prototypes.embed(encoder, ["cat", "dog"], [PromptSet.read("lab")]).notes == ()
    with pytest.raises(MarcError, match=r"got:  t1\n  allowed:  lab"):
        Prototypes.embed(encoder, ["cat", "dog"], [PromptSet.read("t1")])


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ({"x": [0, 0], "y": [1, 0]}, "zero or not finite"),
        ({"x": [np.nan, 0], "y": [1, 0]}, "zero or not finite"),
        ({"x": 1, "y": 2}, "something other than a vector"),
        ({"x": [1, 0], "y": [-1, 0]}, "cancel each other out"),
    ],
)
def test_vectors_that_make_no_prototype_are_refused(vectors, message):
    said = cupl(cat=("x", "y"), dog=("y",))
    with pytest.raises(MarcError, match=message):
        Prototypes.embed(FakePredictor(vectors=vectors), ["cat", "dog"], [said])
