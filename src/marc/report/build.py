"""Write a report: open the folders, compute what they do not hold, and make one HTML file.

Template, style and script go into it, and figures as SVG: nothing outside is needed to read it.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from marc.errors import MarcError, instance, integer
from marc.files import whole_file, write_whole
from marc.replay.sweep import Sweep
from marc.report.answered import Answered
from marc.report.explorer import explore
from marc.report.figures import draw_figures, looks_of
from marc.report.finding import find
from marc.report.inputs import Inputs
from marc.report.map import draw_map
from marc.report.setting import Subject
from marc.report.stepped import Stepped
from marc.report.story import Story
from marc.report.style import drawing, page_svg
from marc.report.thumbnails import Pictures, pictures_of, thumbnails
from marc.report.voices import explore_voices
from marc.results.sweep import load_sweep
from marc.types import order_name

_ASSETS = Path(__file__).with_name("assets")
# one element of the page holds all scripts, in this order
_SCRIPTS = ("page.js", "voices.js", "figures.js", "map.js", "start.js")
_STYLES = ("page.css", "finding.css", "map.css", "print.css")
_GENERATOR = '<meta name="generator" content="marc report">'
_DIGEST = '<meta name="marc-report" content="{}">'
_HEAD = 4096  # characters in which a page says what it is
_FORMATS = ("svg", "pdf", "png")


@dataclass(frozen=True)
class Report:
    """A page that was written."""

    QUERIES: ClassVar = 200
    """Queries in the explorer, unless one asks for another number."""

    path: Path
    n_bytes: int
    was_there: bool
    """Whether the same page lay there already, so that nothing was done."""
    story: Story | None
    """What the page says first; None if nothing was done."""
    figures: tuple[Path, ...] = ()
    """Files of the figures, where they were asked for."""


def report(
    *folders: str | Path,
    output: str | Path = "report.html",
    against: str | None = None,
    figures: str | Path | None = None,
    n_queries: int = Report.QUERIES,
    held_out: Sequence[str | Path] = (),
    pictures: Pictures | None = None,
    force: bool = False,
    progress: Callable[[str], None] = lambda step: None,
) -> Report:
    """One self-contained HTML page of a finished run, a finished sweep, or both.

    Args:
        folders: a run folder and/or a sweep folder of the same stream.
        output: the file to write.
        against: the space shown beside the run's; by default that of lowest pseudo-purity.
        figures: a folder for every figure as SVG, PDF and PNG.
        n_queries: how many queries the explorer lists at most.
        held_out: sweep folders of other streams on which a weight is chosen.
        pictures: the picture of a stored row; by default found by the type of the source.
        force: replace another report that lies there.
        progress: called with what is being done.
    """
    integer("queries", n_queries, 1)
    for path in (*folders, output):
        instance("a path", path, str, os.PathLike)
    output = Path(output)
    progress("opening the stream again")
    inputs = Inputs.read([Path(folder) for folder in folders])
    others = [load_sweep(folder) for folder in held_out]
    options = {"against": against, "queries": n_queries, "pictures": pictures is not None}
    digest = inputs.digest(options, others)
    if _is_there(output, digest, force=force) and figures is None:
        return Report(output, output.stat().st_size, was_there=True, story=None)
    subject = _subject_of(inputs, against, others, progress)
    picture = pictures_of(inputs.stream, inputs.source) if pictures is None else pictures
    story = Story.of(subject, others)
    progress("figures")
    placed, files = _place_figures(subject, story, others, figures)
    progress("query by query")
    content, data = _describe(subject, story, picture, n_queries)
    text = _render({**content, "figures": placed}, data, digest)
    write_whole(output, text.encode())
    return Report(output, output.stat().st_size, False, story, tuple(files))


def _subject_of(
    inputs: Inputs, against: str | None, others: Sequence[Sweep], progress: Callable[[str], None]
) -> Subject | Stepped:
    """A memory beside all its weights, capacities and spaces; or a run of any method, alone."""
    if not inputs.at_one_weight:
        if against is not None or others:
            raise MarcError(
                "only a run of marc at one weight is shown beside other spaces and weights",
                got=f"--against {against}" if against else "--held-out",
                hint="the run alone",
            )
        return Stepped.of(inputs, progress)
    subject = Subject.of(inputs, against, progress)
    if others and (sweep := subject.sweep) is not None:  # refuse a held-out choice that is not one
        grid = sweep.capacities, sweep.weights
        Sweep.check_sources(others, sweep.images, *grid, [subject.method.space])
    return subject


def _place_figures(
    subject: Subject | Stepped, story: Story, others: Sequence[Sweep], folder: str | Path | None
) -> tuple[list[dict[str, Any]], list[Path]]:
    """Every figure that the subject allows, on the page and, if asked for, as files."""
    placed = []
    with drawing():
        drawn = draw_figures(subject, others)
        files = _save_figures({n: figure for n, figure, _ in drawn}, Path(folder)) if folder else []
        for name, figure, table in drawn:
            title, caption = story.captions[name]
            texts = {"name": name, "title": title, "caption": caption}
            alt = f"{title}. {caption} The numbers are in the table below."
            placed.append({**texts, "svg": _inline_svg(figure, name), "table": table, "alt": alt})
    return placed, files


def _describe(
    subject: Subject | Stepped, story: Story, picture: Pictures, n_queries: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the template needs, and the data of the explorer."""
    if isinstance(subject, Subject):
        explored = explore(subject, n_queries)
    else:
        explored = explore_voices(subject, n_queries)
    images = thumbnails(picture, explored.rows)
    features = subject.stream.features
    data = {
        "length": len(subject.stream),
        **explored.data,
        "classes": features.class_names,
        "ids": {row: features.ids[row] for row in explored.rows},
        "pictures": images,
        "queries": explored.queries,
        "looks": list(looks_of(subject)),
        "map": draw_map(subject, [each["row"] for each in explored.queries], picture, images),
    }
    samples = [
        {
            "name": kind,
            "mark": kind if kind in explored.kinds else "same",
            "total": subject.mean_count(kind),
            "images": [_sample(subject, int(row), images.get(int(row))) for row in rows],
        }
        for kind, rows in explored.samples.items()
    ]
    content = {
        "story": story,
        "finding": find(subject, explored.queries, images),
        "stream": subject.stream,
        "n_orders": len(subject.seeds),
        "order": order_name(subject.seeds[0], subject.stream.ordering.name),
        "samples": samples,
        "introduction": explored.introduction,
        "kinds": [{"name": name, "listed": listed} for name, listed in explored.kinds.items()],
        "kinds_explained": explored.explanation,
        "stops": explored.data.get("stops"),
        "weight": f"{subject.weight:.4g}" if isinstance(subject, Subject) else None,
        "map": data["map"],
        "made": subject.inputs.record(),
    }
    return content, data


