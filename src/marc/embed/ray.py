"""`marc embed --ray`: the chunks of a store spread over a Ray cluster, or over local processes.

Every worker loads the encoders once and writes whole chunks into the same store, which must lie
where all of them can reach it. The bytes are those of a run in one process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from marc.embed.cluster import joined
from marc.embed.fill import Embedded, Timing, embed, fill
from marc.embed.plan import EmbeddingPlan, EncoderSpec, Job, Jobs
from marc.embed.store import FeatureStore
from marc.embed.workers import Workers
from marc.types import OnProgress

_FEW = 2  # workers where there is no GPU: each has a copy of the encoders in memory


class _Filler:
    """One worker: encoders in memory, chunks in, features in the store."""

    def __init__(self, plan: EmbeddingPlan) -> None:
        self._plan = plan
        self._jobs = plan.load()
        self._store = FeatureStore(plan.store)
        for job in self._jobs:  # this machine's weights and precision must be the store's
            self._store.holds(job.array, job.made)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        counts = [self._fill(int(chunk)) for chunk in batch["chunk"]]
        return {"chunk": batch["chunk"], "n_images": counts}

    def _fill(self, chunk: int) -> int:
        store = self._store
        jobs = [job for job in self._jobs if not store.has(job.array, chunk)]
        seen = all(store.has(name, chunk) for name in (store.STATUS, store.CONTENT))
        if seen and not jobs:  # a worker before this one wrote it and died
            return len(self._store.rows(chunk))
        silent = lambda what, done, total: None  # noqa: E731
        return fill(self._store, self._plan.images, {chunk: jobs}, Workers(0), silent).images


def embed_with_ray(
    plan: EmbeddingPlan,
    jobs: Jobs,
    n_workers: int,
    *,
    force: bool = False,
    on_progress: OnProgress | None = None,
) -> Embedded:
    """What `embed` does, on Ray workers; 0: one a GPU, or two. Each holds all encoders."""
    report = on_progress or (lambda what, done, total: None)

    def fill_all(store: FeatureStore, work: Mapping[int, Sequence[Job]]) -> Timing:
        timing, total = Timing(), sum(len(store.rows(chunk)) for chunk in work)
        report("embedding", 0, total)
        for row in _map(ray, _as_chosen(plan, jobs), list(work), n_workers) if work else ():
            timing.images += int(row["n_images"])
            report("embedding", timing.images, total)
        return timing

    with joined() as ray:
        return embed(plan, jobs, fill_all, force=force, on_progress=report)


def _as_chosen(plan: EmbeddingPlan, jobs: Jobs) -> EmbeddingPlan:
    """The plan with what was chosen here, so that no worker chooses differently."""

    def fixed(spec: EncoderSpec, job: Job) -> EncoderSpec:
        return replace(spec, precision=job.encoder.precision, batch=job.encoder.batch)

    spaces = tuple(map(fixed, plan.spaces, jobs.spaces))
    has_both = plan.predictor is not None and jobs.predictor is not None
    predictor = fixed(plan.predictor, jobs.predictor) if has_both else None  # type: ignore[arg-type]
    return replace(plan, spaces=spaces, predictor=predictor)


def _map(ray: Any, plan: EmbeddingPlan, chunks: list[int], n_workers: int) -> Any:
    """Results in any order: which worker takes which chunk does not matter."""
    items = [{"chunk": chunk} for chunk in chunks]
    # a block a chunk from the start: a step that cuts blocks would want a core of its own
    data = ray.data.from_items(items, override_num_blocks=len(items))
    specs = [*plan.spaces, *([plan.predictor] if plan.predictor else [])]
    may_use = any(spec.device != "cpu" for spec in specs)
    gpus = int(ray.cluster_resources().get("GPU", 0)) if may_use else 0
    count = min(n_workers or gpus or _FEW, gpus or n_workers or _FEW, len(chunks))
    filled = data.map_batches(
        _Filler,
        fn_constructor_args=(plan,),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=count),
        **({"num_gpus": 1} if gpus else {}),
    )
    return filled.iter_rows()
