"""The work folder: finished weights, the record of how they came about, the log, the bundle.

A file appears complete or not at all, so a training that was killed at any moment goes on with
the encoder that it was at.
"""

from __future__ import annotations

import json
import platform
import shutil
import tarfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

LARGEST_BUNDLE = 14 * 2**20
"""Bytes of weights in one tar file; the frame of the archive comes on top."""


@dataclass(frozen=True)
class WorkFolder:
    """Everything that outlasts a call, under `root`."""

    root: Path
    started: float = field(default_factory=time.monotonic)

    def log(self, message: str) -> None:
        """Print with the seconds since the start, and keep."""
        line = f"[{time.monotonic() - self.started:6.1f}] {message}"
        print(line, flush=True)
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "train.log").open("a") as file:
            file.write(line + "\n")

    def weights(self, name: str) -> Path:
        """Where an encoder's weights are, or will be."""
        return self.root / "weights" / f"{name}.safetensors"

    def load(self, name: str) -> dict[str, Tensor]:
        """The saved parameters of an encoder."""
        return load_file(self.weights(name))

    def record(self) -> dict[str, Any]:
        """What is known about the finished encoders."""
        path = self.root / "record.json"
        return json.loads(path.read_text()) if path.exists() else {"encoders": {}}

    def save(self, name: str, parameters: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Keep a finished encoder: first its weights, then the record that makes it count."""
        path = self.weights(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        save_file(parameters, partial)
        partial.replace(path)
        record = self.record()
        record["python"] = platform.python_version()
        record["torch"] = torch.__version__
        record["encoders"][name] = facts
        partial = self.root / "record.partial"
        partial.write_text(json.dumps(record, indent=1) + "\n")
        partial.replace(self.root / "record.json")

    def bundle(self, target: Path) -> None:
        """Put record, log and weights into `target`, the weights in a few archives."""
        target.mkdir(parents=True, exist_ok=True)
        for name in ("record.json", "train.log"):
            if (self.root / name).exists():
                shutil.copy(self.root / name, target / name)
        for number, members in enumerate(self._archives(), start=1):
            with tarfile.open(target / f"weights-{number}.tar", "w") as archive:
                for path in members:
                    archive.add(path, arcname=f"weights/{path.name}")

    def _archives(self) -> list[list[Path]]:
        """The weights in as few groups as fit: the largest first, each where there is room."""
        groups: list[list[Path]] = []
        found = (self.root / "weights").glob("*.safetensors")
        for path in sorted(found, key=lambda path: (-path.stat().st_size, path.name)):
            room = (g for g in groups if _size([*g, path]) <= LARGEST_BUNDLE)
            group = next(room, None)
            if group is None:
                groups.append([path])
            else:
                group.append(path)
        return groups


def _size(paths: list[Path]) -> int:
    return sum(path.stat().st_size for path in paths)