def _sample(subject: Answered, row: int, picture: str | None) -> dict[str, Any]:
    names = subject.stream.features.class_names
    return {
        "row": row,
        "id": subject.stream.features.ids[row],
        "picture": picture,
        "truth": None if subject.labels is None else names[subject.labels[row]],
        "base": names[subject.base_prediction[row]],
        "adapted": names[subject.prediction[row]],
    }


def _render(content: Mapping[str, Any], data: Mapping[str, Any], digest: str) -> str:
    """The page as text. All of `content` is escaped, except the figures, which are ours."""
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_ASSETS), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    script, css = (_joined(names) for names in (_SCRIPTS, _STYLES))
    figures = [{**figure, "svg": Markup(figure["svg"])} for figure in content["figures"]]
    text = environment.get_template("page.html").render(
        **{**content, "figures": figures},
        headline=_headline(content["story"].title),
        css=Markup(css),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=Markup(_as_script_data(data)),
        digest=digest,
        version=version("marc-clip"),
    )
    encoded = text.encode("utf-8", "replace")  # names of files may have no encoding
    return encoded.decode().replace("@@SIZE@@", f"{len(encoded) / 1e6:.2f} MB", 1)


def _headline(title: str) -> str:
    """A title that breaks before or after the name in it, and not at a hyphen of the name."""
    from markupsafe import Markup, escape

    before, opening, rest = title.partition("“")
    name, closing, after = rest.rpartition("”")
    if not opening or not closing:
        return escape(title)
    return Markup('{}<span class="whole">“{}”</span>{}').format(before, name, after)


def _joined(names: Sequence[str]) -> str:
    return "\n".join((_ASSETS / name).read_text("utf-8") for name in names)


def _as_script_data(data: Mapping[str, Any]) -> str:
    """JSON that can stand in a script element: no text in it can end the element.

    Numbers are written so that they are read back as the same float64.
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _is_there(path: Path, digest: str, *, force: bool) -> bool:
    """Whether this very page is there already; refuses to replace anything else unasked."""
    if not path.exists():
        return False
    if path.is_dir():
        raise MarcError("a report is one file", got=f"{path}: a folder", hint=f"-o {path}.html")
    if not path.is_file():
        raise MarcError("a report is a plain file", got=path, hint="-o report.html")
    with path.open("rb") as file:
        head = file.read(_HEAD).decode("utf-8", errors="replace")
    if _GENERATOR not in head:
        problem = "this file is not a report of marc, so it is left alone"
        raise MarcError(problem, got=path, hint="-o ANOTHER.html")
    there = _DIGEST.format(digest) in head
    if not there and not force:
        hint = "another -o FILE, or --force to replace it"
        raise MarcError("this file holds another report", got=path, hint=hint)
    return there and not force


def _inline_svg(figure: Any, name: str) -> str:
    """A figure as an SVG element of a page; its text stays text."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return page_svg(buffer.getvalue(), name)


def _save_figures(figures: Mapping[str, Any], folder: Path) -> list[Path]:
    """Every figure as SVG, PDF and PNG; the paths that were written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in figures.items():
        for kind in _FORMATS:
            path = folder / f"{name}.{kind}"
            date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
            background = {"facecolor": "white"} if kind == "png" else {}
            with whole_file(path) as file:
                figure.savefig(file, format=kind, metadata=date, **background)
            written.append(path)
    return written
