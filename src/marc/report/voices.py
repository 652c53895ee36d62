"""The query explorer of any method as data: of each answer, who spoke for which class."""

from __future__ import annotations

from typing import Any

import numpy as np

from marc.class_means import ClassMeans
from marc.method import MARC
from marc.report.figures import looks_of
from marc.report.queries import (
    LOW_MARGIN,
    Explored,
    Sorted,
    explored,
    low_margin,
    outcomes,
)
from marc.report.stepped import Stepped
from marc.scores import Int

_NEAREST = 4
"""Earlier images that are shown beside a query, in each space."""
_DIGITS = 5  # of scores and evidence on the page
_EXPLANATION = (
    "Disagreement is the share of the weight that speaks for another class than the answer. Low "
    f"margin: the best two sums are among the closest {100 * LOW_MARGIN:.0f} % of the stream. "
    "The evidence for a class enters its sum multiplied by the weight. Bars start at the lowest "
    "value of any class, which changes no answer; ✓ marks the true class, where it is known."
)
_EARLIER = (
    "The pictures are the nearest earlier images of the stream in that space, among {}, each under "
    "the predictor’s answer to it."
)
_RECORD = "the most confident 16 of each class that the predictor answered{}"
_OWN_RECORD = "those that the memory held at that moment"


def explore_voices(subject: Stepped, limit: int) -> Explored:
    """Choose at most `limit` queries of the first order, and tell what each voice said of them."""
    order = subject.stream.order
    disagreement, margin = np.empty(len(order)), np.empty(len(order))
    disagreement[order] = [said.disagreement for said in subject.said]
    margin[order] = [said.margin for said in subject.said]
    kinds = {**outcomes(subject), "low margin": low_margin(margin)}
    changed = subject.prediction != subject.base_prediction
    images = Sorted(disagreement, kinds, changed, subject.time)
    apart = "; class means remember no single images" if subject.name == ClassMeans.name else ""
    among = _OWN_RECORD if subject.name == MARC.name else _RECORD.format(apart)
    earlier = f" {_EARLIER.format(among)}" if subject.spaces else ""
    looks = looks_of(subject)
    return explored(
        subject,
        images,
        limit,
        lambda rows: _queries(subject, images, rows),
        introduction="An image is answered with what the stream showed before it. Here is who said "
        "what: the evidence of each part of the memory, its weight at that moment, and the sum.",
        rest="on which most of the weight speaks for another class",
        explanation=_EXPLANATION + earlier,
        data={
            "voices": [
                {
                    "name": voice,
                    "color": looks[voice].page_color,
                    "glyph": looks[voice].glyph,
                    "space": voice in subject.spaces,
                }
                for voice in subject.voices
            ],
            "images": _images(subject),
        },
    )


def _images(subject: Stepped) -> list[list[int]]:
    """Of each stored row: the predictor's answer, when it arrived, and its label if known."""
    known = [subject.base_prediction, subject.time]
    known += [] if subject.labels is None else [subject.labels]
    return [each.tolist() for each in known]


def _queries(subject: Stepped, images: Sorted, rows: Int) -> list[dict[str, Any]]:
    near = {v: _nearest_earlier(subject, space, rows) for v, space in subject.spaces.items()}
    queries = []
    for place, row in enumerate(rows.tolist()):
        time = int(images.time[row])
        said = subject.said[time]
        nothing = np.zeros(len(said.classes) + 1)  # a voice that is silent here
        queries.append(
            {
                "row": row,
                "time": time,
                "truth": None if subject.labels is None else int(subject.labels[row]),
                "base": int(subject.base_prediction[row]),
                "adapted": int(subject.prediction[row]),
                "disagreement": round(said.disagreement, 3),
                "kinds": [name for name, mask in images.kinds.items() if mask[row]],
                "classes": said.classes,
                "constant": said.base.round(_DIGITS).tolist(),
                "evidence": [
                    said.evidence.get(voice, nothing).round(_DIGITS).tolist()
                    for voice in subject.voices
                ],
                "weights": [
                    round(float(said.weights.get(voice, 0.0)), _DIGITS) for voice in subject.voices
                ],
                "entries": [near[v][place] if v in near else [] for v in subject.voices],
            }
        )
    return queries


def _nearest_earlier(subject: Stepped, space: str, rows: Int) -> list[list[dict[str, Any]]]:
    """The nearest remembered images of each of some queries, nearest first."""
    found = subject.remembered.nearest(space, subject.time[rows], _NEAREST)
    return [
        [
            {"row": item, "similarity": round(cosine, 3)}
            for item, cosine in zip(items, cosines, strict=True)
            if item >= 0
        ]
        for items, cosines in zip(*map(np.ndarray.tolist, found), strict=True)
    ]
