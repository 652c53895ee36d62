"""Which file an encoder's weights are in, and what is in it.

It is one that is named, one of an earlier download, or a new download; offline the network is
never tried. Files hold tensors by name, in one of three formats.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marc.encoders.cards import EncoderCard, Loading, NotHere, reason
from marc.encoders.network import hub, network, unreachable
from marc.encoders.script_archives import read_script
from marc.errors import MarcError
from marc.files import refuse_odd_file, user_path

if TYPE_CHECKING:
    from torch import Tensor

_USUAL_NAMES = {
    "timm": ("model.safetensors", "pytorch_model.bin"),
    "open_clip": (
        "open_clip_model.safetensors",
        "open_clip_pytorch_model.safetensors",
        "open_clip_pytorch_model.bin",
    ),
}
"""Files of a repository of the hub, by library."""
_ENDINGS = (".safetensors", ".pt", ".pth", ".bin")
_WRAPPERS = ("state_dict_ema", "model_ema", "state_dict", "model")
_SHOWN = 3  # names in a message


@dataclass(frozen=True)
class Published:
    """Where a library says that the weights of an encoder are: on the hub, or at an address."""

    repository: str
    """Of the Hugging Face hub. Empty: `url` it is."""
    names: Sequence[str]
    """Files of the repository, the best first; none: those that the library usually has."""
    url: str
    folder: Path
    """Where the library keeps what it downloads from an address."""


@dataclass(frozen=True)
class WeightsFile:
    """The file with an encoder's weights."""

    card: EncoderCard
    path: Path

    @classmethod
    def find(
        cls, card: EncoderCard, loading: Loading, published: Callable[[EncoderCard], Published]
    ) -> WeightsFile:
        """The one that was named, an earlier or a new download."""
        if loading.weights is not None:
            return cls(card, _find_weights(card, loading.weights))
        place = published(card)
        if not place.repository and not place.url:
            raise NotHere(
                f"no weights are published for {card.name}",
                got=card.tag,
                hint=f"--weights {card.name}=PATH",
            )
        with network(loading.offline):
            if place.repository:
                names = place.names or _USUAL_NAMES[card.library]
                path = _hub_file(card, place.repository, names, offline=loading.offline)
            else:
                path = _url_file(card, place.url, place.folder, offline=loading.offline)
        return cls(card, path)

    def state(self) -> dict[str, Any]:
        """Tensors by name. A file that holds other objects is refused: it could run code.

        Half precision becomes float32, in which everything is loaded; no number changes by it.
        """
        import torch

        size = refuse_odd_file(self.path, f"file with the weights of {self.card.name}").st_size
        try:
            _refuse_packed(self.path, size)
            if self.path.suffix == ".safetensors":
                from safetensors.torch import load_file

                stored: Any = load_file(self.path)
            else:
                stored = read_script(self.path)
                if stored is None:
                    stored = torch.load(self.path, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged file fails in the ways of three formats
            raise MarcError(
                f"the weights of {self.card.name} cannot be read",
                got=f"{self.path}: {reason(error)}",
                allowed="tensors by name and nothing else: safetensors, TorchScript, or torch.save",
            ) from None
        state = _unwrapped(stored)
        if not state or not all(isinstance(value, torch.Tensor) for value in state.values()):
            raise MarcError(
                f"the weights of {self.card.name} are not tensors by name",
                got=f"{self.path}: {type(stored).__name__}",
                allowed="a state dict",
            )
        for name, value in state.items():
            if problem := _problem(name, value):
                raise MarcError(
                    f"the weights of {self.card.name} cannot be used",
                    got=f"{self.path}: {name!r} {problem}",
                )
        half = (torch.float16, torch.bfloat16)
        return {name: each.float() if each.dtype in half else each for name, each in state.items()}

    @staticmethod
    def digest(state: Mapping[str, Tensor]) -> str:
        """SHA-256 of names, kinds, shapes and numbers of weights, in whatever order they come.

        It is taken of what a file holds, before a library translates it or fits it to another
        size: so it names the weights and not the version of the code that did so, and is the same
        from any format. Weights under other names, or rounded to half precision, are other weights.
        """
        import torch

        digest = hashlib.sha256()
        for name, value in sorted(state.items()):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            plain = value.detach().cpu().contiguous().reshape(-1)
            digest.update(plain.view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def misfit(self, error: Exception) -> MarcError:
        """The error to raise where weights are those of another model."""
        return MarcError(
            f"the weights do not fit {self.card.name}",
            got=f"{self.path}: {'; '.join(_differences(str(error))) or reason(error)}",
            allowed=f"the weights of {self.card.tag} ({self.card.library})",
            hint=f"marc list encoders --card {self.card.name}",
        )


def _hub_file(card: EncoderCard, repository: str, names: Sequence[str], *, offline: bool) -> Path:
    """The first of some files that a repository of the Hugging Face hub has.

    What an earlier download left is taken first, so a machine that has it never waits.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    repository, _, revision = repository.partition("@")
    by_hand = f"{hub()}/{repository}/resolve/{revision or 'main'}/{names[0]}"
    for cached_only in (True,) if offline else (True, False):
        if not cached_only and (why := unreachable(hub())):
            raise _no_weights(card, repository, by_hand, why)
        for name in names:
            try:
                with network(offline=cached_only):
                    found = hf_hub_download(
                        repository, name, revision=revision or None, local_files_only=cached_only
                    )
                return Path(found)
            except LocalEntryNotFoundError as error:
                if not cached_only:  # the network is not there
                    raise _no_weights(card, repository, by_hand, reason(error)) from error
            except EntryNotFoundError:
                continue  # the repository has no file of this name
            except Exception as error:  # whatever goes wrong on the way, the advice is the same
                raise _no_weights(card, repository, by_hand, reason(error)) from error
    why = "" if offline else f"none of {', '.join(names)}"
    raise _no_weights(card, repository, by_hand, why)


def _url_file(card: EncoderCard, url: str, folder: Path, *, offline: bool) -> Path:
    """A file with an address of its own, kept in a folder."""
    target = folder / url.rsplit("/", 1)[-1]
    if target.is_file():
        return target
    if offline:
        raise _no_weights(card, url, url, "")
    if why := unreachable(url):
        raise _no_weights(card, url, url, why)
    from torch.hub import download_url_to_file

    try:
        folder.mkdir(parents=True, exist_ok=True)
        download_url_to_file(url, str(target), progress=False)
    except Exception as error:  # as above
        raise _no_weights(card, url, url, reason(error)) from error
    return target


def _no_weights(card: EncoderCard, place: str, by_hand: str, why: str) -> NotHere:
    """The way out where weights can be had neither from this machine nor from the network.

    `why` is empty if the network was off.
    """
    problem = (
        f"the weights of {card.name} could not be downloaded"
        if why
        else f"the weights of {card.name} are not on this machine, and the network is off"
    )
    return NotHere(
        problem,
        got=f"{place}: {why}" if why else f"nothing kept of {place}",
        allowed=f"a file or folder with the weights of {card.tag} ({card.library})",
        hint=f"--weights PATH --offline, with the file of {by_hand}",
    )


def _find_weights(card: EncoderCard, path: Path) -> Path:
    """The file that holds an encoder's weights: `path`, or a file in the folder `path`.

    In a folder it is the file that has the encoder's name, then one of the names that the hubs
    use, then the only file that can hold weights.
    """
    path = user_path(path)
    if path.is_file():
        return path
    if not path.is_dir():
        raise MarcError(f"the weights of {card.name} are not there", got=path)
    if (path / card.name).is_dir():
        path = path / card.name
    usual = tuple(_USUAL_NAMES.values())
    first, second = reversed(usual) if card.library == "open_clip" else usual
    for name in (*(card.name + ending for ending in _ENDINGS), *first, *second):
        if (path / name).is_file():
            return path / name
    files = sorted(file for file in path.iterdir() if file.suffix in _ENDINGS and file.is_file())
    if len(files) != 1:
        raise MarcError(
            f"no file in the folder is clearly that of {card.name}",
            got=", ".join(file.name for file in files) or f"no weights in {path}",
            allowed=f"{card.name}.safetensors, {', '.join(first)}, or a single file",
            hint=f"--weights {path}/FILE",
        )
    return files[0]


def _refuse_packed(path: Path, size: int) -> None:
    """Refuse an archive that holds more than its file: torch packs nothing."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if (total := sum(each.file_size for each in archive.infolist())) > size:
                raise ValueError(f"{size:,} bytes that would become {total:,}")


def _problem(name: str, value: Tensor) -> str:
    """Why a tensor cannot be a weight; empty if it can."""
    import torch

    if not name.isprintable():
        return "is no name"
    if value.layout != torch.strided or value.is_quantized or value.device.type != "cpu":
        return "is no plain tensor"
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        return "has more numbers than are stored"
    return ""


def _unwrapped(stored: object) -> dict[str, Any]:
    """The tensors of a checkpoint, by the names that they had before parallel training."""
    if not isinstance(stored, dict):
        return {}
    inner = [stored[name] for name in _WRAPPERS if isinstance(stored.get(name), dict)]
    tensors: dict[object, Any] = inner[0] if inner else stored
    return {str(name).removeprefix("module."): value for name, value in tensors.items()}


def _differences(message: str) -> list[str]:
    """What torch says about keys, each kind with a few names and a count.

    >>> _differences('Missing key(s) in state_dict: "a", "b". ')
    ['missing: a, b']
    """
    differences = []
    for kind, words in (("missing", "Missing key"), ("unexpected", "Unexpected key")):
        line = re.search(rf"{words}\(s\) in state_dict: (.*)", message)
        names = re.findall(r'"([^"]+)"', line.group(1)) if line else []
        if names:
            differences.append(f"{kind}: {_few(names)}")
    sizes = re.findall(r"size mismatch for ([\w.]+):", message)
    return differences + ([f"of another size: {_few(sizes)}"] if sizes else [])


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
