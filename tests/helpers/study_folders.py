"""Studies of tiny packs in a folder: making them, and what they leave there."""

from helpers.commands import tree
from helpers.studies import PLAN, tiny_plan, tiny_stream
from marc.sources.pack import write_pack
from marc_paper.study.figures import capacity
from marc_paper.study.folder import StudyFolder
from marc_paper.study.make import study
from marc_paper.study.tables import spaces

BOTH = (spaces._EXPERIMENT, capacity._EXPERIMENT)


def write_packs(folder):
    """A pack for each stream of the tiny plan; gives the folder."""
    for seed, name in enumerate(PLAN["streams"]):
        write_pack(tiny_stream(name, seed), folder / f"{name}.npz")
    return folder


def plan_over(packs):
    """The tiny plan over the packs of a folder."""
    return tiny_plan(streams=entries(packs))


def entries(packs):
    return {
        name: {**entry, "source": f"arrays/{packs / name}.npz"}
        for name, entry in PLAN["streams"].items()
    }


def make(plan, path, experiments=BOTH, **options):
    folder = StudyFolder.open(path, plan.as_data(), force=options.get("force", False))
    return [each.status for each in study(plan, folder, experiments, experiments, **options)]


def results(path):
    """Everything but times: the log, the records' seconds and the page that shows them."""
    files = tree(path)
    kept = {name: content for name, content in files.items() if content is not None}
    return {
        name: content
        for name, content in kept.items()
        if not name.startswith(("log", "records", "index", "streams", ".lock"))
    }
