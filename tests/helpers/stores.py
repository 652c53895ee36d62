"""Small feature stores to be harmed, and stores sealed again after an edit."""

import json

import numpy as np

from helpers.embedding_trees import draw_lab_folder, embed_plan, make_plan
from marc.embed.sealed import DOCUMENT, SealedArray
from marc.embed.store import FeatureStore
from marc.files import json_digest


def make_store(root, n_views=3):
    """The plan and the path of a store with three views, two spaces and four chunks."""
    plan = make_plan(draw_lab_folder(root / "pictures"), root / "store", n_views=n_views)
    embed_plan(plan)
    return plan


def chunk_files(store, name):
    """The files of an array's chunks, in their order."""
    return sorted(path for path in (store / name / "c").rglob("*") if path.is_file())


def files_of(store):
    """Every file of a store but the lock."""
    return sorted(path for path in store.rglob("*") if path.is_file() and path.name[0] != ".")


def edit_json(path, change):
    """Change a document in place; nothing is sealed again."""
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def seal_store(path, change):
    """Change what a store says of itself, with a seal that fits: only shapes can refuse it."""

    def edit(document):
        change(document["attributes"]["marc_store"])
        document["attributes"]["seal"] = json_digest(document["attributes"]["marc_store"])

    edit_json(path / DOCUMENT, edit)


def seal_array(path, name, change):
    """Change the document of an array, with a seal that fits."""
    key = json.loads((path / DOCUMENT).read_text())["attributes"]["seal"]

    def edit(document):
        change(document)
        document["attributes"]["seal"] = ""
        document["attributes"]["seal"] = json_digest(key, name, document)

    edit_json(path / name / DOCUMENT, edit)


def replace_values(path, name, change):
    """Other numbers in an array, written as if they had been there from the beginning."""
    store = FeatureStore(path)
    old = store.pin(name)
    facts = {key: old.attributes[key] for key in ("made", "card") if key in old.attributes}
    values = change(np.array(old.read()))
    about = {**facts, "versions": old.attributes["versions"]}
    new = SealedArray(path, name, store._seal, values.shape, old.rows, old.dtype, about)
    new.begin()
    for chunk in range(new.n_chunks):
        new.write(chunk, values[chunk * new.rows : (chunk + 1) * new.rows])
    store.finish(name)
