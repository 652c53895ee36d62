"""Which file an encoder's weights are in: one that is named, one that is kept, or a download.

Offline the network is never tried.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from marc.encoders.cards import EncoderCard
from marc.encoders.loading import Loading
from marc.encoders.reasons import reason
from marc.encoders.weight_files import find_weights
from marc.errors import MarcError

_SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


@dataclass(frozen=True)
class Published:
    """Where a library says that the weights of an encoder are: on the hub, or at an address."""

    repository: str
    """Of the Hugging Face hub. Empty: `url` it is."""
    names: Sequence[str]
    """Files of the repository, the best first."""
    url: str
    folder: Path
    """Where the library keeps what it downloads from an address."""


def weights_file(
    card: EncoderCard, loading: Loading, published: Callable[[EncoderCard], Published]
) -> Path:
    """The file with an encoder's weights: the one that was named, a kept one, or a download."""
    if loading.weights is not None:
        return find_weights(card, loading.weights)
    place = published(card)
    with network(loading.offline):
        if place.repository:
            return hub_file(card, place.repository, place.names, offline=loading.offline)
        return url_file(card, place.url, place.folder, offline=loading.offline)


@contextmanager
def network(offline: bool) -> Iterator[None]:
    """While this is open and `offline`, the libraries that load models refuse to use the network.

    The environment is for what is imported later, the constant for what is imported already.
    Afterwards everything is as it was: another encoder may be loaded from the network.
    """
    if not offline:
        yield
        return
    from huggingface_hub import constants

    before = {name: os.environ.get(name) for name in _SWITCHES}
    constant = constants.HF_HUB_OFFLINE
    os.environ.update(dict.fromkeys(_SWITCHES, "1"))
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = constant
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def hub_file(card: EncoderCard, repository: str, names: Sequence[str], *, offline: bool) -> Path:
    """The first of some files that a repository of the Hugging Face hub has.

    What an earlier download left is taken first, so a machine that has it never waits.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    repository, _, revision = repository.partition("@")
    for kept_only in (True,) if offline else (True, False):
        for name in names:
            try:
                with network(offline=kept_only):
                    found = hf_hub_download(
                        repository, name, revision=revision or None, local_files_only=kept_only
                    )
                return Path(found)
            except LocalEntryNotFoundError as error:
                if not kept_only:  # the network is not there
                    raise _no_weights(card, repository, offline, reason(error)) from error
            except EntryNotFoundError:
                continue  # the repository has no file of this name
            except Exception as error:  # whatever goes wrong on the way, the advice is the same
                raise _no_weights(card, repository, offline, reason(error)) from error
    raise _no_weights(card, repository, offline, f"none of {', '.join(names)}")


def url_file(card: EncoderCard, url: str, folder: Path, *, offline: bool) -> Path:
    """A file with an address of its own, kept in a folder."""
    target = folder / url.rsplit("/", 1)[-1]
    if target.is_file():
        return target
    if offline:
        raise _no_weights(card, url, offline, "")
    from torch.hub import download_url_to_file

    try:
        folder.mkdir(parents=True, exist_ok=True)
        download_url_to_file(url, str(target), progress=False)
    except Exception as error:  # as above
        raise _no_weights(card, url, offline, reason(error)) from error
    return target


def _no_weights(card: EncoderCard, place: str, offline: bool, why: str) -> MarcError:
    if offline:
        problem = f"the weights of {card.name} are not on this machine, and the network is off"
        got = f"nothing kept of {place}"
    else:
        problem = f"the weights of {card.name} could not be downloaded"
        got = f"{place}: {why}"
    return MarcError(
        problem,
        got=got,
        allowed=f"a file or folder with the weights of {card.tag} ({card.library})",
        hint="--weights PATH",
    )
