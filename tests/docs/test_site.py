"""The site builds without a warning, and every public name is in the API reference."""

import re
import shutil
import subprocess
import sys

import pytest
from helpers.repository import ROOT

import marc


def build(root, out):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-c", root / "docs"]
    return subprocess.run([*command, root, out], capture_output=True, text=True)


def test_every_public_name_is_in_the_api_reference_once():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^- `marc\.(\w+)`: ", page, flags=re.MULTILINE)) == marc.__all__


def test_the_site_builds_and_documents_every_public_name(tmp_path):
    pytest.importorskip("sphinx", reason="needs the extra docs")
    done = build(ROOT, tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "docs" / "api.html").read_text(encoding="utf-8")
    modules = {"geometry", "stats", "transforms"}
    assert [name for name in {*marc.__all__} - modules if f'id="marc.{name}"' not in page] == []
    assert "docs/index.html" in (tmp_path / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "dead", ["[x](nowhere.md)", "[x](protocol.md#nowhere)", "![x](images/nowhere.jpg)"]
)
def test_a_dead_link_anchor_or_picture_is_an_error(dead, tmp_path):
    pytest.importorskip("sphinx", reason="needs the extra docs")
    (tmp_path / "docs" / "static").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "conf.py", tmp_path / "docs")
    shutil.copy(ROOT / "docs" / "protocol.md", tmp_path / "docs")
    for name in ("site.css", "site.js"):
        (tmp_path / "docs" / "static" / name).write_text("")
    (tmp_path / "docs" / "index.md").write_text(f"# Site\n\n{dead}\n")
    assert "nowhere" in build(tmp_path, tmp_path / "out").stderr
