"""`marc send`: a source in, to a memory of a server, and what became of it."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import typer

from marc.cli import console
from marc.cli._options import CLASS_NAMES, ROOT, class_list
from marc.cli.console import count
from marc.errors import MarcError
from marc.files import read_text, user_path
from marc.serve.client.client import Client
from marc.serve.client.sending import Sent, reasons

_KEY = "MARC_KEY"
_HERE = ("127.0.0.1", "localhost", "::1")
_WHO = {
    "off": "the base answers, and nothing is learned",
    "shadow": "the base answers; the memory learns and is judged",
    "canary": "the memory answers a fraction of the images",
    "live": "the memory answers",
}


def send(
    source: str = typer.Argument(help="A folder of pictures, or features: FILE.npz, lab/NAME, ..."),
    to: str = typer.Option(..., help="The server: http://127.0.0.1:8123."),
    memory: str = typer.Option(..., help="Its memory; made, in shadow mode, if it is not there."),
    key_file: str = typer.Option("", help=f"The file with the key; {_KEY} by default."),
    classes: str = typer.Option("", help='What may be on pictures: "cat,dog,coffee cup".'),
    class_names: str = CLASS_NAMES,
    root: str = ROOT,
    labels: bool = typer.Option(
        False, "--labels", help="Send the labels of the source after all steps, for the judge."
    ),
    neighbours: int = typer.Option(
        0, help="The nearest remembered images of each space to ask for, 0 to 32."
    ),
    limit: int | None = typer.Option(None, help="Send the first so many images."),
    rate: float | None = typer.Option(None, help="Images a second, at most."),
    prefix: str = typer.Option("", help="Before each name, where two sources have the same."),
    output: str = typer.Option("", "-o", "--output", help="A table of all answers, .csv."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Send every image of a source to a memory of `marc serve`, in order, each exactly once.

    Stopped at any moment, the same command goes on: an image is known by its name.

    Example:  marc send photos/ --to http://127.0.0.1:8123 --memory cam-1 --classes "cat,dog"

    Features:  marc send lab/sketch-12 --to http://127.0.0.1:8123 --memory lab --labels
    """
    client = Client(to, _key(key_file, to))
    come = (0, 0)
    with console.notes(), console.progress() as bar:

        def report(what: str, done: int, total: int) -> None:
            nonlocal come
            come = (done, total) if what == "sending" else come
            bar.report(what, done, total)

        try:
            sent = client.send(
                source,
                memory,
                classes=class_list(classes, class_names),
                root=root,
                labels=labels,
                neighbours=neighbours,
                limit=limit,
                rate=rate,
                prefix=prefix,
                output=output,
                on_progress=report,
            )
        except KeyboardInterrupt:
            console.say("{:,} of {:,} sent".format(*come), err=True)
            raise
    if json:
        console.as_json("send", {**sent.to_dict(), "output": output or None})
    else:
        _show(sent, to)
        if output:
            console.done(output)
    if sent.refused and not sent.replies:
        raise typer.Exit(1)


def _key(key_file: str, url: str) -> str | None:
    """The key of a file or of the environment; a command line is for everyone to see."""
    key = read_text(user_path(key_file), "key").strip() if key_file else os.environ.get(_KEY)
    if key_file and (not key or len(key.splitlines()) != 1):
        raise MarcError(
            "a file with a key has one line, the key",
            got=key_file,
            hint="what --new-key printed; the server's own file has digests alone",
        )
    parts = urlsplit(url)
    if key and parts.scheme == "http" and parts.hostname not in _HERE:
        console.note("the key goes over http, which others on the way can read; https hides it")
    return key or None


def _show(sent: Sent, url: str) -> None:
    made = ", made for it" if sent.created else ""
    console.say(f"{sent.memory} of {url}{made}", bold=True)
    for note in sent.notes:
        console.say(f"note: {note}")
    rows = {
        "answered": len(sent.replies),
        "answered before, not learned again": sent.n_repeated,
        "answers that the memory changed": sent.n_changed,
        "refused": len(sent.refused),
    }
    console.table(["images", ""], [[name, f"{n:,}"] for name, n in rows.items()])
    if sent.refused:
        console.say(f"refused: {reasons(sent.refused)}")
    console.say(f"mode {sent.mode}: {_WHO.get(sent.mode, '')}")
    if sent.labelled is not None:
        _show_labels(sent)


def _show_labels(sent: Sent) -> None:
    """What the labels say, with the counts that it rests on."""
    assert sent.labelled is not None
    if (accuracies := sent.accuracies) is not None:
        right, base = accuracies
        console.say(
            f"{count(len(sent.replies), 'image')} with a label: {100 * right:.2f} % right, without "
            f"memory {100 * base:.2f} %:\n{console.points(right - base)} points, settings fixed"
        )
    judgement = sent.labelled["judgement"]
    tally = judgement["labelled"]
    console.say(judgement["sentence"], bold=True)
    console.say(
        f"labelled disagreements: memory right {tally['won']:,}, base right {tally['lost']:,}, "
        f"neither {tally['neither']:,};\nlabelled agreements: {tally['agreements']:,}"
    )
    if unknown := len(sent.labelled["unknown"]):
        console.say(f"labels of images that the memory does not know any more: {unknown:,}")
