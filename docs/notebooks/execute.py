"""Run the notebooks of this folder, and keep what they print: `make notebooks`."""

import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).parent


def executed(path: Path, folder: str | os.PathLike[str]) -> NotebookNode:
    """The notebook after a run in an empty folder, with its text outputs alone."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    notebook.metadata = {"language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [_text(each) for each in cell.outputs]
    return notebook


def _text(output: NotebookNode) -> NotebookNode:
    if "data" in output:  # a table would change with the fonts and colours of a version
        output.data = {"text/plain": output.data["text/plain"]}
    return output


if __name__ == "__main__":
    for each in sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as empty:
            nbformat.write(executed(each, empty), each)
