"""Architectures of open_clip: by name, or as a file of the hub's or of open_clip's own kind.

A file is given to open_clip in a folder of its own, for as long as a model is built: its list of
architectures, which belongs to the whole process, stays as it is.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from marc.encoders.cards import EncoderCard, NotHere, reason, safe_name
from marc.encoders.network import hub, network, unreachable
from marc.encoders.published import Pooling
from marc.errors import MarcError, integer
from marc.files import json_digest, read_json, user_path
from marc.pictures.crops import Crop

_PARTS = {"embed_dim", "vision_cfg", "text_cfg"}
_TOKENIZER_FILES = ("*token*", "vocab*", "merges*", "spiece*", "special*", "*.model")
_QUICK = "GELU: OpenAI's weights need the architecture with -quickgelu"


@dataclass(frozen=True)
class Architecture:
    """Two towers as open_clip describes them."""

    name: str
    """Of open_clip's list; of a file its path and digest, `FILE#DIGEST`."""
    towers: dict[str, Any]
    pixels: dict[str, Any]
    """Mean, deviation and interpolation, as far as a file says so."""

    @classmethod
    def read(cls, name: str) -> Architecture:
        """Of open_clip's list, or a file; a file that has changed since is refused."""
        import open_clip

        path, _, digest = name.partition("#")
        if not path.endswith(".json"):
            return cls(name, _of_list(name), {})
        stored = read_json(user_path(path))
        towers, pixels = stored.get("model_cfg", stored), stored.get("preprocess_cfg", {})
        sound = isinstance(towers, dict) and towers.keys() >= _PARTS and isinstance(pixels, dict)
        if not sound or not all(isinstance(towers[part], dict) for part in _PARTS - {"embed_dim"}):
            raise MarcError(
                "this file describes no model of open_clip",
                got=path,
                allowed=f"an object with {', '.join(sorted(_PARTS))}, or with them in model_cfg",
            )
        integer("embed_dim", towers["embed_dim"], 1)
        found = json_digest(towers, pixels)[:12]
        if digest and digest != found:
            raise MarcError("the file of an architecture has changed", got=path)
        defaults = vars(open_clip.transform.PreprocessCfg())
        known = {key: pixels[key] for key in ("mean", "std", "interpolation") if key in pixels}
        if not all(_is_triple(known.get(key, (0, 0, 0))) for key in ("mean", "std")):
            raise MarcError("mean and std are three numbers each", got=f"{path}: {known}")
        return cls(f"{path}#{found}", towers, {**defaults, **known} if known else {})

    @property
    def is_file(self) -> bool:
        """Whether it came from a file."""
        return "#" in self.name

    @property
    def needs_hub(self) -> str:
        """The repository that describes a tower or its tokenizer; empty if none does."""
        text = self.towers["text_cfg"]
        return str(text.get("hf_tokenizer_name") or text.get("hf_model_name") or "")

    @contextmanager
    def network(self, offline: bool) -> Iterator[None]:
        """The network, if a part of this is on the hub and the hub is there."""
        with network(offline or not self.needs_hub or bool(unreachable(hub()))):
            yield

    @contextmanager
    def known(self) -> Iterator[str]:
        """What open_clip calls it while this is open."""
        if not self.is_file:
            yield self.name
            return
        with TemporaryDirectory() as folder:
            there = {"model_cfg": self.towers, "preprocess_cfg": {}}
            config = Path(folder) / "open_clip_config.json"
            config.write_text(json.dumps(there), encoding="utf-8")
            beside = user_path(self.name.partition("#")[0]).parent
            for each in {file for kind in _TOKENIZER_FILES for file in beside.glob(kind)}:
                if self.needs_hub and each.is_file():
                    shutil.copy(each, folder)
            yield f"local-dir:{folder}"

    def tokenizer(self, card: EncoderCard) -> Any:
        """What makes numbers of texts."""
        import open_clip

        try:
            with self.known() as name:
                return open_clip.get_tokenizer(name)
        except Exception as error:  # those of some models are in yet another library, or on the hub
            where = "beside the file" if self.is_file else "in the cache of the hub"
            raise NotHere(
                f"the tokenizer of {card.name} cannot be loaded",
                got=f"{self.needs_hub or self.name}: {reason(error)}",
                hint=f"pip install transformers, and the files of {hub()}/{self.needs_hub} {where}",
            ) from error

    def card(self) -> EncoderCard:
        """The card of these towers with weights of a user's own."""
        numbers, whose = self._numbers()
        vision = self.towers["vision_cfg"]
        name = self.name.partition("#")[0]
        crop = Crop.of_model(name, vision.get("image_size", 224), numbers.get("interpolation"))
        quick = self.towers.get("quick_gelu", False) or "timm_model_name" in vision
        words = f"{name} of open_clip with weights of your own; mean, std: {whose}"
        return EncoderCard(
            name=safe_name(name),
            summary=words + ("" if quick else f"; {_QUICK}"),
            library="open_clip",
            tag=self.name,
            dim=self.towers["embed_dim"],
            crop=crop,
            mean=tuple(numbers["mean"]),
            std=tuple(numbers["std"]),
            pooling=Pooling.DEFAULT,
            licence="unknown",
            has_text=True,
        )

    def _numbers(self) -> tuple[dict[str, Any], str]:
        """Mean, deviation and interpolation, and whose they are."""
        import open_clip

        if self.pixels:
            return self.pixels, "those of the file"
        tags = [] if self.is_file else open_clip.list_pretrained_tags_by_model(self.name)
        each = [open_clip.get_pretrained_cfg(self.name, tag) for tag in tags]
        same = {(*one["mean"], *one["std"], one.get("interpolation")) for one in each}
        if len(same) == 1:
            return each[0], "those of its published weights"
        return vars(open_clip.transform.PreprocessCfg()), Pooling.DEFAULT


def _of_list(name: str) -> dict[str, Any]:
    import open_clip

    known = open_clip.list_models()
    if name not in known:
        near = [each for each in known if each.startswith(name[:5])]
        raise MarcError(
            "open_clip has no architecture of this name",
            got=repr(name),
            allowed=f"{', '.join(near or known)}, or FILE.json",
        )
    return dict(open_clip.get_model_config(name))


def _is_triple(value: object) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 3
        and all(isinstance(each, int | float) for each in value)
    )
