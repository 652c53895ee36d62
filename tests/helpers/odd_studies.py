"""Plans that lack what most plans have: one stream, one order, one view, or another predictor."""

from helpers.studies import tiny_plan, tiny_work, without

OTHERS = ("second", "third", "fourth", "fifth", "sixth")


def odd_plan(**changes):
    """One main stream with one view, in one order; `changes` are those of `tiny_plan`."""
    first = {"source": "arrays/first.npz", "group": "main", "views": 1}
    plan = tiny_plan(streams={"first": first}, seeds={"orders": [3]}, **changes)
    return without(plan, *OTHERS)


def odd_work(**changes):
    """The shared work of `odd_plan`."""
    return tiny_work(odd_plan(**changes), n_images=40)


def declares_its_work(experiment, work):
    """Whether making an experiment uses the very pieces that it declares."""
    experiment.make(work)
    return set(work.used) == set(experiment.pieces(work.plan))
