"""MARC again, slowly and obviously: the oracle that the tests compare the fast code with.

Everything is written straight from the equations of the paper, one image at a time, in float64,
with memories that are plain lists of dictionaries. Nothing here is shared with the package under
test, so that one mistake cannot hide in both.
"""

import math
from dataclasses import dataclass

import numpy as np

Memory = dict[int, list[dict]]

# The paper names a negative memory without giving its numbers; these are the published TDA values.
NEGATIVE_CAPACITY = 2
NEGATIVE_BETA = 1.0
NEGATIVE_BAND = (0.2, 0.5)
NEGATIVE_MASK = (0.03, 1.0)


@dataclass
class Settings:
    """Everything that a run can vary; the defaults are the deployed method."""

    capacity: int = 16
    weight: float = 10.0
    clip_capacity: int = 16
    alpha: float = 2.0
    beta: float = 5.0
    policy: str = "entropy"
    view_entropy: str = "double_softmax"
    refine_labels: bool = False
    negative_weight: float = 0.0
    adaptive_gamma: float = 0.0
    clip_weight: float = 0.0
    use_base: bool = True


@dataclass
class Result:
    """What happened at each position of the stream; T positions, C classes."""

    base: np.ndarray  # (T, C)
    evidence: np.ndarray  # (T, C), the retrieval evidence before any weight
    fused: np.ndarray  # (T, C)
    base_prediction: np.ndarray  # (T,)
    prediction: np.ndarray  # (T,)
    label: np.ndarray  # (T,), the label stored in the retrieval memory
    priority: np.ndarray  # (T,), the priority stored in the retrieval memory
    retained: list[dict[int, list]]  # held just before each query, best first
    clip_retained: list[dict[int, list]]


def unit(rows) -> np.ndarray:
    """Scale every vector along the last axis to Euclidean length one."""
    rows = np.asarray(rows, dtype=np.float64)
    return rows / np.sqrt(np.sum(rows * rows, axis=-1, keepdims=True))


def softmax(logits) -> np.ndarray:
    """Turn one vector of logits into probabilities; a constant added to all changes nothing."""
    logits = np.asarray(logits, dtype=np.float64)
    exponentials = np.exp(logits - np.max(logits))
    return exponentials / np.sum(exponentials)


def entropy(probabilities) -> float:
    """Shannon entropy h(p) in nats, below equation 2, with 0 log 0 = 0."""
    probabilities = np.asarray(probabilities, dtype=np.float64)
    positive = probabilities[probabilities > 0.0]
    return float(np.sum(-positive * np.log(positive)))


def kernel(similarity, alpha: float, beta: float):
    """Equation 3 for one key: alpha * exp(-beta * (1 - u))."""
    return alpha * np.exp(-beta * (1.0 - similarity))


def argmax(scores) -> int:
    """Index of the largest score; the lowest index on ties."""
    best = 0
    for index in range(1, len(scores)):
        if scores[index] > scores[best]:
            best = index
    return best


def view_logits(views, prototypes, logit_scale: float) -> np.ndarray:
    """Equation 1, left: logits (M, C) of the M views of one image; rows are normalised here."""
    views, prototypes = unit(views), unit(prototypes)
    logits = np.zeros((len(views), len(prototypes)))
    for j, view in enumerate(views):
        # A sum along each row, not a matrix product: equal prototypes give exactly equal logits.
        logits[j] = logit_scale * np.sum(prototypes * view, axis=-1)
    return logits


