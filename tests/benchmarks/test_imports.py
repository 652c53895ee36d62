"""Every benchmark can be imported: what it measures is there under the name it uses."""

import importlib
import pkgutil

import pytest

import benchmarks


@pytest.mark.parametrize(
    "name", [each.name for each in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")]
)
def test_a_benchmark_can_be_imported(name):
    importlib.import_module(name)
