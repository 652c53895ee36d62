import pytest
from commands import make_sources


@pytest.fixture(scope="session")
def sources(tmp_path_factory):
    """Small packs to call the command line on, by name."""
    return make_sources(tmp_path_factory.mktemp("packs"))
