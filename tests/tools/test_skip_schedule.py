"""How often layers are skipped, and the age of their memory."""

import json
import math
from argparse import Namespace

import pytest
import torch

from fairseq_plugins.modules.transformer_xl.attention import XLConfig
from fairseq_plugins.modules.transformer_xl.skip_retain import SkipRetain
from fairseq_plugins.modules.transformer_xl.stack import XLStack
from fairseq_plugins.tools import skip_schedule


def test_every_layer_of_equation_1(capsys, main, tmp_path):
    main(skip_schedule, "linear", "--layers", 8, "--json", tmp_path / "8.json")
    header, dashes, *rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "| 1 | 0 | 1.000 | 1 |" and rows[4] == "| 5 | 0.25 | 1.333 | 4 |"
    assert rows[7] == "| 8 | 0 | 1.000 | 1 |"
    assert rows[-2:] == [
        "expected share of skipped layers: 0.164",
        "the paper's context factor (inferred: 2 x the sum of p): 2.625",
    ]
    assert json.loads((tmp_path / "8.json").read_text()) == {"skipped_layers": 0.164, "context_factor": 2.625}


def test_the_factor_of_the_papers_models():
    factors = [skip_schedule.context_factor(SkipRetain("linear", layers).probabilities) for layers in (12, 15)]
    assert factors == [pytest.approx(4.58, abs=0.01), pytest.approx(6.07, abs=0.01)]


NEARLY_1 = 1 - 1e-9
LONG = math.log(0.01) / math.log(NEARLY_1)


@pytest.mark.parametrize("p, lag", [(0, 1), (0.01, 1), (0.1, 2), (0.11, 3), (0.5, 7), (NEARLY_1, LONG)])
def test_a_hundredth_of_the_lags_is_longer_at_most(p, lag):
    assert skip_schedule.percentile(p) == pytest.approx(lag, rel=1e-6)
    assert f"| 1 | {p} |" in skip_schedule.table([p])[2]


def test_expected_lags_are_those_of_many_updates():
    lags = torch.tensor(skip_schedule.lags(SkipRetain("uniform", 3, p=0.4, seed=2), 4000)).double()
    assert lags.mean().item() == pytest.approx(skip_schedule.expected_lag(0.4), rel=0.02)
    assert (lags > skip_schedule.percentile(0.4)).double().mean() < 0.01


def test_lags_are_those_of_a_stacks_memories():
    skip, block = SkipRetain("uniform", 3, p=0.5, seed=1), 4
    stack = XLStack(XLConfig(embed_dim=8, heads=2, ffn_dim=8, mem_len=block, initial_memory="zeros"), 3, skip)
    x, memory, seen = torch.randn(1, block, 8), None, []
    for update in range(12):
        seen.append([(layer.ages[-1].newest - 1) // block + 1 for layer in stack.memories_before(memory, x)])
        skip.set_num_updates(update)
        memory = stack(x, memory)[1]
    assert skip_schedule.lags(SkipRetain("uniform", 3, p=0.5, seed=1), 12) == seen
    assert max(map(max, seen)) > 2


def test_a_picture_of_the_lags(capsys, main):
    pytest.importorskip("matplotlib")
    from fairseq_plugins.tools import plot

    given = Namespace(schedule="linear", layers=6, p=0.1, seed=1, updates=20)
    axes, _ = plot.draw_lags(given).axes
    (picture,) = axes.get_images()
    assert picture.get_array().T.tolist() == skip_schedule.lags(SkipRetain("linear", 6), 20)
    with pytest.raises(SystemExit):
        main(plot, "lags", "linear", "--layers", 6, "--updates", 400000)
    assert "--updates: 400000 does not fit; give a whole number from 1 to 500" in capsys.readouterr().err
