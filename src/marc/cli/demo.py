"""`marc demo`: the main job from end to end on a stream that is drawn on the spot."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from marc.cli import console
from marc.errors import MarcError
from marc.packs import write_pack
from marc.synthetic import synthetic_stream


def demo(
    context: typer.Context,
    output: Path = typer.Option(Path("demo"), "-o", "--output", help="Folder for everything."),
) -> None:
    """Sweep, run and compare on a synthetic stream, in a few seconds.

    Example:  marc demo -o demo
    """
    pack = output / "synthetic.npz"
    console.heading("A synthetic stream: Gaussian features drawn from a seed, no real images.")
    console.say("Its numbers show what the commands do, not what MARC is worth.")
    if output.exists() and not output.is_dir():
        raise MarcError("this path is not a folder", got=output, hint="-o FOLDER")
    if not pack.exists():
        write_pack(synthetic_stream(), pack)
    source, good, bad = f"arrays/{pack}", output / "classes", output / "styles"
    chapters = {
        "The same memory, read in four spaces": ["sweep", source, "-o", output / "sweep"],
        "The space that repairs": ["run", source, "--space", "classes", "-o", good],
        "The space that ruins": ["run", source, "--space", "styles", "-o", bad],
        "Paired, image by image": ["compare", good, bad],
    }
    command = context.find_root().command
    for number, (title, words) in enumerate(chapters.items(), start=1):
        arguments = [str(word) for word in words]
        console.heading(f"\n{number}. {title}")
        console.say(f"$ marc {shlex.join(arguments)}\n")
        command.main(arguments, prog_name="marc", standalone_mode=False)
    console.say("\nYour own features: save them as a pack (README, 'Your own features'), then")
    console.say("$ marc sweep arrays/FILE.npz")
