"""What the encoders that run in torch share: imports, device, precision, batches, digest."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marc.encoders.cards import EncoderCard, Loading, NotHere
from marc.errors import MarcError
from marc.scores import unit

if TYPE_CHECKING:
    from torch import Tensor, dtype, nn

_PURE = "pure-bfloat16"
_CPU_BATCH = 32
_CUDA_BATCH = 256
_OPERATORS = ("nms", "qnms")
_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


@dataclass(frozen=True)
class Running:
    """What a model runs on, and how it is run there."""

    device: str
    precision: str
    batch: int
    compiled: bool = False
    """Whether full batches run as compiled code."""

    @classmethod
    def choose(cls, loading: Loading) -> Running:
        """Device, precision and batch size: as asked, or chosen by device."""
        device = choose_device(loading.device)
        if loading.compiled and not device.startswith("cuda"):
            problem = "compiled code is for a GPU of CUDA"
            raise MarcError(problem, got=device, hint="without --compile")
        default = _CPU_BATCH if device == "cpu" else _CUDA_BATCH
        precision = _choose_precision(loading.precision, device)
        return cls(device, precision, loading.batch or default, loading.compiled)

    @property
    def dtype(self) -> dtype:
        """Of what an image tower takes; autocast narrows numbers only where it is harmless."""
        import torch

        return torch.bfloat16 if self.precision == _PURE else torch.float32

    def settled(self, model: nn.Module, images: nn.Module) -> nn.Module:
        """A model on the device, its image tower with weights in the precision that was chosen."""
        model = model.eval().to(self.device)
        images.to(self.dtype)
        return model

    def refuse_rounded(self, card: EncoderCard) -> None:
        """For networks to learn in: they begin with the weights of the file."""
        if self.precision == _PURE:
            problem = f"the weights of {card.name} were rounded when they were loaded"
            raise MarcError(problem, got=self.precision, hint="--precision float32")

    def encode_tokens(
        self, encode: Callable[[Any], Tensor], card: EncoderCard, tokens: Any
    ) -> NDArray[np.float32]:
        """Unit vectors (n, dim) of tokenised texts, in float32: they are few and used often."""
        vectors = np.empty((len(tokens), card.dim), dtype=np.float32)
        exact = replace(self, precision="float32")
        for start in range(0, len(tokens), self.batch):
            with self.telling_of_memory(), exact.inference():
                part = tokens[start : start + self.batch].to(self.device)
                rows = self.as_vectors(card, encode(part)).cpu().numpy()
                vectors[start : start + self.batch] = self.finite(card, rows)
        return unit(vectors)

    @contextmanager
    def inference(self) -> Iterator[None]:
        """No gradients, and the precision that was chosen: float32 is float32 on a GPU too."""
        import torch

        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode())
            if self.precision == "bfloat16":
                kind = self.device.partition(":")[0]
                stack.enter_context(torch.autocast(kind, dtype=torch.bfloat16))
            else:
                # convolutions would be rounded to 10 bits otherwise
                stack.enter_context(torch.backends.cudnn.flags(enabled=True, allow_tf32=False))
            yield

    @contextmanager
    def telling_of_memory(self) -> Iterator[None]:
        """Say what to do where a batch is too much for a GPU."""
        import torch

        try:
            yield
        except torch.cuda.OutOfMemoryError:
            raise MarcError(
                "the GPU has too little memory for a batch",
                got=f"{self.batch} images at a time",
                hint=f"--batch {max(1, self.batch // 2)}",
            ) from None

    @staticmethod
    def as_vectors(card: EncoderCard, output: Tensor) -> Tensor:
        """What a network gave in float32, refused unless it has the shape of the card."""
        if output.ndim != 2 or output.shape[1] != card.dim:
            raise MarcError(
                f"{card.name} does not give the vectors on its card",
                got=f"shape {tuple(output.shape)}",
                allowed=f"(n, {card.dim})",
            )
        return output.float()

    @staticmethod
    def finite(card: EncoderCard, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Vectors, refused unless all of them are numbers."""
        if not np.isfinite(rows).all():
            raise MarcError(
                f"{card.name} gave vectors that are not finite",
                got="NaN or infinity",
                hint="--precision float32, or other weights",
            )
        return rows


def import_libraries(*names: str) -> None:
    """Make `import timm` and `import open_clip` work, or say what to install.

    Both import torchvision. The torchvision of the package index is built for CUDA; beside a torch
    for the CPU its import fails, because two operators that it describes are missing. Declaring
    them, without code, is enough: nobody here calls them, and who did would get a clear error.
    """
    for name in ("torch", "torchvision", *names):
        if importlib.util.find_spec(name) is None:
            raise NotHere(
                "encoders in torch need more than the base installation",
                got=f"no module {name}",
                hint="pip install 'marc-clip[encoders]'",
            )
    import torch

    if "torchvision" in sys.modules or torch.version.cuda or getattr(torch.version, "hip", None):
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]  # half imported
        for operator in _OPERATORS:
            torch.library.define(f"torchvision::{operator}", _SIGNATURE)


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


def choose_device(asked: str) -> str:
    """`cpu`, `cuda`, `cuda:N` or `mps`; `auto` is a GPU of CUDA where there is one.

    Apple's GPU must be asked for: not every operation is there, and none was held to the CPU's.
    """
    import torch

    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    devices = ["cpu", *(["cuda"] if there else []), *(f"cuda:{number}" for number in range(there))]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    if asked == "auto":
        return "cuda" if there else "cpu"
    if asked not in devices:
        raise MarcError(
            "torch finds no such GPU here",
            got=repr(asked),
            allowed=", ".join(["auto", *devices]),
            hint="--device auto",
        )
    return asked


def _choose_precision(asked: str, device: str) -> str:
    """What to compute in; `auto` is bfloat16 on a GPU that has it, float32 elsewhere."""
    import torch

    if asked != "auto":
        return asked
    # older GPUs compute it by way of float32, more slowly than float32 itself
    able = device.startswith("cuda") and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bfloat16" if able else "float32"
