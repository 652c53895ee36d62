import pytest
from helpers.making import make_stream

from marc.errors import MarcError
from marc.peers.registry import METHODS, create_method
from marc.results.snapshot import load_snapshot, save_snapshot

REMEMBERING = [
    name
    for name, card in METHODS.items()
    if card.resets == "never" and set(card.needs) <= {"space", "prompts"}
]
HOLDING_TEXTS = ["bca", "cosmic", "dmn-zs", "dpe", "ecalp", "mcp", "mcp++", "onzeta"]
"""Those whose memory holds the text prototypes, or what was computed from them."""


def began(name):
    """A method that has seen the first images of a stream."""
    spaces = {"space": "good"} if "space" in METHODS[name].needs else {}
    method = create_method(name, **spaces)
    step(method, stream())
    return method


def stream(seed=0, **shape):
    return make_stream(seed, n_prompts=5, **shape)


def step(method, of):
    if hasattr(method, "step_batch"):
        return method.step_batch([of.query(row) for row in range(5)])
    return method.step(of.query(0))


@pytest.mark.parametrize("name", REMEMBERING)
def test_a_stream_of_another_shape_needs_a_reset(name):
    method = began(name)
    for other in (stream(n_classes=4), stream(dim=9)):
        with pytest.raises(MarcError, match="does not fit what is remembered"):
            step(method, other)
    method.reset()
    step(method, other)


@pytest.mark.parametrize("name", HOLDING_TEXTS)
def test_other_texts_need_a_reset_also_after_a_restart(name, tmp_path):
    method, other = began(name), stream(1)
    save_snapshot(method, tmp_path / "begun.safetensors")
    for each in (method, load_snapshot(tmp_path / "begun.safetensors")):
        with pytest.raises(MarcError, match="other text prototypes") as refused:
            step(each, other)
        assert refused.value.got == "5 other rows"
        each.reset()
        step(each, other)
