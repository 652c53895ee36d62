"""What Prometheus reads, by its own parser."""

import math

import pytest
from helpers.asking import asking
from prometheus_client.parser import text_string_to_metric_families


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """Values by name and labels, after some requests to two memories."""
    with asking(tmp_path_factory.mktemp("served")) as ask:
        ask.make("a.b-c_D")
        ask.make("b", mode="canary")
        answers = [ask.step(image, "a.b-c_D").content for image in range(12)]
        ask.step(1, "a.b-c_D", dry_run=True)
        ask.step(1, "gone")
        ask("GET", "/nothing/at/all")
        answer = ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }
    assert not [name for name, value in values.items() if math.isnan(value)]
    return values, answers


def of(samples, name, **labels):
    return samples[0][(name, *sorted(labels.items()))]


def test_counts_of_a_memory(samples):
    answers, memory = samples[1], "a.b-c_D"
    assert of(samples, "marc_seq", memory=memory) == 12
    assert of(samples, "marc_durable_seq", memory=memory) == 12
    assert of(samples, "marc_n_seen", memory=memory) == 12
    assert of(samples, "marc_steps_total", memory=memory) == 12
    disagreements = sum(each["disagree"] for each in answers)
    assert of(samples, "marc_disagreements_total", memory=memory) == disagreements
    admitted = sum(each["stored"]["admitted"] for each in answers)
    assert of(samples, "marc_admitted_total", memory=memory) == admitted
    assert of(samples, "marc_seq", memory="b") == 0


def test_what_waits_and_how_long_writing_took(samples):
    for name in ("queue_length", "oldest_age", "listeners"):
        assert of(samples, f"marc_{name}", memory="b") == 0
    assert 0 < of(samples, "marc_commit_seconds", memory="a.b-c_D") < 5


def test_states_and_modes_are_one_of_several(samples):
    for what, value in (("state", "ready"), ("mode", "canary")):
        rows = {dict(key[1:])[what]: number for key, number in samples[0].items()
                if key[0] == f"marc_{what}" and ("memory", "b") in key}  # fmt: skip
        assert sum(rows.values()) == 1
        assert rows[value] == 1


def test_requests_are_counted_by_route_and_not_by_address(samples):
    step = "/v1/memories/{m}/step"
    assert of(samples, "marc_requests_total", route=step, status="200") == 13
    assert of(samples, "marc_requests_total", route=step, status="404") == 1
    assert of(samples, "marc_requests_total", route="other", status="404") == 1
    assert of(samples, "marc_step_seconds_count") == 13
    assert of(samples, "marc_step_seconds_bucket", le="+Inf") == 13
    assert 0 < of(samples, "marc_step_seconds_sum") < 30
