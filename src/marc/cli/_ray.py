"""`--ray`: work that is spread over workers of a cluster."""

from __future__ import annotations

import typer

from marc.embed.cluster import check_workers
from marc.errors import MarcError

RAY = typer.Option(
    None,
    "--ray",
    help="Spread the work over so many Ray workers; alone, one a machine of the cluster, or two.",
)


def read_workers(ray: str | None, *, dry_run: bool) -> int | None:
    """The number of workers; what cannot be is refused before work begins."""
    if ray is None:
        return None
    text = ray or "0"
    n_workers = check_workers(int(text) if text.removeprefix("-").isdecimal() else text)
    if dry_run:
        raise MarcError(
            "--dry-run computes nothing that could be spread",
            got="--ray --dry-run",
            hint="one of the two",
        )
    return n_workers
