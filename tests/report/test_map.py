"""The map: which images are on it, and what the run did to them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from marc.report.explorer import explore
from marc.report.inputs import Inputs
from marc.report.map import draw_map, sample_rows
from marc.report.setting import Subject


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 2**32 - 1))
def test_a_sample_has_those_listed_and_others_spread_over_the_stream(size, limit, seed):
    draw = np.random.default_rng(seed)
    order = draw.permutation(size)
    listed = draw.permutation(size)[: draw.integers(size + 1)].tolist()
    rows = sample_rows(order, listed, limit).tolist()
    assert len(rows) == len(set(rows)) == min(size, limit)
    assert set(listed[:limit]) <= set(rows)
    place = {row: time for time, row in enumerate(order.tolist())}
    assert rows == sorted(rows, key=place.get)
    rest = [row for row in order.tolist() if row not in set(listed[:limit])]
    others = [rest.index(row) for row in rows if row not in set(listed[:limit])]
    gaps = np.diff([*others, len(rest)])
    assert len(gaps) == 0 or gaps.max() - gaps.min() <= 1


def test_the_map_says_what_the_run_did_to_each_image(results):
    subject = Subject.of(Inputs.read([results["run"]]), None, lambda step: None)
    listed = [query["row"] for query in explore(subject, 20).queries]
    drawn = draw_map(subject, listed, lambda row: None, {row: "" for row in listed})
    assert sorted(drawn["rows"]) == list(range(160))
    assert set(drawn["ids"]) == set(range(160)) - set(listed)
    assert tuple(drawn["planes"]) == subject.shown_spaces
    for row, kind in zip(drawn["rows"], drawn["kinds"], strict=True):
        before, after = subject.base_prediction[row], subject.prediction[row]
        truth = subject.labels[row]
        expected = 0 if before == after else 2 if after == truth else 3 if before == truth else 1
        assert kind == expected
    assert all(0 <= each <= 1000 for plane in drawn["planes"].values() for each in plane)
    assert "all 160 images" in drawn["text"]
