"""How fast pictures become features, stage by stage, and how busy the encoders are kept.

    python -m benchmarks.embedding                              on this machine's CPU
    python -m benchmarks.embedding --device cuda --images 8192 --views 8

CLIP ViT-B/16 and DINOv2 ViT-B/14 at 224 pixels with random weights (speed does not depend on their
values), loaded through the same files and code as trained ones; JPEG files of 500 x 375 pixels.
Prints one table in Markdown; docs/performance.md holds such tables.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from benchmarks.words import table
from marc.embed.fill import embed
from marc.embed.plan import EmbeddingPlan, EncoderSpec, Job, Jobs
from marc.embed.workers import ViewPlan, Workers
from marc.pictures import open_images
from marc_paper.replication import draw_photographs, encoder_rates, rate, rate_text

PREDICTOR, SPACE = "clip-b16-text", "dinov2-b"


def save_random_weights(folder: Path) -> None:
    """Weights of both architectures, as files."""
    from safetensors.torch import save_file

    from marc.encoders import encoder_card
    from marc.encoders.from_timm import _build_tower
    from marc.encoders.torch_runtime import import_libraries

    import_libraries("open_clip", "timm")
    import open_clip

    clip = open_clip.create_model(encoder_card(PREDICTOR).tag.split("/")[0], pretrained=None)
    for name, model in ((PREDICTOR, clip), (SPACE, _build_tower(encoder_card(SPACE)))):
        tensors = {key: value.contiguous().clone() for key, value in model.state_dict().items()}
        save_file(tensors, folder / f"{name}.safetensors")


def reading_rates(plan: EmbeddingPlan, jobs: Jobs, workers: Workers, n_images: int) -> list[float]:
    """Pictures a second read, decoded and cropped: in one process, and in all workers."""
    spec = Job.pixels(list(jobs), True)
    ids, places = plan.images.ids[:n_images], plan.images.locations[:n_images]
    pieces = [((ids[s : s + 16], places[s : s + 16]), spec) for s in range(0, n_images, 16)]
    few = pieces[: max(1, min(len(pieces), 16))]
    one = rate(16 * len(few), lambda: [spec.prepare(piece) for piece, spec in few])
    return [one, rate(len(ids), lambda: list(workers.prepare(pieces)))]


def measure(folder: Path, arguments: argparse.Namespace) -> list[list[str]]:
    """All rows of the table."""
    photographs, weights = folder / "photographs", folder / "weights"
    photographs.mkdir()
    weights.mkdir()
    draw_photographs(photographs, arguments.images)
    save_random_weights(weights)
    device = {"device": arguments.device, "precision": arguments.precision, "offline": True}
    spec = {
        n: EncoderSpec(n, str(weights / f"{n}.safetensors"), **device) for n in (PREDICTOR, SPACE)
    }
    images = open_images(f"folder/{photographs}")
    with Workers(arguments.workers) as workers:
        plan = EmbeddingPlan(images, folder / "store", (spec[SPACE],), spec[PREDICTOR])
        jobs = plan.load()
        one, all_workers = reading_rates(plan, jobs, workers, arguments.images)
        alone = encoder_rates(plan, jobs, arguments.images)
        rows = [
            ["read, decode and crop, one process", rate_text(one), ""],
            [f"the same, {arguments.workers} processes", rate_text(all_workers), ""],
            *(
                [f"{name} from decoded squares", rate_text(each), ""]
                for name, each in alone.items()
            ),
        ]
        many = [(f", {n} views (VC)", ViewPlan("VC", n, 0)) for n in arguments.views]
        for label, views in [("", ViewPlan()), *many]:
            store = folder / f"store{views.n_views}"
            plan = EmbeddingPlan(images, store, (spec[SPACE],), spec[PREDICTOR], views=views)
            if views.n_views > 1:
                jobs = plan.load()
            start = time.perf_counter()
            timing = embed(plan, jobs, workers).timing
            each = timing.images / (time.perf_counter() - start)
            rows.append(
                [f"`marc embed` from JPEG files{label}", rate_text(each), f"{timing.busy:.0%}"]
            )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--views", type=int, nargs="*", default=[])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), arguments)
    head = f"{arguments.device}, {arguments.precision}, {arguments.images:,} pictures"
    print(table([f"stage ({head})", "images/s", "encoders busy"], rows))


if __name__ == "__main__":
    main()
