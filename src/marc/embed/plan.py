"""What is to be embedded, by what, into which store: plain data that any process can carry out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from marc.embed.store import FeatureStore
from marc.embed.workers import PixelSpec, Prepared, ViewPlan
from marc.encoders import check_encoder, check_predictor, create_encoder, encoder_card
from marc.encoders.cards import Encoder, EncoderCard, NotHere, TextEncoder
from marc.encoders.golden import known_digests
from marc.encoders.own_names import called, split_name
from marc.encoders.prompts import PromptSet
from marc.errors import MarcError
from marc.files import user_path
from marc.pictures.image_set import ImageSet
from marc.pictures.views import read_recipe
from marc.scores import unit
from marc.types import OnProgress

_DECISIVE = ("name", "library", "tag", "digest", "dim", "crop", "mean", "std", "pooling")


@dataclass(frozen=True)
class EncoderSpec:
    """An encoder by name, and how it is loaded and run."""

    name: str
    weights: str | None = None
    offline: bool = False
    device: str = "auto"
    precision: str = "auto"
    batch: int = 0
    compiled: bool = False
    given: Encoder | None = None
    """One that is loaded already; the other fields then only name it."""

    @property
    def card(self) -> EncoderCard:
        """What is known of it, without loading it."""
        return encoder_card(self.name) if self.given is None else self.given.card

    def load(self) -> Encoder:
        """The encoder."""
        if self.given is not None:
            return self.given
        options = [each.name for each in fields(self) if each.name not in ("name", "given")]
        return create_encoder(self.name, **{name: getattr(self, name) for name in options})

    def load_what_is_here(self) -> Encoder:
        """The encoder if nothing has to be fetched for it; else a card and nothing to run."""
        try:
            return replace(self, offline=True).load()
        except NotHere:
            return _Absent(self.card)

    @classmethod
    def of_all(
        cls, encoders: Sequence[str | Encoder], weights: Sequence[str], **options: Any
    ) -> list[EncoderSpec]:
        """Of encoders that are named or at hand; `weights` are of those that are named."""
        known = [each if isinstance(each, str) else check_encoder(each) for each in encoders]
        names = [each if isinstance(each, str) else each.card.name for each in known]
        return [
            cls(name, cls.weights_of(name, [*weights], names), **options)
            if isinstance(encoder, str)
            else cls(name, given=encoder)
            for encoder, name in zip(known, names, strict=True)
        ]

    def notes_on(self, loaded: EncoderCard) -> tuple[str, ...]:
        """What a person should know of weights that came from a file of theirs."""
        own, _ = split_name(self.name)
        if own:
            return (f"{own}: {loaded.summary}",)
        known = known_digests(loaded.name) if self.weights else []
        if not known or loaded.digest[:8] in known:
            return ()
        return (
            f"{loaded.name}: these are other weights ({loaded.digest[:8]}) than were checked under "
            f"this name ({', '.join(known)}); weights of your own: NAME={self.name} "
            f"--weights NAME={self.weights}",
        )

    @staticmethod
    def weights_of(name: str, given: list[str], names: list[str]) -> str | None:
        """Where the weights of an encoder lie, if given; a folder may hold those of several."""
        names, name = [*map(called, names)], called(name)
        named = [each.partition("=") for each in given]
        for other, _, path in named:
            if other == name:
                return path
        plain = [each for each in given if each.partition("=")[0] not in names]
        loaded = [other for other in names if not other.startswith(("mini:", "onnx:"))]
        if plain and not loaded:
            missing = [each for each in plain if not user_path(each.rpartition("=")[2]).exists()]
            raise MarcError(
                "no encoder here takes weights",
                got=", ".join(each + " (not there)" * (each in missing) for each in plain),
                hint=f"without --weights: {' and '.join(names)} bring their own",
            )
        if not plain or name not in loaded:
            return None  # those not loaded bring their weights
        if len(plain) > 1 or (len(loaded) > 1 and not Path(plain[0]).is_dir()):
            raise MarcError(
                f"it is not clear which weights are those of {name}",
                got=", ".join(plain),
                allowed=f"one folder with {name}.safetensors or {name}/ in it",
                hint=f"--weights {name}=PATH",
            )
        return plain[0]


@dataclass(frozen=True)
class EmbeddingPlan:
    """One call of `marc embed`."""

    PREDICTOR: ClassVar[str] = "clip-b16-text"
    """What predicts, unless another is named."""

    images: ImageSet
    store: Path
    spaces: tuple[EncoderSpec, ...]
    predictor: EncoderSpec | None = None
    prompts: tuple[str, ...] = ()
    """Prompt sets by name or path; none: those of the data set."""
    views: ViewPlan = ViewPlan()  # noqa: RUF009 (frozen)
    chunk: int = FeatureStore.CHUNK
    resize: str = "exact"
    """What resizes pictures: PIL to the last bit, or torch, `fast`."""

    def prompt_sets(self) -> list[PromptSet]:
        """Those that were asked for, or the predictor's only ones, or those of the data set."""
        only = self.predictor.card.prompts if self.predictor else ()
        return [PromptSet.read(name) for name in self.prompts or only or self.images.prompts]

    def check(self) -> None:
        """Refuse all that can be refused before weights are fetched, which may take long."""
        specs = [*self.spaces, *([self.predictor] if self.predictor else [])]
        if not specs:
            raise MarcError("there is nothing to embed with", hint="--encoder dinov2-b")
        for spec in specs:
            _ = spec.card
        if self.predictor is None:
            return
        if not self.images.class_names:
            raise MarcError(
                "a predictor needs the names of the classes, and this source has none",
                got=self.images.name,
                hint="--class-names FILE.txt (one per line), or --predictor none",
            )
        PromptSet.pooled(self.images.class_names, self.prompt_sets())
        check_predictor(self.predictor.card)

    def load(self, *, fetch: bool = True, on_progress: OnProgress | None = None) -> Jobs:
        """Load every encoder; without `fetch`, those that are on this machine."""
        self.check()
        specs = [*([self.predictor] if self.predictor else []), *self.spaces]
        encoders = []
        for number, spec in enumerate(specs):
            if on_progress is not None:
                on_progress(f"loading {spec.card.name}", number, len(specs))
            encoders.append(spec.load() if fetch else spec.load_what_is_here())
        text = cast(TextEncoder, encoders.pop(0)) if self.predictor else None
        way = self.resize
        predictor = Job(FeatureStore.VIEWS, text, self.views, way) if text else None
        spaces = [
            Job(f"{FeatureStore.SPACES}/{each.card.name.removeprefix('mini:')}", each, resize=way)
            for each in encoders
        ]
        names = [job.array for job in spaces]
        if twice := {name for name in names if names.count(name) > 1}:
            raise MarcError("two encoders would fill the same space", got=", ".join(sorted(twice)))
        return Jobs(tuple(spaces), predictor, text)


