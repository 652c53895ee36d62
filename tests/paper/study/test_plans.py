"""The plans that come with the package name things that exist, and the recipe names the same."""

import re

import pytest
from helpers.repository import ROOT

from marc.embed.store import _STORES, FeatureStore
from marc.encoders.prompts import PromptSet
from marc.encoders.published import PUBLISHED
from marc.pictures import NAMED_SETS
from marc.pictures.coop import CROSS_DOMAIN_SETS
from marc.sources import is_pictures
from marc_paper.study.plan import Draws, Plan, Timing, _Grids, _Seeds

PREDICTORS = {name: card for name, card in PUBLISHED.items() if card.has_text}
SPACES = {name: card for name, card in PUBLISHED.items() if name not in PREDICTORS}

RECIPE = ROOT / "docs" / "replicate.md"
TEMPLATES = {each.name: each.prompts for each in CROSS_DOMAIN_SETS}


@pytest.fixture(scope="module")
def plan():
    return Plan.read(Plan.SHIPPED / "paper.toml")


def test_the_paper_compares_all_sixteen_spaces(plan):
    assert sorted(plan.spaces.all) == sorted(SPACES)
    assert len(plan.spaces.all) == 16
    assert plan.spaces.controls == ("mae-b16", "clip-b16", "dinov2-s", "dinov2-b", "dinov2-l")
    roles = (plan.spaces.own, plan.spaces.deployed, plan.spaces.strong)
    assert roles == ("clip-b16", "dinov2-b", "dinov2-l")


def test_streams_and_groups_are_those_of_the_paper(plan):
    assert plan.main == "imagenet-a"
    assert plan.group("main") == ("imagenet-a", "imagenet-v2")
    assert plan.group("shift") == ("imagenet-r", "imagenet-sketch", "imagenet-val")
    domains = ("caltech101", "dtd", "eurosat", "flowers102", "oxford-pets", "ucf101")
    assert plan.group("domain") == domains
    assert plan.group("extra") == ("fgvc-aircraft", "food101")
    assert plan.group("predictor") == ("imagenet-a-rn50",)


def test_every_stream_is_a_published_set_where_embed_puts_it(plan):
    for name, entry in plan.streams.items():
        assert entry.dataset in NAMED_SETS, name
        if entry.group == "predictor":
            assert entry.source == f"store/{_STORES}/{name}"
        else:
            assert name == entry.source == entry.dataset
            assert is_pictures(entry.source)
            assert FeatureStore.default_path(entry.source) == _STORES / name


def test_predictors_exist(plan):
    assert plan.predictor in PREDICTORS
    second = plan.streams["imagenet-a-rn50"]
    assert second.predictor in PREDICTORS
    assert second.predictor != plan.predictor
    assert all(not e.predictor for e in plan.streams.values() if e is not second)


def test_prompts_are_the_templates_of_each_set_and_cupl(plan):
    for name, entry in plan.streams.items():
        templates, _, rest = (entry.prompts or plan.prompts).partition("+")
        assert templates == TEMPLATES.get(entry.dataset, "tip-7"), name
        assert templates in PromptSet.available()
        assert rest == "cupl"


def test_views_are_sixty_four_but_for_the_two_added_sets(plan):
    few = {name for name, entry in plan.streams.items() if entry.views != 64}
    assert few == {"fgvc-aircraft", "food101"}
    assert {plan.streams[name].views for name in few} == {plan.grids.few_views}


def test_everything_else_is_the_papers_default(plan):
    assert (plan.grids, plan.seeds, plan.draws) == (_Grids(), _Seeds(), Draws())
    assert plan.timing == Timing()
    assert plan.grids.views[-1] == 64


@pytest.mark.parametrize("path", sorted(Plan.SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_every_plan_reads(path):
    assert Plan.read(path).title


def test_the_recipe_names_the_published_weights():
    text = RECIPE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \| (\w+) \| `(\S+)` \| (\S+) \|$", text, re.MULTILINE)
    cards = PUBLISHED.values()
    assert rows == [(card.name, card.library, card.tag, card.licence) for card in cards]


def test_the_recipe_embeds_what_the_plan_reads(plan):
    text = RECIPE.read_text(encoding="utf-8")
    spaces = re.search(r'SPACES="([^"]+)"', text)[1].split()
    assert tuple(spaces) == plan.spaces.all
    near = re.search(r"for set in (.+); do", text)[1].split()
    assert tuple(near) == plan.group("main", "shift")
    assert f"-o {_STORES}/imagenet-a-rn50" in text
    table = re.search(r"<< END\n(.+?)\nEND", text, re.DOTALL)[1].splitlines()
    assert [line.split() for line in table] == [
        [name, TEMPLATES[name], str(plan.streams[name].views)]
        for name in plan.group("domain", "extra")
    ]
