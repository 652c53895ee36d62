"""What the pages print is what their commands print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.repository import ROOT

PAGES = ("finding", "own-pictures")


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def commands(text):
    """Each command of a page that is shown with what it prints."""
    shown = [block for block in blocks(text, "console") if block.startswith("$ ")]
    parts = [part for block in shown for part in re.split(r"^\$ ", block, flags=re.MULTILINE)]
    return [tuple(part.split("\n", 1)) for part in parts if part]


@pytest.mark.parametrize("page", PAGES)
def test_a_command_prints_what_the_page_shows(page, tmp_path):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    options = {"cwd": tmp_path, "env": {**os.environ, "PATH": path}, "text": True, "check": True}
    if "from PIL" in text:  # the block that draws what the command is given
        [draws] = [each for each in blocks(text, "python") if "from PIL" in each]
        subprocess.run([sys.executable, "-c", draws], **options)
    assert commands(text)
    for command, printed in commands(text):
        done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, **options)
        assert done.stdout == printed
