"""A page with the pictures of an audit, for whoever labels them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from marc.errors import MarcError
from marc.files import write_whole
from marc.report.thumbnails import pictures_of, thumbnails
from marc.results.audit import Disagreement
from marc.results.folder import Stored
from marc.sources import load_stream

_GENERATOR = b'<meta name="generator" content="marc judge">'


def write_audit_page(run: Path, drawn: Sequence[Disagreement], table: Path) -> Path | None:
    """Write a page beside the audit in `table`; None if no picture can be opened here."""
    from jinja2 import Environment, FileSystemLoader

    path = table.with_suffix(".html")
    refuse_foreign_page(path)
    images = _pictures(run, drawn)
    if not images:
        path.unlink(missing_ok=True)  # of an earlier audit
        return None
    rows = [
        {"id": each.id, "answers": each.blind, "picture": images.get(each.row)} for each in drawn
    ]
    assets = FileSystemLoader(Path(__file__).with_name("assets"))
    template = Environment(loader=assets, autoescape=True).get_template("audit.html")
    text = template.render(rows=rows, table=table.name)
    write_whole(path, text.encode("utf-8", "replace"))
    return path


def refuse_foreign_page(path: Path) -> None:
    """Leave a page alone that is not of an audit."""
    if path.exists() and not (path.is_file() and _GENERATOR in path.read_bytes()):
        problem = "this page is not of an audit, so it is left alone"
        raise MarcError(problem, got=path, hint="-o ANOTHER.csv")


def _pictures(run: Path, drawn: Sequence[Disagreement]) -> dict[int, str]:
    """Small copies of the pictures by row; none if the source is gone or of other images."""
    config = Stored.numbers(run, "run")[0]
    try:
        stream = load_stream(config["source"])
    except MarcError:
        return {}
    if stream.fingerprint["ids"] != config["fingerprint"]["ids"]:
        return {}
    return thumbnails(pictures_of(stream, config["source"]), [each.row for each in drawn])
