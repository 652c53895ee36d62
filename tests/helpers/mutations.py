"""Files changed at random: as a disk damages them, and as a person who means harm would."""

import io
import json
import os
import zipfile

import numpy as np

WORDS = [
    *(None, True, False, 0, -1, 1, 0.5, -5.0, 2**31, 2**63, 10**24, 1e308, float("nan")),
    *("", "x", "1", "=1+1", "\x1b[31m", "é", "../..", "/dev/zero", "a" * 10_000, [], {}, [[]]),
    *([None], {"a": 1}, [1, 2, 3]),
]
"""Values that stand where others should."""
SPELLED = ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, '"\\ud800"', "NaN", "-Infinity", "1e999"]
"""Text in place of a value that is no JSON, or should be none."""


def damage(content, draw):
    """Bytes that were changed in one place, and how."""
    place = int(draw.integers(len(content))) if content else 0
    size = int(draw.integers(1, 64))
    kind = str(draw.choice(["bit", "bit", "cut", "zeros", "insert", "noise", "repeat", "empty"]))
    noise = draw.integers(256, size=size, dtype=np.uint8).tobytes()
    if kind == "bit" and content:
        changed = bytearray(content)
        changed[place] ^= 1 << int(draw.integers(8))
        return bytes(changed), f"bit of byte {place}"
    whole = {
        "cut": content[:place],
        "zeros": content[:place] + bytes(size) + content[place + size :],
        "insert": content[:place] + noise + content[place:],
        "noise": content[:place] + noise + content[place + size :],
        "repeat": content[:place] + content[max(0, place - size) :],
    }
    return whole.get(kind, b""), f"{kind} at {place}"


def edit_json(content, draw):
    """JSON with another value in one place, or a name less or more, and how."""
    value = json.loads(content)
    places = list(_places(value))
    if not places:
        return damage(content, draw)
    holder, key = places[int(draw.integers(len(places)))]
    kind = str(draw.choice(["replace", "replace", "spell", "remove", "add"]))
    mark = "@@here@@"
    if kind == "remove":
        del holder[key]
    elif kind == "add" and isinstance(holder, dict):
        holder[f"{key}2"] = holder[key]
    elif kind == "spell":
        holder[key] = mark
    else:
        holder[key] = WORDS[int(draw.integers(len(WORDS)))]
    text = json.dumps(value, indent=2)
    spelled = SPELLED[int(draw.integers(len(SPELLED)))]
    return text.replace(f'"{mark}"', spelled).encode(), f"{kind} of {key}"


def _places(value):
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in list(entries):
        yield value, key
        if isinstance(each, dict | list):
            yield from _places(each)


def edit_lines(content, draw):
    """Text with one cell of a line replaced, a line twice, or lines in another order, and how."""
    lines = content.decode().splitlines()
    place = int(draw.integers(len(lines)))
    kind = str(draw.choice(["cell", "cell", "repeat", "shuffle", "remove", "bytes"]))
    if kind == "cell":
        word = WORDS[int(draw.integers(len(WORDS)))]
        parts = lines[place].replace("=", ",").split(",")
        old = parts[int(draw.integers(len(parts)))].strip()
        new = str(word) if draw.integers(2) else json.dumps(word)
        lines[place] = lines[place].replace(old, new, 1) if old else new
    elif kind == "repeat":
        lines.insert(place, lines[place])
    elif kind == "shuffle":
        draw.shuffle(lines)
    elif kind == "remove":
        del lines[place]
    raw = "\n".join(lines).encode(errors="surrogatepass")
    return raw + (b"\xff\xfe\x00" if kind == "bytes" else b""), f"{kind} in line {place + 1}"


def edit_arrays(content, draw):
    """An archive of arrays with one that is not what it was, and how."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    name = str(draw.choice(sorted(arrays)))
    edits = list(_EDITS)
    kind = edits[int(draw.integers(len(edits)))]
    arrays = _EDITS[kind](arrays, name, draw)
    made = io.BytesIO()
    if kind == "objects":
        np.savez(made, allow_pickle=True, **arrays)
    else:
        np.savez(made, allow_pickle=False, **arrays)
    if kind == "claim":
        return _claim(made.getvalue(), name), f"claim of {name}"
    return made.getvalue(), f"{kind} of {name}"


def _set(value):
    def edit(arrays, name, draw):
        array = np.array(arrays[name])
        if array.size:
            place = np.unravel_index(int(draw.integers(array.size)), array.shape)
            with np.errstate(all="ignore"):
                array[place] = np.asarray(value).astype(array.dtype)
        return {**arrays, name: array}

    return edit


_EDITS = {
    "nan": lambda arrays, name, draw: (
        _set(np.nan)(arrays, name, draw) if arrays[name].dtype.kind == "f" else arrays
    ),
    "thousand": _set(1000),
    "minus": _set(-1),
    "text": lambda arrays, name, draw: {**arrays, name: arrays[name].astype(str)},
    "bytes": lambda arrays, name, draw: {**arrays, name: np.full(3, b"\xff\xfe")},
    "half": lambda arrays, name, draw: (
        {**arrays, name: arrays[name][..., :1]}
        if arrays[name].ndim
        else {**arrays, name: arrays[name][None]}
    ),
    "fewer": lambda arrays, name, draw: {**arrays, name: np.atleast_1d(arrays[name])[:-1]},
    "none": lambda arrays, name, draw: {**arrays, name: np.atleast_1d(arrays[name])[:0]},
    "type": lambda arrays, name, draw: {**arrays, name: np.zeros(arrays[name].shape, "c8")},
    "float": lambda arrays, name, draw: {**arrays, name: np.ones(arrays[name].shape, "f8") * 1e300},
    "gone": lambda arrays, name, draw: {k: v for k, v in arrays.items() if k != name},
    "more": lambda arrays, name, draw: {**arrays, f"{name}\x1b[31m": arrays[name]},
    "objects": lambda arrays, name, draw: {**arrays, name: np.array([{}, []], object)},
    "claim": lambda arrays, name, draw: arrays,
}


def _claim(content, name):
    """The header of an array tells of more bytes than any machine has."""
    header = io.BytesIO()
    facts = {"descr": "<f4", "fortran_order": False, "shape": (2**50,)}
    np.lib.format.write_array_header_1_0(header, facts)
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        for each in old.namelist():
            new.writestr(each, header.getvalue() if each == f"{name}.npy" else old.read(each))
    return made.getvalue()


def swap(path, draw):
    """Put something that is no plain file in place of a file; says what."""
    kind = str(draw.choice(["gone", "folder", "pipe", "ring", "device", "dangling"]))
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind != "gone":
        path.symlink_to({"ring": path, "device": "/dev/zero", "dangling": "nowhere"}[kind])
    return f"{path.name} became {kind}"


def mutate(path, draw, editor=None):
    """Change one file by damage, by an edit that its kind allows, or by another thing; says how."""
    chance = draw.random()
    if chance < 0.1:
        return swap(path, draw)
    content = path.read_bytes()
    if chance < 0.5 or editor is None:
        changed, words = damage(content, draw)
    else:
        changed, words = editor(content, draw)
    path.write_bytes(changed)
    return f"{path.name}: {words}"
