"""Pages, and a browser to open them in."""

import shutil

import pytest
from helpers.browsers import BROWSERS, QUIET
from helpers.report_pages import make_results

import marc


@pytest.fixture(scope="session")
def browser():
    """Whatever Chromium or Chrome is installed; nothing is ever downloaded."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser on the path: {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def pages_to_open(tmp_path_factory):
    """A page with labels, one without, and those of a method that reads several spaces."""
    folder = tmp_path_factory.mktemp("browser")
    results = make_results(folder)
    return {
        name: marc.report(results[name], output=folder / f"{name}.html", n_queries=80).path
        for name in ("run", "unlabelled", "means", "tda")
    }
