"""What the files of a result must look like, for whoever reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError

_Count = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
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
    seeds: Annotated[list[int | None], msgspec.Meta(min_length=1)]


class _Method(TypedDict):
    method: str


class _RunConfig(_Stream):
    method: _Method
    selection: str
    published: NotRequired[str]


class _SweepConfig(_Stream):
    images: list[str]
    spaces: _Names
    capacities: Annotated[list[int], msgspec.Meta(min_length=1)]
    weights: Annotated[list[float], msgspec.Meta(min_length=1)]
    settings: dict[str, Any]


class _Order(TypedDict):
    seed: int | None
    accuracy: float
    base_accuracy: float
    gain: float
    repairs: int
    regressions: int
    mcnemar_log10_p: float


class _RunMetrics(TypedDict):
    selection: str
    final_weight: list[float]
    accuracy: NotRequired[float]
    base_accuracy: NotRequired[float]
    gain: NotRequired[float]
    gain_interval: NotRequired[_Interval]
    worst_tenth_gain: NotRequired[float]
    orders: NotRequired[list[_Order]]
    calibration: NotRequired[dict[str, Any]]
    chosen: NotRequired[list[dict[str, float]]]


class _SweepMetrics(TypedDict):
    selection: str
    accuracy: list[list[list[list[float]]]]
    base_accuracy: list[float]
    envelope: dict[str, Any]


class Timing(TypedDict):
    """How long a run took; nothing of a search or a replay."""

    seconds: NotRequired[list[float]]
    images_per_second: NotRequired[float]


CONFIGS: dict[str, Any] = {"run": _RunConfig, "sweep": _SweepConfig}
METRICS: dict[str, Any] = {"run": _RunMetrics, "sweep": _SweepMetrics}


def check_arrays(kind: str, config: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse arrays that are not of the shapes, types and classes that a configuration asks for."""
    n_orders, n_images, n_classes = len(config["seeds"]), config["n_images"], config["n_classes"]
    of_image, of_order = (n_images,), (n_orders, n_images)
    needed: dict[str, tuple[tuple[int, ...], str]] = {"ids": (of_image, "U")}
    if kind == "run":
        needed |= {name: (of_order, "iu") for name in ("order", "prediction", "pseudo_label")}
        needed |= {name: (of_order, "f") for name in ("priority", "weight")}
        needed |= {"base_prediction": (of_image, "iu"), "seeds": ((n_orders,), "iu")}
        needed |= {"label": (of_image, "iu")} if "label" in arrays else {}
    else:
        ends = (n_orders, len(config["capacities"]), n_images), "f"
        needed |= {"base_correct": (of_image, "b")}
        for space in config["spaces"]:
            needed |= {f"lower/{space}": ends, f"upper/{space}": ends}
    for name, (shape, types) in needed.items():
        array = arrays.get(name)
        if array is None or array.shape != shape or array.dtype.kind not in types:
            came = "none" if array is None else f"{array.dtype} {array.shape}"
            raise MarcError(f"the array {name} does not fit the configuration", got=came)
    for name in ("prediction", "base_prediction", "pseudo_label", "label"):
        if name in arrays and not ((arrays[name] >= 0) & (arrays[name] < n_classes)).all():
            raise MarcError(f"the array {name} names classes that do not exist", got=n_classes)
    rows = np.arange(n_images)
    if "order" in arrays and not all((np.sort(order) == rows).all() for order in arrays["order"]):
        raise MarcError("the array order is no order of the images", got=n_images)
