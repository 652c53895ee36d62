"""Folders of the lab's pictures, and plans that embed them with the shipped encoders."""

import itertools

from PIL import Image

from marc.embed.fill import embed
from marc.embed.plan import EmbeddingPlan, EncoderSpec
from marc.embed.workers import ViewPlan, Workers
from marc.pictures import open_images
from marc_lab.classes import CLASS_NAMES
from marc_lab.world import label_of, render

PREDICTOR, SPACES = "mini:captions", ("mini:pairs-small", "mini:pixels")


def draw_lab_folder(root, count=14, n_classes=3, side=80):
    """Pictures of a few classes in a folder for each, larger than the encoders take them."""
    of_these = (index for index in itertools.count() if label_of(5, index) < n_classes)
    for number, index in enumerate(itertools.islice(of_these, count)):
        folder = root / CLASS_NAMES[label_of(5, index)]
        folder.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(render(5, index, "neon").image)
        picture.resize((side + number, side)).save(folder / f"{number:03}.png")
    return root


def make_plan(root, store, *, spaces=SPACES, predictor=PREDICTOR, n_views=1, chunk=4, **more):
    """A plan for a folder of pictures."""
    views = ViewPlan("VC", n_views, 0) if n_views > 1 else ViewPlan()
    return EmbeddingPlan(
        images=open_images(f"folder/{root}"),
        store=store,
        spaces=tuple(EncoderSpec(name) for name in spaces),
        predictor=EncoderSpec(predictor) if predictor else None,
        **{"views": views, "chunk": chunk, **more},
    )


def embed_plan(plan, n_workers=0, **options):
    """Carry a plan out."""
    with Workers(n_workers) as workers:
        return embed(plan, plan.load(), workers, **options)
