"""Plans, lists, labels, prompts and cards that were changed: read, or refused in clear words."""

import json
import shutil

import pytest
from helpers.commands import PAPER, call
from helpers.fuzzing import Tries
from helpers.mutations import edit_json, edit_lines, mutate
from helpers.studies import PLAN
from PIL import Image

import marc
from marc_paper.study.plan import Plan


def toml(plan):
    """A plan as a person writes it."""
    lines = [f"{name} = {json.dumps(plan[name])}" for name in ("title", "predictor")]
    for name, table in plan.items():
        if name == "streams":
            for stream, entry in table.items():
                lines += [f"[streams.{stream}]", *assignments(entry)]
        elif isinstance(table, dict):
            lines += [f"[{name}]", *assignments(table)]
    return "\n".join(lines)


def assignments(table):
    return [f"{name} = {json.dumps(value)}" for name, value in table.items()]


def test_changed_plans(tmp_path, record_property):
    whole = tmp_path / "whole.toml"
    whole.write_text(toml(PLAN))
    assert Plan.read(whole) == Plan.of(PLAN)
    tries = Tries("plans", record_property)
    for draw in tries(300):
        path, out = tmp_path / f"{tries.seed}.toml", tmp_path / "out"
        shutil.copy(whole, path)
        with tries.one(mutate(path, draw, edit_lines)):
            try:
                Plan.read(path)
                tries.counts["other"] += 1
            except marc.MarcError:
                tries.counts["refused"] += 1
            # its streams do not exist: whatever the plan says, nothing may be written
            assert call("study", path, "-o", out).status == 2
            assert not out.exists()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for row in range(6):
        Image.new("RGB", (40, 40), (40 * row, 0, 0)).save(folder / f"{row}.png")
    rows = [(f"{row}.png", ["cat", "dog"][row % 2]) for row in range(6)]
    lines = "\n".join(f"{path},{label}" for path, label in rows)
    (folder / "list.csv").write_text(f"path,label\n{lines}\n")
    parts = {"train": [], "val": [], "test": [[p, ["cat", "dog"].index(n), n] for p, n in rows]}
    (folder / "split.json").write_text(json.dumps(parts))
    (folder / "names.txt").write_text("a cat\na dog\n")
    (folder / "prompts.json").write_text(json.dumps({"cat": ["a cat."], "dog": ["a dog."]}))
    (folder / "hf").mkdir()
    for row in range(6):
        shutil.copy(folder / f"{row}.png", folder / "hf")
    lines = [json.dumps({"file_name": path, "label": label}) for path, label in rows]
    (folder / "hf" / "metadata.jsonl").write_text("\n".join(lines))
    return folder


EMBED = ("--encoder", "mini:pixels", "--predictor", "mini:captions")
LISTS = {
    "list.csv": (edit_lines, ["csv/{}/list.csv"]),
    "split.json": (edit_json, ["coop/{}/split.json"]),
    "names.txt": (edit_lines, ["csv/{}/list.csv", "--class-names", "{}/names.txt"]),
    "prompts.json": (edit_json, ["csv/{}/list.csv", "--prompts", "{}/prompts.json"]),
    "hf/metadata.jsonl": (edit_lines, ["hf/{}/hf"]),
}


@pytest.mark.parametrize("name", LISTS)
def test_changed_lists(pictures, tmp_path, record_property, name):
    editor, words = LISTS[name]
    if name.startswith("hf"):
        pytest.importorskip("pyarrow")
    shutil.copytree(pictures, tmp_path / "photos")
    words = [word.format(tmp_path / "photos") for word in words]
    command = ("embed", *words, *EMBED, "--dry-run", "-o", tmp_path / "store")
    assert call(*command).status == 0, call(*command).err
    tries = Tries(f"lists, {name}", record_property)
    file = tmp_path / "photos" / name
    for draw in tries(120):
        if file.is_dir() and not file.is_symlink():
            file.rmdir()
        file.unlink(missing_ok=True)
        shutil.copy(pictures / name, file)
        with tries.one(mutate(file, draw, editor)):
            if not tries.refused(call(*command)):
                tries.counts["other"] += 1
            assert not (tmp_path / "store").exists()


def test_changed_labels_of_a_judge(tmp_path, record_property):
    stream = marc.synthetic_stream(n_images=40, n_classes=4, n_views=2)
    marc.write_pack(stream, tmp_path / "a.npz")
    run, whole = tmp_path / "run", tmp_path / "whole.csv"
    words = ("run", f"arrays/{tmp_path / 'a.npz'}", *PAPER, "--seed", "0", "-o", run)
    assert call(*words).status == 0
    rows = zip(stream.features.ids, stream.row_labels, strict=True)
    lines = [f"{name},{stream.features.class_names[label]}" for name, label in rows]
    whole.write_text("id,label\n" + "\n".join(lines) + "\n")
    assert call("judge", run, "--labels", whole).status == 0
    tries = Tries("labels of a judge", record_property)
    for draw in tries(100):
        path = tmp_path / f"{tries.seed}.csv"
        shutil.copy(whole, path)
        with tries.one(mutate(path, draw, edit_lines)):
            outcome = call("judge", run, "--labels", path, "--json")
            if not tries.refused(outcome):
                json.loads(outcome.out, parse_constant=pytest.fail)
                tries.counts["other"] += 1
