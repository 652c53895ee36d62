"""What the shortcuts of the peers are worth, as ratios measured in one run.

    make peers-benchmark        about three minutes on two cores

Each shortcut is timed against the plain steps that it replaces, on the same stream; both must give
the same answers but for near-ties, or the benchmark stops. Prints one table in Markdown.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from unittest import mock

import numpy as np

import marc
from marc.loop import run
from marc.peers.cliques import Cliques
from marc.peers.cosmic import COSMIC
from marc.peers.dmn import DMN
from marc.peers.dota import DOTA, _SharedPrecision
from marc.peers.dynamic_memory import Attention, DynamicMemory
from marc.peers.tda import TDA
from marc.scores import kernel, softmax_entropy, unit

N_IMAGES, N_CLASSES, DIM = 2000, 200, 768
ALLOWED = 0.002  # share of answers that rounding may change


def make_stream(n_images: int = N_IMAGES, n_classes: int = N_CLASSES, dim: int = DIM):
    """Weakly clustered features, as in the speed anchor of the released TDA loop."""
    draw = np.random.default_rng(7)
    prototypes = unit(draw.standard_normal((n_classes, dim)))
    labels = draw.integers(0, n_classes, n_images)
    noise = unit(draw.standard_normal((n_images, dim)))
    views = unit(0.095 * prototypes[labels] + noise)
    keys = unit(
        0.3 * unit(draw.standard_normal((n_classes, 256)))[labels]
        + unit(draw.standard_normal((n_images, 256)))
    )
    return marc.Stream.from_arrays(
        views, prototypes, {"space": keys}, logit_scale=60.0, labels=labels
    )


def released_style_tda(stream, capacity: int) -> np.ndarray:
    """TDA's positive memory as published loops keep it: lists that are concatenated per image."""
    lists: dict[int, list] = {}
    predictor, answers = stream.features.predictor, []
    for item in stream.order:
        feature = stream.features.clip_keys[item]
        logits = predictor.logits(feature[np.newaxis])[0]
        label, loss = int(logits.argmax()), float(softmax_entropy(logits))
        held = lists.setdefault(label, [])
        if len(held) < capacity:
            held.append((feature, loss))
        elif loss < held[-1][1]:
            held[-1] = (feature, loss)
        held.sort(key=lambda pair: pair[1])
        keys = np.stack([key for c in sorted(lists) for key, _ in lists[c]])
        owners = np.array([c for c in sorted(lists) for _ in lists[c]])
        votes = np.eye(predictor.n_classes)[owners]
        answers.append((logits + 2.0 * kernel(keys @ feature, 5.0) @ votes).argmax())
    return np.array(answers)


def tda() -> list[tuple[str, str]]:
    """The loop with arrays, and the replay without a loop."""
    stream, method = make_stream(), TDA(capacity=8, negative_weight=0.0)
    plain, expected = timed(lambda: released_style_tda(stream, 8))
    loop, by_loop = timed(lambda: run(method, stream).predictions)
    replay, replayed = timed(lambda: marc.replay(method, stream).predictions)
    agree(expected, by_loop)
    agree(expected, replayed)
    case = f"T {N_IMAGES:,}, C {N_CLASSES}, d {DIM}, capacity 8"
    return [
        (f"TDA, lists concatenated per image / arrays ({case})", ratio(plain, loop)),
        ("TDA, the loop / replay by lifetimes", ratio(loop, replay)),
    ]


def dmn() -> list[tuple[str, str]]:
    """Class vectors formed for every image, or their cosines from inner products."""
    stream, method = make_stream(), DMN()
    inner, by_inner = timed(lambda: run(method, stream).predictions)

    def formed(memory: DynamicMemory, query, text_cosines) -> Attention:
        labels, entries = memory.slots.filled("labels"), memory.slots.filled("slots") + 1
        weights = np.zeros((len(memory.text), 1 + memory.slots.capacity))
        weights[:, 0] = kernel(text_cosines, memory.beta)
        cosines = memory.slots.filled("keys") @ query
        weights[labels, entries] = kernel(cosines, memory.beta)
        vectors = memory.vectors(Attention(text_cosines, weights))
        return Attention(vectors.astype(np.float64) @ query, weights)

    with mock.patch.object(DynamicMemory, "read", formed):
        plain, expected = timed(lambda: run(method, stream).predictions)
    agree(expected, by_inner)
    return [("DMN-ZS, class vectors formed / inner products alone", ratio(plain, inner))]


def cliques() -> list[tuple[str, str]]:
    """All cliques at every rebuild, or only those that can have changed."""
    stream, method = make_stream(1000, 100), COSMIC("space", capacity=8)
    kept, by_kept = timed(lambda: run(method, stream).predictions)
    real = Cliques.rebuilt
    with mock.patch.object(Cliques, "rebuilt", lambda _, *rest: real(None, *rest)):
        plain, expected = timed(lambda: run(method, stream).predictions)
    agree(expected, by_kept)
    case = "T 1,000, C 100, capacity 8; whole method"
    return [
        (f"COSMIC, every clique enumerated anew / the changed ones ({case})", ratio(plain, kept))
    ]


def dota(dim: int = 512, n_images: int = 60) -> list[tuple[str, str]]:
    """An inverse for every image, or a triangular factor."""
    stream = make_stream(n_images, 100, dim)
    factor, by_factor = timed(lambda: run(DOTA(), stream).predictions)

    def inverted(memory: _SharedPrecision, feature, sigma, epsilon):
        lower = memory.covariance(sigma, epsilon)
        whole = lower + np.tril(lower, -1).T
        turned = memory.means.astype(np.float64) @ np.linalg.inv(whole)
        return turned @ feature - 0.5 * np.einsum("cd,cd->c", turned, memory.means)

    with mock.patch.object(_SharedPrecision, "scores", inverted):
        plain, expected = timed(lambda: run(DOTA(), stream).predictions)
    agree(expected, by_factor)
    return [
        (
            f"DOTA, an inverse per image / a Cholesky factor (C 100, d {dim}; whole method)",
            ratio(plain, factor),
        )
    ]


def timed(work: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Least time of three calls, after one that is not counted, and what the work gives."""
    result, times = work(), []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times), result


def agree(expected: np.ndarray, found: np.ndarray) -> None:
    """Stop where a shortcut gives other answers."""
    share = float((expected != found).mean())
    if share > ALLOWED:
        raise SystemExit(f"the shortcut changes {share:.2%} of the answers")


def ratio(plain: float, fast: float) -> str:
    """How many times the plain steps take."""
    return f"{plain / fast:.1f}x ({plain:.2f} s / {fast:.2f} s)"


if __name__ == "__main__":
    from benchmarks.peers import graphs, prompts, residuals, transduction

    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}\n")
    print("| plain steps / shortcut | measured |\n|---|---|")
    others = (*residuals.PARTS, *graphs.PARTS, *transduction.PARTS, *prompts.PARTS)
    for part in (tda, dmn, cliques, dota, *others):
        for name, measured in part():
            print(f"| {name} | {measured} |", flush=True)
