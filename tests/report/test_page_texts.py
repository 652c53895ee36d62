"""The page as a file: made once, the same each time, and safe to embed data in."""

import numpy as np
import pytest
from helpers.commands import tree

import marc
from marc import MarcError
from marc.report.build import _as_script_data, _headline


def test_a_page_that_is_there_is_not_made_again(results, tmp_path):
    path = tmp_path / "page.html"
    first = marc.report(results["run"], output=path, n_queries=5)
    stamp = path.stat().st_mtime_ns
    again = marc.report(results["run"], output=path, n_queries=5)
    assert (first.was_there, again.was_there) == (False, True)
    assert path.stat().st_mtime_ns == stamp
    with pytest.raises(MarcError, match="another report"):
        marc.report(results["run"], output=path, n_queries=6)
    assert not marc.report(results["run"], output=path, n_queries=6, force=True).was_there
    assert set(tree(tmp_path)) == {"page.html"}


def test_the_same_inputs_give_the_same_bytes(results, tmp_path):
    for name in ("a", "b"):
        marc.report(results["run"], output=tmp_path / name, n_queries=5)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_script_data_cannot_end_its_element_and_keeps_every_number():
    import json

    value = {"name": "</script><!--&\u2028", "w": [0.1, float(np.float32(0.1)), 1e-300]}
    text = _as_script_data(value)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == value


def test_a_headline_keeps_the_name_in_it_whole():
    whole = '<span class="whole">“{}”</span>'
    assert _headline("Read in “a-b” gains") == f"Read in {whole.format('a-b')} gains"
    assert _headline("“<b>” loses") == f"{whole.format('&lt;b&gt;')} loses"
    assert _headline("“a” “b” & c") == f"{whole.format('a” “b')} &amp; c"
    assert _headline("<none>") == "&lt;none&gt;"
