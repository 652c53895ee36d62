"""`marc serve`: memories behind an address, and what belongs to their folder and keys."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import typer

from marc.cli import console
from marc.cli._options import DEVICE, OFFLINE, WEIGHTS
from marc.errors import MarcError

_DATA, _DEMO_DATA = "served", "demo/served"


def serve(
    data: str = typer.Option("", help="The folder of the memories; 'served' by default."),
    host: str = typer.Option("127.0.0.1", help="The address; another machine's way in needs keys."),
    port: int = typer.Option(8123, help="0 takes one that is free."),
    durability: str = typer.Option(
        "process", help="What outlives what: process (kill -9), or power (a loss of power)."
    ),
    key_file: str = typer.Option("", help="Ask for a key of this file."),
    new_key: str = typer.Option("", help="Add a key of this name to the file, print it, and stop."),
    scope: str = typer.Option("admin", help="Of a new key: read, write or admin."),
    memories: list[str] = typer.Option(["*"], help="Of a new key: names, such as 'cam-*'."),
    steps_per_second: int | None = typer.Option(None, help="Of a new key: its quota."),
    predictor: str = typer.Option("", help="A zero-shot classifier, so that pictures are taken."),
    encoder: list[str] = typer.Option([], help="Encoders of the spaces of those pictures."),
    prompts: list[str] = typer.Option([], help="Prompt sets by name or file, pooled."),
    weights: list[str] = WEIGHTS,
    offline: bool = OFFLINE,
    device: str = DEVICE,
    workers: int = typer.Option(1, help="Processes that decode pictures."),
    quota: list[str] = typer.Option([], help="NAME=NUMBER, such as memories=20."),
    log: str = typer.Option("auto", help="json or text, on stderr; text in a terminal."),
    trace: bool = typer.Option(False, "--trace", help="Report spans by OpenTelemetry."),
    ray: bool = typer.Option(False, "--ray", help="Spread the memories over workers of Ray."),
    shards: int = typer.Option(0, help="With --ray: how many; by default one for each machine."),
    ray_address: str = typer.Option("", help="With --ray: a cluster that is there."),
    demo: bool = typer.Option(False, "--demo", help="Stream drawn pictures into two memories."),
    check: str = typer.Option("", help="Look whether this folder of memories is whole, and stop."),
    json: bool = typer.Option(False, "--json", help="Print the address, or the result, as JSON."),
) -> None:
    """Serve memories: the base answer at once, the adapted one beside it, judged before it counts.

    Example:  marc serve --data served --port 8123

    With pictures:  marc serve --predictor clip-b16-text --encoder dinov2-b

    A live page to look at, on drawn pictures:  marc serve --demo

    The first key:  marc serve --key-file keys.json --new-key me --scope admin
    """
    if check:
        _check(check, json=json)
    elif new_key:
        key = {"scope": scope, "memories": memories, "steps_per_second": steps_per_second}
        _add_key(key_file, new_key, key, json=json)
    else:
        if demo:
            from marc.serve.demo import ENCODERS, PREDICTOR

            predictor, encoder = predictor or PREDICTOR, encoder or [*ENCODERS]
        options = {
            "host": host,
            "port": port,
            "durability": durability,
            "key_file": key_file or None,
            "log": log,
            "trace": trace,
            "verbose": console.is_verbose(),
        }
        models = {"prompts": prompts, "weights": weights, "offline": offline, "device": device}
        if (shards or ray_address) and not ray:
            raise MarcError("shards are processes of Ray", got="no --ray", hint="--ray --shards 2")
        if encoder and not predictor:
            raise MarcError(
                "encoders of pictures need a predictor", hint="--predictor clip-b16-text"
            )
        if demo and key_file:
            raise MarcError("the demo is for this machine alone, without keys", got="--key-file")
        _serve(
            data or (_DEMO_DATA if demo else _DATA),
            options,
            pictures=(predictor, encoder, {**models, "workers": workers}),
            quota=quota,
            cluster=(shards, ray_address) if ray else None,
            demo=demo,
            json=json,
        )


def _serve(
    data: str,
    options: dict[str, Any],
    *,
    pictures: tuple[str, list[str], dict[str, Any]],
    quota: list[str],
    cluster: tuple[int, str] | None,
    demo: bool,
    json: bool,
) -> None:
    import marc
    from marc.serve.web.quotas import quotas_of

    quotas = quotas_of(quota)
    if pictures[0]:
        from marc.serve.picture_worker import DecodingLimits
        from marc.serve.pictures import Pictures

        limits = DecodingLimits(bytes=quotas["image_bytes"])
        options["pictures"] = Pictures(pictures[0], pictures[1], **pictures[2], limits=limits)
    if cluster is not None:
        from marc.serve.cluster.shards import Shards

        options["hosts"] = Shards(cluster[0], cluster[1] or None)
    stopping = threading.Event()

    def on_ready(url: str) -> None:
        if json:
            console.as_json("serve", {"url": url, "data": str(Path(data).absolute())})
        else:
            console.say(f"the memories of {data} are at {url}", always=True)
            console.say(f"live page: {url}/   interface: {url}/docs\nstop: Ctrl-C")
        if demo:
            from marc.serve.demo import stream_beside

            run = threading.Thread(target=stream_beside, args=(url, stopping.is_set), daemon=True)
            run.start()

    try:
        marc.serve(data, quotas=quotas, on_ready=on_ready, on_stop=stopping.set, **options)
    finally:
        stopping.set()
    console.say("stopped; every memory is on disk", err=json)


def _add_key(path: str, name: str, key: dict[str, Any], *, json: bool) -> None:
    from marc.serve.web.access import new_key

    if not path:
        raise MarcError("a new key needs a file", hint="--key-file keys.json --new-key me")
    text = new_key(path, name, **key)
    if json:
        console.as_json("key", {"name": name, "key": text, "file": path, **key})
    else:
        console.say(text, always=True)
        console.say(
            f"this is the key {name!r}; it is shown once, and {path} has its digest alone",
            err=True,
        )


def _check(folder: str, *, json: bool) -> None:
    from marc.serve.check import check_data

    report = check_data(folder)
    if json:
        console.as_json("check-served", report.to_dict())
    else:
        _show(report)
    if report.problems:
        raise typer.Exit(1)


def _show(report: Any) -> None:
    columns = ["memory", "state", "steps", "snapshot at", "log", "opens in"]
    rows = [each.cells() for each in report.memories]
    console.table(columns, rows)
    for each in report.memories:
        if each.problem:
            console.say(f"{each.name}: {each.problem}")
    if any(each.state == "open" for each in report.memories):
        console.say("what a server has open is read once it has stopped")
    more = (
        "" if report.has_wal_fix else ": two connections could damage a log; a server has only one"
    )
    console.say(f"SQLite {report.sqlite}{more}")
