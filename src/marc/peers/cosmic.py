"""COSMIC: the images of two encoders as two graphs, whose cliques near a query vote.

The CLIP side is DMN's memory. Its graph has two nodes per class, the text and the vector that the
current query builds from the memory. The DINO side keeps the most certain images per class in the
space of a second encoder; its graph has one node per class, the mean of what is kept. The query
chooses the cliques most similar to it, on either side, and the classes in them get evidence.

An image is stored first and answered then. Graphs are rebuilt whenever their memory changed, and
every hundredth image once capacity x classes images were seen. Between rebuilds the anchors of the
cliques are those of the last rebuild, while the votes come from the nodes as they are now. An empty
class of the DINO memory is the zero vector: it can be chosen, and then gets alpha exp(-beta). Early
in a stream many such cliques are equally far; the first ones are chosen.

The weights of the two sides were chosen on evaluation labels by the authors. Here they are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import (
    MarcError,
    check_same_shape,
    check_same_text,
    check_space_name,
    integer,
    number,
)
from marc.memory import Resumable
from marc.peers import dmn
from marc.peers._arrays import check_arrays, first_equal
from marc.peers.cliques import Cliques
from marc.peers.dynamic_memory import Attention, DynamicMemory, Slots
from marc.peers.view_selection import check_fraction
from marc.scores import SHARPEST, Float, Int, kernel, softmax, softmax_entropy
from marc.types import Query, Step


@dataclass(eq=False)
class COSMIC(Resumable):
    """Clique-oriented semantic multi-space integration. The weights are fixed, not searched.

    >>> COSMIC(space="dinov2-l", capacity=8).config()["degree"]
    5.0
    """

    name: ClassVar[str] = "cosmic"
    varies_with = frozenset({"capacity", "attention_beta", "fraction"})
    """What the DINO memory stores depends on answers of the CLIP memory."""

    space: str
    """The space of the second encoder."""
    capacity: int = 16
    """Images per pseudo-class, in either memory."""
    alpha: float = 2.0
    beta: float = 5.0
    attention_beta: float = 5.5
    """Sharpness of the attention that builds the class vectors of the CLIP side."""
    fraction: float = 0.1
    """The fraction of the views that the CLIP memory stores: of lowest entropy, at least one."""
    clique_share: float = 0.2
    """The fraction of the cliques that a query chooses."""
    degree: float = 5.0
    """Neighbours of a node on average, on the DINO side."""
    clip_degree_ratio: float = 0.8
    """The same on the CLIP side, relative to `degree`."""
    rebuild_every: int = 100
    """Images between rebuilds, once capacity x classes were seen."""
    clip_weight: float = 1.0
    dino_weight: float = 1.0

    _memory: _Memories | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.space = check_space_name(self.space)
        for name in ("capacity", "rebuild_every"):
            setattr(self, name, integer(name, getattr(self, name), 1))
        for name in (
            *("alpha", "clique_share", "degree", "clip_degree_ratio", "clip_weight", "dino_weight"),
        ):
            setattr(self, name, number(name, getattr(self, name)))
        for name in ("beta", "attention_beta"):
            setattr(self, name, number(name, getattr(self, name), at_most=SHARPEST))
        if self.clique_share > 1:
            raise MarcError("clique_share is a fraction", got=self.clique_share, allowed="0 to 1")
        self.fraction = check_fraction(self.fraction)

    def step(self, query: Query) -> Step:
        """Store one image on both sides, then answer it with the cliques near it."""
        key = query.key(self.space)
        memories = self._memories(query, len(key))
        seen = dmn.look(query, self.fraction, method=self.name, at_least=1)
        feature = query.views[seen.kept].mean(axis=0, dtype=np.float64)
        clip_changed = memories.clip.write(feature, seen.label, seen.entropy, query.item)
        attention = memories.clip.read(query.clip_key, seen.text_cosines)

        dynamic = softmax(query.predictor.logit_scale * attention.cosines)
        both = seen.posterior + dynamic
        label, entropy = int(both.argmax()), float(softmax_entropy(both))
        dino_changed = memories.dino.write(key, label, entropy, query.item)

        if self._is_due(memories, clip_changed):
            memories.rebuild_clip(attention, self.degree * self.clip_degree_ratio)
        if self._is_due(memories, dino_changed):
            memories.rebuild_dino(self.degree)
        memories.n_seen += 1
        evidence = {
            "clip": self._clip_evidence(memories, query, seen.text_cosines, attention.cosines),
            "dino": self._dino_evidence(memories, key),
        }
        weights = {"clip": self.clip_weight, "dino": self.dino_weight}
        base = seen.posterior.astype(np.float32)
        # a posterior plus votes: what they mean together as probabilities, no paper says
        return Step(query.item, base, evidence, weights, label, -entropy, to_probabilities=None)

    def _is_due(self, memories: _Memories, changed: bool) -> bool:
        if memories.n_seen <= memories.clip.slots.n_classes * self.capacity:
            return changed
        return memories.n_seen % self.rebuild_every == 0

    def _clip_evidence(
        self, memories: _Memories, query: Query, text: Float, image: Float
    ) -> NDArray[np.float64]:
        assert memories.clip_cliques is not None
        then = np.where(memories.clip_is_image, memories.clip_vectors @ query.clip_key, text)
        near = memories.clip_cliques.near(np.concatenate([text, then]), self.clique_share)
        votes = np.where(near, self._votes(np.concatenate([text, image])), 0.0)
        return votes.reshape(2, -1).mean(axis=0)

    def _dino_evidence(self, memories: _Memories, key: Float) -> NDArray[np.float64]:
        assert memories.dino_cliques is not None
        near = memories.dino_cliques.near(memories.dino_vectors @ key, self.clique_share)
        return np.where(near, self._votes(memories.dino.means @ key), 0.0)

    def _votes(self, cosines: Float) -> NDArray[np.float64]:
        return np.asarray(self.alpha * kernel(cosines.astype(np.float64), self.beta), np.float64)

    def _restored(self, state: dict[str, Any]) -> _Memories:
        return _Memories.restored(self, state["arrays"])

    def _memories(self, query: Query, dim: int) -> _Memories:
        if self._memory is None:
            clip = DynamicMemory(
                query.predictor.prototypes, self.capacity, beta=self.attention_beta
            )
            slots = Slots(query.predictor.n_classes, self.capacity, dim)
            self._memory = _Memories(clip, _ClassMeans(slots))
        self._memory.clip.text = check_same_text(query.predictor.prototypes, self._memory.clip.text)
        n_classes = query.predictor.n_classes
        check_same_shape((n_classes, dim), (n_classes, self._memory.dino.slots.dim))
        return self._memory


class _ClassMeans:
    """The K images of lowest entropy per class, and their means; zero for an empty class."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.means = np.zeros((slots.n_classes, slots.dim), dtype=np.float32)
        for label in range(slots.n_classes):
            self._average(label)

    def write(self, key: Float, label: int, entropy: float, item: int) -> bool:
        """Offer an image; returns whether it was stored. Among equals the earlier arrival stays."""
        slot = len(self.slots.rows[label])
        if self.slots.is_full(label):
            entropies = self.slots.of_class("entropies", label)
            slot = int(np.lexsort((self.slots.of_class("arrivals", label), entropies))[-1])
            if not entropies[slot] > entropy:
                return False
        self.slots.put(key, label, slot, entropy, item)
        self._average(label)
        return True

    def _average(self, label: int) -> None:
        if self.slots.rows[label]:
            self.means[label] = self.slots.of_class("keys", label).mean(axis=0, dtype=np.float64)


