"""Pages to open in a browser."""

import pytest
from helpers.report_pages import make_results

import marc


@pytest.fixture(scope="session")
def pages_to_open(tmp_path_factory):
    """A page with labels, one without, and those of a method that reads several spaces."""
    folder = tmp_path_factory.mktemp("browser")
    results = make_results(folder)
    return {
        name: marc.report(results[name], output=folder / f"{name}.html", n_queries=80).path
        for name in ("run", "unlabelled", "means", "tda")
    }
