"""The paper's names of data sets and spaces, in the words of `marc list`."""

from marc_paper.printed.sheets import common

DATASETS = common()["datasets"]
A, V2 = DATASETS["A"], DATASETS["V2"]

_STREAMS = {name: tuple(several) for name, several in common()["streams"].items()}
FAMILY, ADDED, SIX = _STREAMS["family"], _STREAMS["added"], _STREAMS["six"]
CROSS_DOMAIN = _STREAMS["six and added"]

SPACES = common()["spaces"]
SIXTEEN = tuple(SPACES.values())
FIVE = tuple(common()["plans"]["five"]["spaces.controls"])
EIGHT = tuple(common()["plans"]["eight"]["spaces.all"])

VIT, RN50 = "clip-b16", "clip-rn50"  # the two predictors