class _Memories:
    """Everything COSMIC remembers: two memories, and two graphs as they were last rebuilt."""

    def __init__(self, clip: DynamicMemory, dino: _ClassMeans) -> None:
        self.clip, self.dino = clip, dino
        self.first_text = first_equal(clip.text)
        self.clip_vectors = clip.text
        self.clip_is_image = np.zeros(len(clip.text), dtype=bool)
        self.dino_vectors = dino.means
        self.clip_cliques: Cliques | None = None
        self.dino_cliques: Cliques | None = None
        self.n_seen = 0

    def rebuild_clip(self, attention: Attention, degree: float) -> None:
        """Nodes: the text prototypes, then the class vectors of the current query."""
        self.clip_vectors = self.clip.vectors(attention)
        self.clip_is_image = self.clip.holds_images
        similarity = self._similarity(self._first_nodes())
        self.clip_cliques = Cliques.rebuilt(self.clip_cliques, similarity, degree)

    def rebuild_dino(self, degree: float) -> None:
        """Nodes: the means of the stored images."""
        self.dino_vectors = self.dino.means.copy()
        similarity = self.dino_vectors @ self.dino_vectors.T
        self.dino_cliques = Cliques.rebuilt(self.dino_cliques, similarity, degree)

    def _first_nodes(self) -> Int:
        """For each of the 2C nodes the first that is the same vector."""
        n_classes = len(self.first_text)
        images = np.where(self.clip_is_image, n_classes + np.arange(n_classes), self.first_text)
        return np.concatenate([self.first_text, images])

    def _similarity(self, first_nodes: Int) -> NDArray[np.float32]:
        """Products of all pairs; equal nodes tie to the bit, whatever the blocking of a product."""
        distinct, index = np.unique(first_nodes, return_inverse=True)
        nodes = np.concatenate([self.clip.text, self.clip_vectors])[distinct]
        similarity = nodes @ nodes.T
        return similarity if len(distinct) == len(index) else similarity[np.ix_(index, index)]

    def state(self) -> dict[str, Any]:
        assert self.clip_cliques is not None
        assert self.dino_cliques is not None
        clip_graph = {"vectors": self.clip_vectors.copy(), "is_image": self.clip_is_image.copy()}
        return {
            "clip": self.clip.state(),
            "dino": self.dino.slots.state(),
            "clip_graph": {**clip_graph, **self.clip_cliques.state()},
            "dino_graph": {"vectors": self.dino_vectors.copy(), **self.dino_cliques.state()},
            "stream": {"n_seen": np.array([self.n_seen])},
        }

    @classmethod
    def restored(cls, cosmic: COSMIC, parts: dict[str, Any]) -> _Memories:
        beta = cosmic.attention_beta
        clip = DynamicMemory.from_state(parts["clip"], cosmic.capacity, beta=beta)
        n_classes = len(clip.text)
        slots = Slots.from_state(parts["dino"], n_classes, cosmic.capacity)
        restored = cls(clip, _ClassMeans(slots))
        text, image = parts["clip_graph"], parts["dino_graph"]
        restored.clip_vectors, restored.dino_vectors = (
            text["vectors"].copy(),
            image["vectors"].copy(),
        )
        restored.clip_is_image = text["is_image"].copy()
        nodes = {"clip": restored.clip_vectors, "dino": restored.dino_vectors}
        shapes = {"clip": ("f4", *clip.text.shape), "dino": ("f4", n_classes, slots.dim)}
        check_arrays(
            {**nodes, "is_image": restored.clip_is_image}, {**shapes, "is_image": ("b1", n_classes)}
        )
        restored.clip_cliques = Cliques.from_state(text, 2 * n_classes)
        restored.dino_cliques = Cliques.from_state(image, n_classes)
        restored.n_seen = integer("n_seen", parts["stream"]["n_seen"][0], 0)
        return restored
