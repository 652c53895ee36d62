"""What the loaders of encoders share: what to load on, names and sizes, reasons, empty weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marc.encoders.cards import EncoderCard
from marc.errors import MarcError, one_of

_PRECISIONS = ("auto", "bfloat16", "float32")
_LONGEST_REASON = 200  # characters


@dataclass(frozen=True)
class Loading:
    """Where the weights are and what they run on."""

    weights: Path | None = None
    """A file, or a folder with one. None: the library's cache, or a download."""
    offline: bool = False
    """Whether the network may not even be tried."""
    device: str = "auto"
    precision: str = "auto"
    batch: int = 0
    """Images at a time. 0: chosen by device."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):  # it may be that of elsewhere
            allowed = "auto, cpu, cuda, cuda:N"
            raise MarcError("unknown device", got=repr(self.device), allowed=allowed)
        one_of("precision", self.precision, _PRECISIONS)

    def refuse_weights(self, card: EncoderCard) -> None:
        """For an encoder that brings its weights, and runs on the CPU in float32.

        Device and precision are meant for the torch encoders of the same call and pass; what it
        computes in, an encoder says itself. Weights are meant for this one and are refused.
        """
        if self.weights is not None:
            raise MarcError(
                f"{card.name} has its weights already",
                got=f"weights {self.weights}",
                hint="no weights, or onnx:FILE for a graph of your own",
            )


def safe_name(name: str) -> str:
    """A name that can be that of a file and of a space.

    >>> safe_name("ViT-B-16/laion2b s34b")
    'ViT-B-16-laion2b-s34b'
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "encoder"


def square(name: str, sides: int | Sequence[int]) -> int:
    """The side of the square that a model takes."""
    lengths = {sides} if isinstance(sides, int) else set(sides)
    if len(lengths) != 1:
        raise MarcError(
            "only models that take square pictures can be used", got=f"{name}: {list(lengths)}"
        )
    return int(lengths.pop())


def reason(error: BaseException) -> str:
    r"""The first line of what went wrong at first.

    >>> reason(OSError("no route\nand much more"))
    'no route'
    >>> reason(KeyError())
    'KeyError'
    """
    while error.__cause__ is not None:  # the first cause is the one that can be mended
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0][:_LONGEST_REASON] if lines else type(error).__name__


def without_drawing() -> AbstractContextManager[Any]:
    """While this is open, NaN is put where random numbers would be.

    Only for models whose every weight is then loaded: one that is not makes itself felt. What a
    model computes for itself, such as the positions of patches, is not drawn and stays right.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    drawing = {
        torch.Tensor.uniform_,
        torch.Tensor.normal_,
        torch.nn.init.uniform_,
        torch.nn.init.normal_,
        torch.nn.init.kaiming_uniform_,
        torch.nn.init.kaiming_normal_,
    }

    class WithoutDrawing(TorchFunctionMode):
        """torch's own way to step in front of an operation."""

        def __torch_function__(
            self,
            function: Callable[..., Any],
            types: Any,
            args: tuple[Any, ...] = (),
            kwargs: dict[str, Any] | None = None,
        ) -> Any:
            given = kwargs or {}
            if function in drawing:
                tensor = args[0] if args else given["tensor"]
                with torch.no_grad():
                    return tensor.fill_(torch.nan)
            if function is torch.Tensor.erfinv_:  # the second half of drawing from a cut normal
                return args[0]
            return function(*args, **given)

    return WithoutDrawing()
