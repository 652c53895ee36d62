"""The network: forbidden where it is off, and asked once whether it is there before it is used."""

from __future__ import annotations

import os
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import HTTPError, URLError

from marc.encoders.cards import reason

_SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_PATIENCE = 5.0  # seconds for one answer, whatever it is


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


def hub() -> str:
    """The address of the model hub, or of the mirror that stands for it."""
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


def unreachable(address: str) -> str:
    """Why nothing answers at an address, within a few seconds; empty if something does.

    The libraries that download try six times and wait in between, which is right for a network
    that falters and half a minute too long for one that is not there. Names are looked up without
    a limit of time, so this waits for a thread and not for the call.
    """
    found: list[str] = []

    def ask() -> None:
        request = urllib.request.Request(address, method="HEAD")
        try:
            urllib.request.urlopen(request, timeout=_PATIENCE).close()
        except HTTPError:  # an answer
            found.append("")
        except Exception as error:  # no name, no route, no answer
            why = str(error.reason) if isinstance(error, URLError) else reason(error)
            # a certificate that only the other library knows: let it try
            found.append("" if "CERTIFICATE" in why.upper() else why or type(error).__name__)
        else:
            found.append("")

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return found[0] if found else f"no answer in {_PATIENCE:.0f} seconds"
