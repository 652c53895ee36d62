"""Small memories for the tests of the engine of `marc serve`, and images for them."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import numpy as np

from marc.serve.hosted import Hosted
from marc.serve.memory.config import StepRequest, config_of
from marc.serve.memory.served import Served
from marc.serve.service import Service

N_CLASSES, DIM, SPACE_DIM = 4, 6, 5
MARC = {"name": "marc", "space": "s", "capacity": 2, "weight": 30.0}
_PROTOTYPES = np.random.default_rng(1).standard_normal((N_CLASSES, DIM))


def body(method=MARC, **more):
    """What a PUT says of a memory."""
    predictor = {"prototypes": _PROTOTYPES.tolist(), "logit_scale": 5.0}
    return {"method": method, "predictor": predictor, "spaces": {"s": SPACE_DIM}, **more}


def features(image, n_views=1):
    """Features of an image, the same for the same number."""
    draw = np.random.default_rng([2, image])
    views = draw.standard_normal((n_views, DIM)).astype(np.float32)
    return views, {"s": draw.standard_normal(SPACE_DIM).astype(np.float32)}


def request(image, name=None, **more):
    """A step with an image, by default with its number as id."""
    return StepRequest(str(image) if name is None else name, *features(image), **more)


def served(folder, method=MARC, **more):
    """A new memory that is open; who opens it closes it."""
    config, mode, fraction = config_of(body(method, **more))
    Served.create(folder, config, mode, fraction)
    return Served(folder)


def step(memory, image, **more):
    """One answer."""
    [answer] = memory.steps([request(image, **more)])
    assert isinstance(answer, bytes), answer
    return json.loads(answer)


def contested(memory, n_steps):
    """Ids of steps in which memory and base differ, and what each of them answered."""
    answers = [step(memory, image) for image in range(n_steps)]
    return [
        (each["id"], each["prediction"], each["base_prediction"])
        for each in answers
        if each["disagree"]
    ]


def remembered(memory):
    """All that a memory holds beside its files, as text that is equal where every bit is."""
    method = memory.learner.method.state() if memory.head["n_seen"] else None
    record = memory.learner.record.state() if memory.learner.record else None
    held = memory.held()
    items = {item: at for item, at in memory._items.items() if item in held}
    plain = [method, record, items, memory.history.state(), memory.head]
    trial = memory.trial.tally, memory.trial.curve()
    return json.dumps([*plain, trial], default=_bits, sort_keys=True)


def _bits(array):
    return [str(array.dtype), array.shape, array.tobytes().hex()]


@asynccontextmanager
async def serving(folder, **more):
    """A service that is ready, and that stops by itself."""
    service = Service(folder, **more)
    await service.start()
    try:
        while service.state != "ready":
            await asyncio.sleep(0.001)
        yield service
    finally:
        await service.stop()


def run(coroutine):
    """Run it in a thread of its own: the driver of the browsers has a loop in the main one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


@asynccontextmanager
async def hosting(folder):
    with ThreadPoolExecutor(3) as pool:
        hosted = Hosted(folder, "process", pool)
        try:
            await hosted.open()
            yield hosted
        finally:
            await hosted.close()


def hosted_run(scenario, tmp_path, method=MARC, **more):
    served(tmp_path / "m", method, **more).close()

    async def main():
        async with hosting(tmp_path / "m") as hosted:
            await asyncio.wait_for(scenario(hosted), 30)

    run(main())


async def take_steps(hosted, images):
    answers = await asyncio.gather(*(hosted.step(request(n)) for n in images))
    return [json.loads(each) for each in answers]
