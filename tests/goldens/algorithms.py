"""Samples of the active-memory paper's algorithmic tasks: our answers to their inputs, and inputs like theirs."""

import numpy as np
from fixture import config_of

from fairseq_plugins.synthetic.algorithms import ALGORITHMS, SEPARATOR


def check(case, assert_close):
    config = config_of(case)
    assert config["separator"] == SEPARATOR
    assert all(ALGORITHMS[name].vocabulary == size for name, size in config["vocab"].items())
    samples = sorted({key.rpartition("/")[0] for key in case.files if "/" in key})
    assert {sample.split("/")[0] for sample in samples} == ALGORITHMS.keys()
    for sample in samples:
        name, size = sample.split("/n")
        inputs = case[f"{sample}/input"]
        assert np.array_equal(ALGORITHMS[name].answers(inputs), case[f"{sample}/target"])
        assert ALGORITHMS[name].inputs(np.random.default_rng(1), len(inputs), int(size)).shape == inputs.shape
