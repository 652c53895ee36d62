"""What every method must do, whatever it computes: `marc check --method NAME` runs these checks.

A method is made several times by `make()` and runs over small streams with the spaces `good` and
`bad`. `check_method` raises at the first broken rule; `run_checks` goes through all of them.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.errors import MarcError
from marc.loop import AnyMethod, iter_steps, run
from marc.peers._pictures import tower_of
from marc.peers.cards import MethodCard, card_of
from marc.peers.registry import METHODS
from marc.sources.pack import write_pack
from marc.stream import Stream
from marc.stream.predictor import ImageTower, TextTower, Towers

_Make = Callable[[], AnyMethod]
_FROM_FILES = {"shots", "unlabelled"}
"""Needs that are features of other images, in files that settings of these names lead to."""


class BrokenRuleError(AssertionError):
    """A method does not do what every method must do."""


def check_method(make: _Make, n_views: int = 10, n_images: int = 70) -> None:
    """Raise at the first rule that methods made by `make()` break."""
    stream = _stream_for(_card(make()), 11, n_images, n_views).shuffled(3)
    for check in CHECKS.values():
        check(make, stream)


def run_checks(make: _Make, n_views: int = 10) -> Iterator[tuple[str, str]]:
    """Each rule, and how methods made by `make()` break it; nothing where they keep it."""
    stream = functools.cache(lambda: _stream_for(_card(make()), 11, 70, n_views).shuffled(3))
    for rule, check in CHECKS.items():
        try:
            check(make, stream())
        except BrokenRuleError as error:
            yield rule, str(error)
        except Exception as error:  # of the method: whatever it is, it is the finding
            yield rule, f"{type(error).__name__}: {error}"
        else:
            yield rule, ""


def maker(card: MethodCard, folder: Path) -> _Make:
    """What makes the method of a card for these checks; features that it reads go into `folder`."""
    settings: dict[str, Any] = {}
    for name in (name for name, default in card.settings.items() if default == "required"):
        if name in _FROM_FILES:
            write_pack(_stream(3, 15, 1), folder / f"{name}.npz")
        elif name != "space":
            raise MarcError(
                f"{card.name} needs {name}, which no check can know",
                hint="marc.peers.contract.check_method(lambda: YourMethod(...))",
            )
        settings[name] = "good" if name == "space" else str(folder / f"{name}.npz")
    return lambda: card.factory(**settings)


def _first_step(make: _Make, stream: Stream) -> None:
    step, card = next(iter(iter_steps(make(), stream))), _card(make())
    _need(set(step.evidence) == set(step.weights), "evidence and weights have other names")
    for name, evidence in step.evidence.items():
        _need(evidence.shape == (stream.n_classes,), f"evidence {name!r} is not one per class")
    if card.name == "marc":
        _need(not any(e.any() for e in step.evidence.values()), "evidence at the first image")
    if card.sees != "image" or _FROM_FILES & {*card.needs}:
        return
    if card.reads_before_writes is None and card.resets is None and not card.needs:
        _need(not step.evidence, "nothing is learned by its card, yet there is evidence")
    if card.reads_before_writes and "retrieval" in step.evidence:  # of stored images alone
        found = step.evidence["retrieval"].any()
        _need(not found, "the first image is answered with evidence: it was stored too early")


def _repeatable(make: _Make, stream: Stream) -> None:
    method = make()
    first = run(method, stream)
    for what, other in (("a second run", run(method, stream)), ("a new one", run(make(), stream))):
        _same(f"predictions of {what}", first.predictions, other.predictions)
        _same(f"base predictions of {what}", first.base_predictions, other.base_predictions)
        _same(f"priorities of {what}", first.trajectory.priority, other.trajectory.priority)


def _input_is_left_alone(make: _Make, stream: Stream) -> None:
    def seen() -> dict[str, NDArray[Any]]:
        features = stream.features
        base, text = features.base.logits, features.predictor.prototypes
        arrays = {"views": features.views, **features.spaces, "logits": base, "prototypes": text}
        return {name: np.array(array) for name, array in arrays.items()}

    before = seen()
    list(iter_steps(make(), stream))
    _same_arrays(before, seen())


def _numbering(make: _Make, stream: Stream) -> None:
    """Unless draws are keyed by items, the same images under other numbers get the same answers."""
    method = make()
    if method.config().get("policy") != "reservoir":
        other = run(make(), _rearranged(stream, labels=None))
        _same(
            "predictions of renumbered images", run(method, stream).predictions, other.predictions
        )


def _baseline(make: _Make, stream: Stream) -> None:
    """The answer without memory is the same in every order."""
    runs = run(make(), stream), run(make(), stream.shuffled(4))
    by_row = [each.base_predictions[np.argsort(each.order)] for each in runs]
    _same("base predictions in another order", *by_row)


def _labels(make: _Make, stream: Stream) -> None:
    wrong = run(make(), _rearranged(stream, labels=np.zeros(len(stream), dtype=int)))
    right = run(make(), _rearranged(stream, labels=stream.labels))
    _same("predictions with other labels", wrong.predictions, right.predictions)


def _probabilities(make: _Make, stream: Stream) -> None:
    """Where scores are said to be probabilities they are some, and the answer is the likeliest."""
    for step in iter_steps(make(), stream):
        if step.to_probabilities is None:
            continue
        for scores in (step.logits, step.base):
            p = step.to_probabilities(scores)
            sums = bool((p >= 0).all()) and abs(float(p.sum()) - 1) < 1e-6
            _need(sums, "its probabilities do not lie above 0 and add up to 1")
            _need(p[scores.argmax()] == p.max(), "its answer is not its most probable class")


def _config(make: _Make, stream: Stream) -> None:
    method = make()
    config = method.config()
    _need(config.get("method") == method.name, f"config()['method'] is not {method.name!r}")
    json.dumps(config)  # plain data, else TypeError says what is not
    settings = {name: value for name, value in config.items() if name != "method"}
    again = _card(method).factory(**settings)
    _need(again.config() == config, f"its settings make {again.config()}, not {config}")


def _state_goes_on(make: _Make, stream: Stream) -> None:
    """A method restored from its state answers as if it had never stopped."""
    method = make()
    size = 20 if getattr(method, "batch_size", 1) == 1 else len(stream) // 2
    first, second = _parts(stream, size)
    list(iter_steps(method, first))
    state = method.state()
    for name, array in state["arrays"].items():
        _need(isinstance(array, np.ndarray), f"{name!r} in the arrays of its state is none")
    restored = _card(method).factory.from_state(state)  # type: ignore[attr-defined]
    _overwrite(state["arrays"])  # the restored method holds its own
    _need(restored.config() == method.config(), "the restored method has other settings")
    for mine, theirs in zip(iter_steps(method, second), iter_steps(restored, second), strict=True):
        _same("answers after restoring", mine.logits, theirs.logits)
        _same("what is stored then", [mine.label, mine.priority], [theirs.label, theirs.priority])
    _same_arrays(method.state()["arrays"], restored.state()["arrays"])


def _looking(make: _Make, stream: Stream) -> None:
    """To read a state, or an answer twice, leaves the memory as it is."""
    first, second = _parts(stream, len(stream) // 2)
    method, undisturbed = make(), make()
    for one in (method, undisturbed):
        list(iter_steps(one, first))
    before = copy.deepcopy(method.state()["arrays"])
    _overwrite(method.state()["arrays"])  # a copy: nobody writes into the memory through it
    _same_arrays(before, method.state()["arrays"])
    steps = iter_steps(method, second), iter_steps(undisturbed, second)
    for mine, theirs in zip(*steps, strict=True):
        _same("answers after reading the state", mine.logits, theirs.logits)


def _bounded(make: _Make, stream: Stream) -> None:
    """Once the classes are full nothing grows; images from a file are given, not remembered."""
    method = make()
    card = _card(method)
    if _FROM_FILES & {*card.needs} or card.grows:
        return
    sizes = []
    n_views = 2 if "image-tower" in card.needs else 1  # some learn from the views alone
    tenth = 10 if card.resets == "image" else 50  # what begins anew has no classes to fill
    for part in _parts(_stream_for(card, 2, 10 * tenth, n_views, n_classes=2), 8 * tenth):
        list(iter_steps(method, part))
        sizes.append(sum(array.size for array in method.state()["arrays"].values()))
    grown = f"{sizes[0]} numbers after {8 * tenth} images, {sizes[1]} after {10 * tenth}"
    _need(sizes[1] <= sizes[0], grown)


CHECKS: dict[str, Callable[[_Make, Stream], None]] = {
    "the first image is answered from nothing": _first_step,
    "a run can be repeated": _repeatable,
    "what is given is not changed": _input_is_left_alone,
    "numbers of images do not matter": _numbering,
    "the baseline knows only its image": _baseline,
    "labels do not matter": _labels,
    "its probabilities are those of its answers": _probabilities,
    "its config makes the same method": _config,
    "a restored method goes on": _state_goes_on,
    "looking changes nothing": _looking,
    "memory is bounded": _bounded,
}
"""The rules, and what checks each on methods made by a function over a stream."""


def _card(method: AnyMethod) -> MethodCard:
    return METHODS[method.name] if method.name in METHODS else card_of(type(method))


def _need(kept: bool, problem: str) -> None:
    if not kept:
        raise BrokenRuleError(problem)


def _same(what: str, first: ArrayLike, second: ArrayLike) -> None:
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape:
        raise BrokenRuleError(f"{what} differ: {first.shape} and {second.shape}")
    equal = (first == second) | ((first != first) & (second != second))  # two nans are the same
    if not equal.all():
        raise BrokenRuleError(f"{what} differ in {int((~equal).sum())} of {equal.size}")


def _same_arrays(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    _need(set(first) == set(second), f"arrays {', '.join(set(first) ^ set(second))} in one alone")
    for name in first:
        _same(f"arrays {name!r}", first[name], second[name])


def _overwrite(arrays: Mapping[str, NDArray[Any]]) -> None:
    for array in arrays.values():
        if array.dtype.kind in "fi":
            array[...] = 0


def _parts(stream: Stream, size: int) -> tuple[Stream, Stream]:
    """The first `size` images and the rest, as streams of their own."""
    before, after = stream.order[:size], stream.order[size:]
    return replace(stream, order=before), replace(stream, order=after)


def _rearranged(stream: Stream, labels: ArrayLike | None) -> Stream:
    """The same images stored in the order of the stream, under new numbers."""
    features, order = stream.features, stream.order
    predictor = features.predictor
    assert predictor.prompts is not None  # `_stream` has some
    return Stream.from_arrays(
        features.views[order],
        predictor.prototypes,
        {name: keys[order] for name, keys in features.spaces.items()},
        logit_scale=predictor.logit_scale,
        prompts=predictor.prompts.rows,
        prompt_class=predictor.prompts.class_of,
        labels=labels,
        towers=predictor.towers,
        pixels=lambda row, n: stream.query(int(order[row])).pixels(n),  # type: ignore[misc]
    )


def _stream(seed: int, n_images: int, n_views: int, n_classes: int = 5) -> Stream:
    """A labelled stream whose space `good` is clustered by label and whose space `bad` is noise."""
    draw, dim, space_dim = np.random.default_rng(seed), 8, 6
    labels = draw.integers(n_classes, size=n_images)
    prototypes = draw.standard_normal((n_classes, dim))
    images = prototypes[labels] + 1.5 * draw.standard_normal((n_images, dim))
    views = images[:, np.newaxis] + 0.5 * draw.standard_normal((n_images, n_views, dim))
    centers = draw.standard_normal((n_classes, space_dim))
    good = centers[labels] + 0.5 * draw.standard_normal((n_images, space_dim))
    spaces = {"good": good, "bad": draw.standard_normal((n_images, space_dim))}
    around = 0.3 * np.random.default_rng(seed).standard_normal((n_classes, 5, dim))
    return Stream.from_arrays(
        views.astype(np.float32),
        prototypes,
        spaces,
        logit_scale=20.0,
        prompts=prototypes[:, np.newaxis] + around,
        labels=labels,
        towers=_small_towers(n_classes, dim),
        pixels=lambda row, n: np.random.default_rng([seed, row]).integers(
            256, size=(n, 8, 8, 3), dtype=np.uint8
        ),
    )


def _stream_for(
    card: MethodCard, seed: int, n_images: int, n_views: int, n_classes: int = 5
) -> Stream:
    """`_stream`; for a method that looks at pictures again, as its image encoder sees them."""
    stream = _stream(seed, n_images, n_views, n_classes)
    return _as_seen(stream) if "image-tower" in card.needs else stream


def _as_seen(stream: Stream) -> Stream:
    """The stream with the features that its image encoder gives its pictures."""
    features = stream.features
    tower = tower_of(features.predictor)
    from marc.peers._image_learning import Classifier

    n_images, n_views, _ = features.views.shape
    assert features.pixels is not None  # `_stream` has some
    pictures = np.concatenate([features.pixels(row, n_views) for row in range(n_images)])
    found = Classifier.of(features.predictor).embed(tower.prepare(pictures))
    views = found.reshape(n_images, n_views, -1)
    return replace(stream, features=replace(features, views=views, _transformed={}))


def _small_towers(n_classes: int, dim: int) -> Towers:
    """Networks with random weights; torch is imported when a method asks for one."""
    names = [f"class {label}" for label in range(n_classes)]

    def text() -> TextTower:
        from marc.peers.small_towers import SmallTextTower

        return SmallTextTower(names, dim)

    def image() -> ImageTower:
        from marc.peers.small_towers import SmallImageTower

        return SmallImageTower(dim)

    return Towers(text, image)
