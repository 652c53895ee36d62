"""An image encoder as a classifier that learns, in torch: its head, its norms, its optimiser."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from marc.encoders.cards import reason
from marc.errors import MarcError
from marc.memory import check_stored
from marc.peers._arrays import distinct_rows
from marc.stream.predictor import Predictor

_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.BatchNorm2d)
_MISFIT = "its arrays do not fit the network"
_ADAM = {"step", "exp_avg", "exp_avg_sq"}
_KINDS = {
    torch.optim.Adam: _ADAM,
    torch.optim.AdamW: _ADAM,
    torch.optim.SGD: {"momentum_buffer"},
}
"""What each optimiser remembers of a parameter."""
_LEAST = {"step": 1, "exp_avg_sq": 0}


class Classifier:
    """logits = head(pool(module(images))): a module that may learn and a head that may not."""

    def __init__(
        self,
        module: nn.Module,
        head: Callable[[Tensor], Tensor],
        pool: Callable[[Tensor], Tensor] = functional.normalize,
    ) -> None:
        self.module, self.head, self.pool = module, head, pool

    @classmethod
    def of(cls, predictor: Predictor) -> Classifier:
        """A predictor: unit features against its prototypes, times tau."""
        return cls(predictor.image_tower.copy().eval(), _Prototypes(predictor))

    def features(self, images: Tensor) -> Tensor:
        """(n, 3, H, W) to (n, D): what the head is given."""
        return self.pool(self.module(images))

    def logits(self, images: Tensor) -> Tensor:
        """(n, 3, H, W) to (n, C)."""
        return self.head(self.features(images))

    def embed(self, images: Tensor) -> NDArray[np.float32]:
        """Features (n, D) as an array; a size of images that the module refuses is named."""
        try:
            with torch.no_grad():
                return numbers(self.features(images))
        except torch.cuda.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, AssertionError) as error:
            raise MarcError(
                "the image encoder does not take these pictures",
                got=f"{tuple(images.shape)}: {reason(error)}",
                hint="the crops that the features were made of",
            ) from error


class _Prototypes:
    """tau <f, t_c>; each distinct prototype is multiplied once, so that equal ones tie."""

    def __init__(self, predictor: Predictor) -> None:
        first, which = distinct_rows(predictor.prototypes)
        self._rows = torch.from_numpy(predictor.prototypes[first]).float()
        self._scale = float(predictor.logit_scale)
        self._which = None if len(first) == len(which) else torch.from_numpy(which)

    def __call__(self, features: Tensor) -> Tensor:
        logits = self._scale * (features.float() @ self._rows.to(features.device).T)
        return logits if self._which is None else logits[:, self._which.to(features.device)]


class Learner:
    """A classifier, the parameters of it that move, by name, and the optimiser that moves them."""

    def __init__(
        self,
        classifier: Classifier,
        parameters: Mapping[str, nn.Parameter],
        optimiser: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
        *,
        keeps: tuple[str, ...] = ("weights", "moments"),
    ) -> None:
        classifier.module.requires_grad_(False)
        for parameter in parameters.values():
            parameter.requires_grad_(True)
        self.classifier, self.parameters = classifier, dict(parameters)
        self.optimiser = optimiser(list(self.parameters.values()))
        self._keeps = keeps
        self._published = [each.detach().clone() for each in self.parameters.values()]

    def restore_weights(self) -> None:
        """Give the parameters their published values again; the optimiser remembers what it did."""
        with torch.no_grad():
            torch._foreach_copy_(list(self.parameters.values()), self._published)

    def restore(self) -> None:
        """Forget everything that was learned."""
        self.restore_weights()
        self.optimiser.state.clear()

    def descend(self, loss: Tensor) -> None:
        """One step of the optimiser."""
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()

    def arrays(self) -> dict[str, dict[str, NDArray[Any]]]:
        """Parameters and moments, copied, but not what is restored before it is read."""
        moments = {
            f"{name}:{kind}": value
            for name, parameter in self.parameters.items()
            for kind, value in self.optimiser.state.get(parameter, {}).items()
            if value is not None
        }
        parts: dict[str, Mapping[str, Tensor]] = {"weights": self.parameters, "moments": moments}
        return {
            part: {name: _copy(value) for name, value in parts[part].items()}
            for part in self._keeps
            if parts[part]
        }

    def load(self, arrays: Mapping[str, Mapping[str, NDArray[Any]]]) -> None:
        """Go on from what `arrays` gave."""
        weights, moments = arrays.get("weights", {}), arrays.get("moments", {})
        whole = set(weights) == (set(self.parameters) if "weights" in self._keeps else set())
        check_stored(whole and set(arrays) <= set(self._keeps), _MISFIT)
        with torch.no_grad():
            for name, array in weights.items():
                check_stored(array.shape == self.parameters[name].shape, _MISFIT)
                self.parameters[name].copy_(torch.from_numpy(array))
        for full_name, array in moments.items():
            name, _, kind = full_name.rpartition(":")
            check_stored(name in self.parameters, _MISFIT)
            parameter, counts = self.parameters[name], kind == "step"
            check_stored(array.shape == ((1,) if counts else parameter.shape), _MISFIT)
            check_stored(bool((array >= _LEAST.get(kind, -np.inf)).all()), _MISFIT)
            value = torch.from_numpy(array.copy())
            value = value[0] if counts else value.to(parameter.device)  # as torch keeps them
            self.optimiser.state[parameter][kind] = value
        kinds = _KINDS[type(self.optimiser)]
        check_stored(all({*each} == kinds for each in self.optimiser.state.values()), _MISFIT)


def norm_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """Scales and shifts of the normalisations of a network, by name."""
    found: dict[str, nn.Parameter] = {}
    for name, part in module.named_modules():
        if isinstance(part, _NORMS):
            for kind in ("weight", "bias"):
                if getattr(part, kind, None) is not None:
                    found[f"{name}.{kind}".lstrip(".")] = getattr(part, kind)
    return found


def use_batch_statistics(module: nn.Module) -> None:
    """Let every 2-d batch norm use the statistics of its batch, and keep none."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.track_running_stats = False
            part.running_mean = part.running_var = None
            part.forward = functools.partial(_over_batch, part.forward)