@dataclass(frozen=True)
class _Absent:
    """An encoder that is not on this machine: its card, and nothing to encode with."""

    card: EncoderCard
    precision: str = "float32"
    batch: int = 1

    def encode(self, images: NDArray[Any]) -> NDArray[np.float32]:
        raise NotHere(f"{self.card.name} is not on this machine")


@dataclass(frozen=True)
class Job:
    """One array of a store and the encoder that fills it."""

    array: str
    encoder: Encoder
    views: ViewPlan | None = None
    """Of the predictor. None: one plain square a picture."""
    resize: str = "exact"
    """How the plain square is made of a picture: one of `Crop.WAYS`."""

    @property
    def card(self) -> EncoderCard:
        """The encoder's, with the crop that it is shown."""
        card = self.encoder.card
        return card if self.resize == "exact" else replace(card, crop=card.crop.by(self.resize))

    @property
    def is_here(self) -> bool:
        """Whether the encoder can be run."""
        return not isinstance(self.encoder, _Absent)

    @property
    def has_views(self) -> bool:
        """Whether it sees more of a picture than the plain square."""
        return self.views is not None and self.views.n_views > 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one picture's features."""
        dim = self.encoder.card.dim
        return (dim,) if self.views is None else (self.views.n_views, dim)

    @property
    def dtype(self) -> str:
        """Views are many and only scored; keys are compared with each other."""
        return "float32" if self.views is None else "float16"

    @property
    def made(self) -> dict[str, Any]:
        """All that the features depend on, beside the picture: they change if any of it does."""
        card = asdict(self.card)
        facts: dict[str, Any] = {
            "encoder": {name: card[name] for name in _DECISIVE},
            "precision": self.encoder.precision,
            "batch": self.encoder.batch,  # the last bits of a vector depend on it
        }
        if card["library"] == "onnx" or ".json#" in card["tag"]:  # a path: a file may be moved
            facts["encoder"]["tag"] = Path(card["tag"]).name
        if getattr(self.encoder, "compiled", False):
            facts["compiled"] = True  # fused operations round elsewhere
        if self.views is not None:
            # a recipe with its numbers, so that another meaning of its name is another recipe
            recipe = asdict(read_recipe(self.views.recipe))
            drawn = {name: recipe[name] for name in recipe if name not in ("summary", "used_by")}
            facts["views"] = {**drawn, "n_views": self.views.n_views, "seed": self.views.seed}
            if self.views.n_generated:
                names = ("n_generated", "generated")
                facts["views"] |= {name: getattr(self.views, name) for name in names}
        return facts

    def encode(
        self, prepared: Prepared, on_images: Callable[[int], None] | None = None
    ) -> NDArray[np.floating]:
        """Unit features of some pictures; zeros where one could not be read.

        `on_images` is told of each batch how many pictures it had.
        """
        return self.begin(prepared, on_images)()

    def begin(
        self, prepared: Prepared, on_images: Callable[[int], None] | None = None
    ) -> Callable[[], NDArray[np.floating]]:
        """Start on some pictures; what it returns waits for their features, as `encode` has them.

        An encoder that cannot wait for itself is done before this returns.
        """
        if self.has_views:
            assert prepared.views is not None
            pixels = prepared.views.reshape(-1, *prepared.views.shape[2:])
        else:
            pixels = prepared.squares[self.card.crop]
        batches, unreadable = self._by_batches(pixels, on_images), prepared.status != 0

        def wait() -> NDArray[np.floating]:
            vectors = unit(np.concatenate([each() for each in batches]))
            vectors = vectors.reshape(len(unreadable), *self.shape)
            if not np.isfinite(vectors).all():
                raise MarcError(
                    f"{self.encoder.card.name} gave numbers that are not finite",
                    got=f"in {self.encoder.precision}",
                    hint="--precision float32",
                )
            vectors[unreadable] = 0
            return vectors.astype(self.dtype)

        return wait

    def _by_batches(
        self, pixels: NDArray[Any], on_images: Callable[[int], None] | None
    ) -> list[Callable[[], NDArray[np.float32]]]:
        """Cut as the encoder would cut them itself, so that its vectors are the same."""
        begin = getattr(self.encoder, "begin_encoding", self._encode_now)
        n_views = self.shape[0] if self.has_views else 1
        batch = len(pixels) if self.has_views else self.encoder.batch  # a group of views is one
        parts = []
        for start in range(0, len(pixels), batch):
            part = pixels[start : start + batch]
            parts.append(begin(part))
            if on_images is not None:
                on_images(len(part) // n_views)
        return parts

    def _encode_now(self, pixels: NDArray[Any]) -> Callable[[], NDArray[np.float32]]:
        vectors = self.encoder.encode(pixels)
        return lambda: vectors

    @staticmethod
    def pixels(jobs: Sequence[Job], upright: bool) -> PixelSpec:
        """What workers must make of each picture for these jobs."""
        viewed = next((job for job in jobs if job.has_views), None)
        plain = [job.card.crop for job in jobs if not job.has_views]
        views = (viewed.card.crop, viewed.views) if viewed and viewed.views else None
        return PixelSpec(tuple(dict.fromkeys(plain)), views, upright)


@dataclass(frozen=True)
class Jobs:
    """A plan with its encoders loaded."""

    spaces: tuple[Job, ...]
    predictor: Job | None
    text: TextEncoder | None

    def __iter__(self) -> Iterator[Job]:
        return iter((self.predictor, *self.spaces) if self.predictor else self.spaces)
