"""Geometry and answers as arrays, for the shelf of a study, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from marc.results.files import Arrays
from marc.scores import Int
from marc.spaces.geometry import Geometry, Hub, Measures
from marc.stats import Interval
from marc.types import Answers


def answers_to(answers: Answers) -> Arrays:
    """Arrays of the answers of one run; labels belong to the stream."""
    return {
        "predictions": answers.predictions,
        "base_predictions": answers.base_predictions,
        "order": answers.order,
        "chosen_names": np.array(list(answers.chosen), dtype=str),
        "chosen": np.array(list(answers.chosen.values()), dtype=np.float64),
    }


def answers_from(arrays: Mapping[str, Any], labels: Int) -> Answers:
    """The answers that `answers_to` was given."""
    names, values = arrays["chosen_names"].tolist(), arrays["chosen"].tolist()
    chosen = dict(zip(names, values, strict=True))
    answers = arrays["predictions"], arrays["base_predictions"]
    return Answers(*answers, labels, arrays["order"], chosen)


def geometry_to(geometry: Geometry) -> Arrays:
    """Arrays of the geometry of one labelled space."""
    measures = list(geometry.measures.values())
    return {
        "kappas": np.array(list(geometry.measures)),
        "purity": np.array([each.purity for each in measures]),
        "pseudo_purity": np.array([each.pseudo_purity for each in measures]),
        "antihub_fraction": np.array([each.antihub_fraction for each in measures]),
        "hub_skewness": np.array([each.hub_skewness for each in measures]),
        "per_class_purity": np.array(geometry.per_class_purity),
        "hubs": np.array(geometry.hubs),
        "counts": np.array([geometry.n_images, geometry.n_duplicates]),
        "recall": np.array(geometry.recall),
    }


def geometry_from(space: str, arrays: Mapping[str, Any]) -> Geometry:
    """The geometry that `geometry_to` was given."""
    n_images, n_duplicates = arrays["counts"].tolist()
    return Geometry(
        space=space,
        n_images=n_images,
        n_duplicates=n_duplicates,
        recall=float(arrays["recall"]),
        measures={
            kappa: Measures(
                n_neighbors=kappa,
                purity=Interval(*arrays["purity"][place].tolist()),
                pseudo_purity=Interval(*arrays["pseudo_purity"][place].tolist()),
                antihub_fraction=float(arrays["antihub_fraction"][place]),
                hub_skewness=float(arrays["hub_skewness"][place]),
            )
            for place, kappa in enumerate(arrays["kappas"].tolist())
        },
        per_class_purity=arrays["per_class_purity"],
        hubs=tuple(Hub(*hub) for hub in arrays["hubs"].tolist()),
    )
