"""Tiny pictures, odd files and fake data set folders for tests."""

import io
import json
import struct
import zlib

import numpy as np
from PIL import Image


def pixels(seed=0, size=(12, 16)):
    """Random colours, (height, width, 3)."""
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)


def encoded(picture, kind="PNG", **options):
    """A PIL picture or an array as bytes of a file."""
    if isinstance(picture, np.ndarray):
        picture = Image.fromarray(picture)
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def photo(seed=0, kind="PNG", **options):
    """One small random picture as bytes; another seed gives other bytes."""
    return encoded(pixels(seed), kind, **options)


def draw(path, seed=0):
    """Write a small picture; the suffix says the kind."""
    kind = {".png": "PNG", ".webp": "WEBP", ".gif": "GIF"}.get(path.suffix.lower(), "JPEG")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(photo(seed, kind))
    return path


def tree(root, *paths):
    """Small pictures, each another one, at paths below a folder."""
    for seed, path in enumerate(paths):
        draw(root / path, seed)
    return root


def bomb(width=60000, height=60000):
    """A PNG of a few bytes whose header promises a great many pixels."""

    def chunk(name, body):
        return (
            struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * 100)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def turned(orientation=6, seed=0):
    """A photograph that its camera says to turn."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(pixels(seed), "JPEG", quality=95, exif=exif)


def moving(kind="GIF"):
    """A red frame, then a blue one."""
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    options = {"lossless": True} if kind == "WEBP" else {}
    return encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)


def odd_folder(root):
    """The folder that every reader of pictures meets one day."""
    files = {
        "plain.png": photo(1),
        "text.txt": b"not a picture",
        "text.jpg": b"not a picture either",
        "empty.jpg": b"",
        "truncated.jpg": photo(2, "JPEG")[:-200],
        "deep.png": encoded(np.arange(0, 65536, 256, dtype=np.uint16).reshape(16, 16)),
        "print.jpg": encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG"),
        "moving.gif": moving(),
        "turned.jpg": turned(),
        "bomb.png": bomb(),
        ".jpg": photo(3, "JPEG"),
        "._plain.png": b"left behind by another system",
    }
    root.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (root / name).write_bytes(data)
    return root


def write_split(path, names, *, per_class=2, suffix=".jpg", parts=("train", "val", "test")):
    """A CoOp split file for classes with these names, and what pictures it lists in all."""
    split = {
        part: [
            [f"{name}/{part}_{index}{suffix}", label, name]
            for label, name in enumerate(names)
            for index in range(per_class)
        ]
        for part in parts
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(split))
    return split
