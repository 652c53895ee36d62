"""The description of the API: it is valid, needs no other host, and says what is answered."""

import re
from collections import Counter

import hypothesis
import pytest
import schemathesis
from helpers.asking import Asker, asking
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from marc.serve.web.access import new_key

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
"""Not `negative_data_rejection`: what a schema cannot say, such as one that fits the memory, is
refused, and no more is refused than what a body cannot mean."""


@schemathesis.serializer("application/x-ndjson")
def lines(_, value):
    """Some text, odd or not, as the lines of a body."""
    return value.encode("utf-8", "replace") if isinstance(value, str) else repr(value).encode()


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    key = new_key(folder / "keys.json", "me")
    with asking(folder / "data", key, key_file=folder / "keys.json") as asker:
        asker.make()
        asker.step(1)
        asker("POST", "/v1/memories/m/snapshot")
        yield asker


def test_the_description_names_every_part(ask):
    described = ask("GET", "/openapi.json").content
    assert described["openapi"].startswith("3.1")
    assert described["security"] == [{"key": []}]
    assert described["paths"]["/health"]["get"]["security"] == []
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            assert operation.get("description"), where
            assert any(200 <= int(status) < 300 for status in operation["responses"]), where
            for status, answer in operation["responses"].items():
                if int(status) >= 400 and not (path == "/ready" and status == "503"):
                    assert "application/problem+json" in answer["content"], (where, status)
    text = Asker(ask.url)("GET", "/openapi.json").content
    assert text == described  # without a key too


def test_every_reference_leads_somewhere(ask):
    described = ask("GET", "/openapi.json").content

    def references(value):
        if isinstance(value, dict):
            if "$ref" in value:
                yield value["$ref"]
            value = list(value.values())
        if isinstance(value, list):
            for each in value:
                yield from references(each)

    for reference in references(described):
        at = described
        for part in reference.removeprefix("#/").split("/"):
            at = at[part]


def test_the_page_of_the_description_needs_no_other_host(ask):
    nobody = Asker(ask.url)
    page = nobody("GET", "/docs").content.decode()
    addresses = re.findall(r"""(?:src=|href=|url: )["']([^"']+)""", page)
    assert len(addresses) >= 4
    for address in addresses:
        assert address.startswith("/"), address
        assert nobody("GET", address).status == 200, address


def test_no_request_of_any_form_surprises_the_server(ask):
    schema = schemathesis.openapi.from_url(
        f"{ask.url}/openapi.json", headers={"Authorization": f"Bearer {ask.key}"}
    )
    failures, seen = [], Counter()
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path.endswith("/events") or operation.path == "/openapi.json":
            continue  # events have no end

        @hypothesis.settings(
            max_examples=20,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.generate],
        )
        @hypothesis.given(case=strategy(operation))
        def one(case):
            is_second = seen.total() % 2 and case.method != "DELETE"
            if "m" in (case.path_parameters or {}) and is_second:
                case.path_parameters["m"] = "m"
            answer = case.call(headers={"Authorization": f"Bearer {ask.key}"})
            seen[answer.status_code] += 1
            case.validate_response(answer, checks=CHECKS)

        try:
            one()
        except Exception as failure:
            failures.append(f"{operation.label}: {failure}"[:1500])
    assert not failures, "\n\n".join(failures)
    assert seen.total() > 200
    assert {200, 400, 404, 422} <= seen.keys()
    assert ask("GET", "/v1/memories/m").status == 200


def strategy(operation):
    """Cases as the schema has them, and cases that it does not allow."""
    modes = schemathesis.GenerationMode
    return hypothesis.strategies.one_of(
        operation.as_strategy(generation_mode=modes.POSITIVE),
        operation.as_strategy(generation_mode=modes.NEGATIVE),
    )