def kept_views(logits) -> list[int]:
    """J_t of equation 1: the max(1, M // 10) views of lowest entropy, lower index on ties."""
    entropies = [entropy(softmax(row)) for row in logits]
    by_entropy = sorted(range(len(logits)), key=lambda j: entropies[j])  # sorted() is stable
    return by_entropy[: max(1, len(logits) // 10)]


def base_logits(logits) -> np.ndarray:
    """Equation 1, right: b_t, the mean raw logits of the kept views."""
    return np.mean([logits[j] for j in kept_views(logits)], axis=0)


def mean_posterior(logits) -> np.ndarray:
    """Mean over the given views of softmax(z)."""
    return np.mean([softmax(row) for row in logits], axis=0)


def view_entropy(logits, variant: str) -> float:
    """Equation 2, left: e_t ("double_softmax"), or one of its two controls."""
    if variant == "double_softmax":
        return entropy(np.mean([softmax(softmax(row)) for row in logits], axis=0))
    if variant == "posterior":
        return entropy(mean_posterior(logits))
    if variant == "tda":
        return entropy(mean_posterior([logits[j] for j in kept_views(logits)]))
    raise ValueError(f"unknown view entropy {variant!r}")


def write(memory: Memory, label: int, entry: dict, capacity: int) -> None:
    """Upd of equation 4: keep the `capacity` best entries of a class, changing `memory`."""
    if capacity == 0:
        return
    entries = memory.setdefault(label, [])
    if len(entries) < capacity:
        entries.append(entry)
    elif entry["priority"] > entries[-1]["priority"]:  # strictly: a tie keeps the earlier arrival
        entries[-1] = entry
    entries.sort(key=lambda held: (-held["priority"], held["arrival"]))


def read(memory: Memory, key, n_classes: int, alpha: float, beta: float) -> np.ndarray:
    """Equation 3: the evidence of each class; exactly 0.0 for a class that holds nothing."""
    evidence = np.zeros(n_classes)
    for label, entries in memory.items():
        for entry in entries:
            evidence[label] += kernel(np.dot(key, entry["key"]), alpha, beta)
    return evidence


def read_negative(memory: Memory, key, n_classes: int) -> np.ndarray:
    """R_t of the component ablations: each entry speaks against every class it found plausible."""
    low, high = NEGATIVE_MASK
    evidence = np.zeros(n_classes)
    for entries in memory.values():
        for entry in entries:
            affinity = kernel(np.dot(key, entry["key"]), 1.0, NEGATIVE_BETA)
            for c in range(n_classes):
                if low < entry["posterior"][c] < high:
                    evidence[c] += affinity
    return evidence


def write_negative(memory: Memory, label: int, item: int, key, logits, arrival: int) -> None:
    """Admit an image of middling entropy to the negative memory; needs two classes or more."""
    posterior = mean_posterior([logits[j] for j in kept_views(logits)])
    loss = entropy(posterior)
    # Nats over log2(C), as published: the ratio lies between 0 and ln 2, not between 0 and 1.
    low, high = NEGATIVE_BAND
    if low < loss / math.log2(len(posterior)) < high:
        entry = {"item": item, "key": key, "priority": -loss, "arrival": arrival}
        write(memory, label, {**entry, "posterior": posterior}, NEGATIVE_CAPACITY)


def priority(policy: str, base, clip_evidence, fused, position: int, uniform) -> float:
    """Equation 2, right: pi_t ("entropy"), or the priority of another admission policy."""
    if policy == "entropy":
        return -entropy(softmax(base + clip_evidence))
    if policy == "confidence":
        return float(np.max(softmax(base)))
    if policy == "fifo":
        return float(position)  # a newcomer always stands above its class-mates
    if policy == "reservoir":
        if uniform is None:
            raise ValueError("the reservoir policy needs a random number for every item")
        return float(uniform)  # the largest of independent uniforms are a uniform sample
    if policy == "retrieval_aware":
        return -entropy(softmax(fused))
    raise ValueError(f"unknown policy {policy!r}")


def fusion_weight(logits, settings: Settings) -> float:
    """w, or w_t = w * (normalised view entropy) ** gamma; the latter needs two classes or more."""
    if settings.adaptive_gamma == 0.0:
        return settings.weight
    normalised = entropy(mean_posterior(logits)) / math.log(len(logits[0]))
    return settings.weight * normalised**settings.adaptive_gamma


def held_items(memory: Memory) -> dict[int, list]:
    """Copy which items each class holds, best first."""
    return {label: [entry["item"] for entry in entries] for label, entries in memory.items()}


def run(views, prototypes, keys, order, logit_scale, settings, uniforms=None) -> Result:
    """Equation 4: the online loop; every memory is read before any is written.

    `views` (N, M, D), `prototypes` (C, D) and `keys` (N, Ds) are normalised here. `order` lists
    the rows in stream order; items are named by row. `uniforms` (N,) serves the reservoir.
    """
    n_classes, length, keys = len(prototypes), len(order), unit(keys)
    result = Result(
        *(np.zeros((length, n_classes)) for _ in range(3)),
        *(np.zeros(length, dtype=np.int64) for _ in range(3)),
        priority=np.zeros(length),
        retained=[],
        clip_retained=[],
    )
    clip_memory, retrieval_memory, negative_memory = {}, {}, {}
    for position, item in enumerate(int(row) for row in order):
        logits = view_logits(views[item], prototypes, logit_scale)
        clip_key, key = unit(views[item][0]), keys[item]
        base = base_logits(logits)
        label = argmax(base)

        result.retained.append(held_items(retrieval_memory))
        result.clip_retained.append(held_items(clip_memory))
        clip_evidence = read(clip_memory, clip_key, n_classes, settings.alpha, settings.beta)
        evidence = read(retrieval_memory, key, n_classes, settings.alpha, settings.beta)
        negative_evidence = read_negative(negative_memory, clip_key, n_classes)

        fused = base if settings.use_base else np.zeros(n_classes)
        fused = fused + fusion_weight(logits, settings) * evidence
        fused = fused + settings.clip_weight * clip_evidence
        fused = fused - settings.negative_weight * negative_evidence

        # Retrieval-aware admission sees the plain method, whatever the output options say.
        plain = base + settings.weight * evidence
        uniform = None if uniforms is None else uniforms[item]
        rank = priority(settings.policy, base, clip_evidence, plain, position, uniform)
        stored_label = argmax(base + clip_evidence) if settings.refine_labels else label

        result.base[position] = base
        result.evidence[position] = evidence
        result.fused[position] = fused
        result.base_prediction[position] = label
        result.prediction[position] = argmax(fused)
        result.label[position] = stored_label
        result.priority[position] = rank

        clip_rank = -view_entropy(logits, settings.view_entropy)
        entry = {"item": item, "key": clip_key, "priority": clip_rank, "arrival": position}
        write(clip_memory, label, entry, settings.clip_capacity)
        entry = {"item": item, "key": key, "priority": rank, "arrival": position}
        write(retrieval_memory, stored_label, entry, settings.capacity)
        if settings.negative_weight > 0.0:
            write_negative(negative_memory, label, item, clip_key, logits, position)
    return result


def lifetimes(labels, priorities, capacity: int) -> list[int]:
    """Simulate the write rule alone: item t is readable by the queries t < q <= last[t].

    last[t] is t for an item never admitted and the stream length for one never pushed out.
    """
    last = [len(labels)] * len(labels)
    memory: Memory = {}
    for t, (label, rank) in enumerate(zip(labels, priorities, strict=True)):
        before = held_items(memory).get(int(label), [])
        write(memory, int(label), {"item": t, "priority": float(rank), "arrival": t}, capacity)
        after = held_items(memory).get(int(label), [])
        for item in [*before, t]:
            if item not in after:
                last[item] = t  # query t still read it, because reading precedes writing
    return last


def correct_at(base, evidence, label: int, weight: float) -> bool:
    """Whether argmax(b + w L) is the label."""
    return bool(argmax(np.asarray(base) + weight * np.asarray(evidence)) == label)


def margin_to_tie(base, evidence, weight: float) -> float:
    """Largest minus second-largest fused score; infinite when there is one class."""
    scores = sorted(np.asarray(base) + weight * np.asarray(evidence), reverse=True)
    return float(scores[0] - scores[1]) if len(scores) > 1 else math.inf


def stability(
    base, evidence_a, keys_a, keys_b, item, retained, weight, alpha, beta, n_classes
) -> bool:
    """Proposition 1: whether the gap in space a guarantees the same prediction in space b."""
    bounds = np.zeros(n_classes)  # D of the proposition: how far each class's evidence can move
    for label, held in retained.items():
        for other in held:
            similarity_a = np.dot(keys_a[item], keys_a[other])
            similarity_b = np.dot(keys_b[item], keys_b[other])
            bounds[label] += alpha * beta * abs(similarity_a - similarity_b)
    winner = argmax(np.asarray(base) + weight * np.asarray(evidence_a))
    rival_bound = max((bounds[c] for c in range(n_classes) if c != winner), default=0.0)
    gap = margin_to_tie(base, evidence_a, weight)
    return bool(gap > weight * (bounds[winner] + rival_bound))
