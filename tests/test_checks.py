"""Values of options that have the wrong type, or are out of range."""

from dataclasses import dataclass
from typing import Optional

import pytest
from fairseq.dataclass import ChoiceEnum
from omegaconf import II, OmegaConf

from fairseq_plugins.errors import UserError
from fairseq_plugins.options.checks import check_fields


@dataclass
class Options:
    mem_len: int = 8
    dropout: float = 0.1
    same_length: bool = False
    cutoff: Optional[str] = None
    scheme: ChoiceEnum(["near", "far"]) = "near"
    start: Optional[ChoiceEnum(["empty", "zeros"])] = None
    seed: int = II("common.seed")


def check(**values):
    check_fields(OmegaConf.create({**vars(Options()), **values}), Options)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"mem_len": 0, "dropout": 1, "same_length": True, "cutoff": "20,40", "scheme": "far", "start": "zeros"},
        {"scheme": Options.__annotations__["scheme"].far},
    ],
)
def test_values_of_their_kinds(values):
    check(**values)
    check_fields(OmegaConf.merge(OmegaConf.structured(Options), values), Options)


@pytest.mark.parametrize(
    "values, words",
    [
        ({"mem_len": "long"}, "--mem-len 'long' does not fit; give a whole number."),
        ({"mem_len": 6.5}, "--mem-len 6.5 does not fit; give a whole number."),
        ({"mem_len": None}, "--mem-len None does not fit; give a whole number."),
        ({"mem_len": True}, "--mem-len True does not fit; give a whole number."),
        ({"mem_len": [1]}, r"--mem-len \[1\] does not fit; give a whole number."),
        ({"dropout": "0.1"}, "--dropout '0.1' does not fit; give a number."),
        ({"same_length": "yes"}, "--same-length 'yes' does not fit; give True or False."),
        ({"same_length": 1}, "--same-length 1 does not fit; give True or False."),
        ({"cutoff": 20}, "--cutoff 20 does not fit; give text in quotes or None."),
        ({"scheme": "nearer"}, "--scheme 'nearer' does not fit; give near or far."),
        ({"start": 0}, "--start 0 does not fit; give empty or zeros or None."),
        ({"dropout": 1.5}, "--dropout 1.5 does not fit; give a number from 0 to 1."),
        ({"mem_len": -1}, "--mem-len -1 does not fit; give a whole number of at least 0."),
    ],
)
def test_values_that_do_not_fit(values, words):
    with pytest.raises(UserError, match=words):
        check(**values)