def _over_batch(forward: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """With one value per channel, which torch refuses, that is the mean, and the variance is 0."""
    if _is_alone(images):
        return forward(_twice(images))[:1]
    return forward(images)


def _is_alone(images: Tensor) -> bool:
    """Whether states (n, C, H, W) have one value in each channel."""
    return images.numel() == images.shape[1]


def _twice(images: Tensor) -> Tensor:
    """A value and itself: of the same mean, and without variance."""
    return images.expand(2, -1, -1, -1)


def mix_statistics(module: nn.Module, strength: float) -> None:
    """Let every 2-d batch norm mix what it kept with its batch, as `strength` pictures to one."""
    kept = strength / (strength + 1)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d) and type(part).forward is _BatchNorm.forward:
            part.forward = functools.partial(_mixed_norm, part, kept)


def _mixed_norm(norm: Any, kept: float, images: Tensor) -> Tensor:
    """No gradient passes through the statistics; the variance is unbiased, that of one value 0."""
    mean, var = torch.zeros_like(norm.running_mean), torch.ones_like(norm.running_var)
    seen = images.detach()
    seen = _twice(seen) if _is_alone(seen) else seen
    functional.batch_norm(seen, mean, var, None, None, True, 1.0, norm.eps)
    mean = kept * norm.running_mean + (1 - kept) * mean
    var = kept * norm.running_var + (1 - kept) * var
    return functional.batch_norm(images, mean, var, norm.weight, norm.bias, False, 0.0, norm.eps)


@contextmanager
def norms_learning(modules: Iterable[nn.Module]) -> Iterator[None]:
    """While this is open every batch norm uses its batch and remembers it; nothing is dropped."""
    norms = [part for each in modules for part in each.modules() if isinstance(part, _BatchNorm)]
    for norm in norms:
        norm.train()
    try:
        yield
    finally:
        for norm in norms:
            norm.eval()


def entropies(logits: Tensor) -> Tensor:
    """Entropy in nats of each row's softmax, (n, C) to (n,)."""
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1)


def marginal_entropy(logits: Tensor) -> Tensor:
    """Entropy in nats of the mean of the softmaxes of (n, C)."""
    mean = logits.log_softmax(1).logsumexp(0) - float(np.log(len(logits)))
    mean = mean.clamp(min=torch.finfo(mean.dtype).min)
    return -(mean * mean.exp()).sum()


def numbers(tensor: Tensor) -> NDArray[np.float32]:
    """A tensor as an array that nobody else writes to."""
    return np.asarray(tensor.detach().float().cpu().numpy().copy(), dtype=np.float32)


def _copy(tensor: Tensor) -> NDArray[Any]:
    return np.atleast_1d(tensor.detach().cpu().numpy().copy())
