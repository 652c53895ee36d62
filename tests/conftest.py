import pytest
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
