"""What the files of a result must look like, for whoever reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError

_Count = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
_Seed = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Weight = Annotated[float, msgspec.Meta(ge=0, le=1e300)]
_Names = Annotated[list[str], msgspec.Meta(min_length=1)]
_Interval = Annotated[list[float], msgspec.Meta(min_length=2, max_length=2)]


class _Stream(TypedDict):
    source: str
    stream: str
    n_images: _Count
    n_classes: _Count
    n_views: _Count
    fingerprint: dict[str, Any]
    ordering: NotRequired[str]
    versions: dict[str, str]
    seeds: Annotated[list[_Seed | None], msgspec.Meta(min_length=1)]


class _Method(TypedDict):
    method: str
    space: NotRequired[str]
    spaces: NotRequired[str | _Names]


class _RunConfig(_Stream):
    method: _Method
    selection: str
    published: NotRequired[str]


class _SweepConfig(_Stream):
    images: list[str]
    spaces: _Names
    capacities: Annotated[list[_Count], msgspec.Meta(min_length=1)]
    weights: Annotated[list[_Weight], msgspec.Meta(min_length=1)]
    settings: dict[str, Any]
    device: NotRequired[str]


class _Order(TypedDict):
    seed: int | None
    accuracy: float
    base_accuracy: float
    gain: float
    repairs: int
    regressions: int
    mcnemar_log10_p: float


class _Calibration(TypedDict):
    bins: int
    ece: NotRequired[float]
    brier: NotRequired[float]
    log_loss: NotRequired[float]
    base_ece: NotRequired[float]
    base_brier: NotRequired[float]
    base_log_loss: NotRequired[float]
    difference: NotRequired[dict[str, float]]
    interval: NotRequired[dict[str, _Interval]]


class _RunMetrics(TypedDict):
    selection: str
    final_weight: list[float]
    calibration: NotRequired[_Calibration]
    chosen: NotRequired[list[dict[str, float]]]


class _Unlabelled(_RunMetrics):
    changed: list[float]


class _Labelled(_RunMetrics):
    accuracy: float
    base_accuracy: float
    gain: float
    gain_interval: _Interval
    worst_tenth_gain: float
    orders: list[_Order]


class _SweepMetrics(TypedDict):
    selection: str
    accuracy: list[list[list[list[float]]]]
    base_accuracy: list[float]
    envelope: dict[str, Any]


class Timing(TypedDict):
    """How long a run took, and what it remembered at its end; nothing of a search or a replay."""

    seconds: NotRequired[list[float]]
    images_per_second: NotRequired[Annotated[float, msgspec.Meta(gt=0, le=1e300)]]
    memory_bytes: NotRequired[Annotated[int, msgspec.Meta(ge=0, le=2**53)]]


CONFIGS: dict[str, Any] = {"run": _RunConfig, "sweep": _SweepConfig}


def metrics_shape(config: Mapping[str, Any]) -> Any:
    """What the metrics of a result must look like."""
    if config["kind"] == "sweep":
        return _SweepMetrics
    return _Labelled if config["fingerprint"].get("labels") else _Unlabelled


_CLASSES = ("prediction", "base_prediction", "pseudo_label", "label")
_LARGE = 1e38  # beyond float32
_SURE = ("confidence", "log_loss", "brier")


def check_lengths(config: Mapping[str, Any], *records: Mapping[str, Any]) -> None:
    """Refuse metrics and times that are not of as many orders as the configuration has."""
    for record in records:
        for name in ("orders", "final_weight", "chosen", "seconds"):
            if name in record and len(record[name]) != len(config["seeds"]):
                raise MarcError(f"{name} is not of each order", got=len(record[name]))


def check_arrays(kind: str, config: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse arrays that are not of the shapes, types and classes that a configuration asks for."""
    needed, others = (_run_arrays if kind == "run" else _sweep_arrays)(config, arrays)
    for name, (shape, types) in {**needed, **others}.items():
        array = arrays.get(name)
        if array is None and name in others:
            continue
        if array is None or array.shape != shape or array.dtype.kind not in types:
            came = "none" if array is None else f"{array.dtype} {array.shape}"
            raise MarcError(f"the array {name} does not fit the configuration", got=came)
        if array.dtype.kind == "f" and not (np.isinf(array) | (np.abs(array) < _LARGE)).all():
            raise MarcError(
                f"the array {name} has what is no number, or too large a one", got=shape
            )
    n_classes, rows = config["n_classes"], np.arange(config["n_images"])
    for name in _CLASSES:
        if name in arrays and not ((arrays[name] >= 0) & (arrays[name] < n_classes)).all():
            raise MarcError(f"the array {name} names classes that do not exist", got=n_classes)
    if "order" in arrays and not all((np.sort(order) == rows).all() for order in arrays["order"]):
        raise MarcError("the array order is no order of the images", got=len(rows))


_Shapes = dict[str, tuple[tuple[int, ...], str]]
"""The shape of an array, and the kinds of its type."""


def _run_arrays(config: Mapping[str, Any], arrays: Mapping[str, Any]) -> tuple[_Shapes, _Shapes]:
    """Arrays that a run must have, and those that it may have."""
    n_orders, n_images = len(config["seeds"]), config["n_images"]
    of_image, of_order = (n_images,), (n_orders, n_images)
    needed: _Shapes = {"ids": (of_image, "U"), "seeds": ((n_orders,), "i")}
    needed |= {name: (of_order, "i") for name in ("order", "prediction", "pseudo_label")}
    needed |= {name: (of_order, "f") for name in ("priority", "weight")}
    needed |= {"base_prediction": (of_image, "i")}
    others: _Shapes = {}
    for base, shape in (("", of_order), ("base_", of_image)):
        if f"{base}confidence" in arrays:  # of unlabelled images there are no others
            measures = _SURE if "label" in arrays else _SURE[:1]
            needed |= {base + name: (shape, "f") for name in measures}
    others |= {"label": (of_image, "i"), "class_names": ((config["n_classes"],), "U")}
    n_spaces = len(np.atleast_1d(arrays.get("spaces", ())))
    others |= {"spaces": ((n_spaces,), "U"), "space_weight": ((n_orders, n_spaces, n_images), "f")}
    return needed, others


def _sweep_arrays(config: Mapping[str, Any], arrays: Mapping[str, Any]) -> tuple[_Shapes, _Shapes]:
    """Arrays that a sweep must have; the ends of its intervals may be infinite."""
    n_images = config["n_images"]
    ends = (len(config["seeds"]), len(config["capacities"]), n_images), "f"
    needed: _Shapes = {"ids": ((n_images,), "U"), "base_correct": ((n_images,), "b")}
    for space in config["spaces"]:
        needed |= {f"lower/{space}": ends, f"upper/{space}": ends}
    return needed, {}
