"""The page of an audit shows its pictures and does not say whose answer is whose."""

import numpy as np
from helpers.commands import call, call_json
from PIL import Image

import marc


def test_the_page_of_a_pack_whose_ids_are_pictures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawn = marc.synthetic_stream(60, n_classes=3, n_views=1).features
    ids = [f"<b>{number}.png" for number in range(60)]
    names = ["<cat>", "dog", "eel"]
    stream = marc.Stream.from_arrays(
        drawn.views,
        drawn.predictor.prototypes,
        drawn.spaces,
        logit_scale=10.0,
        class_names=names,
        ids=ids,
    )
    marc.write_pack(stream, "pack.npz")
    for number, name in enumerate(ids):
        Image.fromarray(np.full((9, 9, 3), number, np.uint8)).save(name)
    call("run", "arrays/pack.npz", "--space", "noise", "--weight", 100, "-o", "run")
    written = call_json("judge", "run", "--audit", 5)["audit"]
    assert written == {"table": "audit.csv", "page": "audit.html", "n_rows": 5, "seed": 0}
    page = (tmp_path / "audit.html").read_text()
    assert page.count("data:image/webp") == 5
    assert page.count("<li>") == 5
    for each in marc.judge("run").write_audit("audit.csv", 5):
        first, second = (name.replace("<cat>", "&lt;cat&gt;") for name in each.blind)
        assert f"<strong>{first}</strong> or <strong>{second}</strong>" in page
        assert each.id.replace("<b>", "&lt;b&gt;") in page
    (tmp_path / "pack.npz").rename("gone.npz")  # without pictures an old page does not stay
    outcome = call("judge", "run", "--audit", 4)
    assert "no page: the pictures cannot be opened here" in outcome.out
    assert not (tmp_path / "audit.html").exists()
