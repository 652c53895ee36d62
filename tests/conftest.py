import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from helpers.browsers import BROWSERS, QUIET
from helpers.commands import make_sources
from helpers.report_pages import make_results

collect_ignore = ["helpers"]  # what tests share has no tests of its own


@pytest.fixture(scope="session")
def sources(tmp_path_factory):
    """Small packs to call the command line on, by name."""
    return make_sources(tmp_path_factory.mktemp("packs"))


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """Finished runs and sweeps to make reports of, by name."""
    return make_results(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def browser():
    """Whatever Chromium or Chrome is installed; nothing is ever downloaded.

    Of each module: while its driver runs, its thread has an event loop, and can start no other.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser on the path: {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def axe():
    """Rules of accessibility: `npm install axe-core`, or MARC_AXE=PATH/axe.min.js."""
    places = os.environ.get("MARC_AXE"), "node_modules/axe-core/axe.min.js"
    found = next((Path(place) for place in places if place and Path(place).is_file()), None)
    if found is None:
        pytest.skip("axe-core is neither at MARC_AXE nor in node_modules")
    return found.read_text("utf-8")


def pytest_terminal_summary(terminalreporter):
    """How many mutations were tried, from which seed on, and how they ended."""
    counts = {}
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "fuzz":
                target, first, n, ended = value
                counts.setdefault((target, first), Counter())[""] += n
                counts[target, first].update(ended)
    for (target, first), ended in sorted(counts.items()):
        words = ", ".join(f"{count:,} {word}" for word, count in ended.items() if word and count)
        terminalreporter.write_line(
            f"fuzz {target}: {ended['']:,} mutations (seeds from {first}): {words}"
        )
    if counts:
        total = sum(ended[""] for ended in counts.values())
        terminalreporter.write_line(f"fuzz: {total:,} mutations, none escaped")
