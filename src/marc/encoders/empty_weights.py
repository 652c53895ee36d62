"""Models without random weights: a file is about to overwrite them all.

Drawing them takes longer than reading the file: seconds for a large tower.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


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
