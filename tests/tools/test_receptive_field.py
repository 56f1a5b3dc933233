"""The receptive field of the tool is that of a model."""

import pytest
import torch

from fairseq_plugins.modules.active_memory.mixers import MEMORIES, MIXERS, MixerConfig
from fairseq_plugins.modules.active_memory.stack import ActiveMemoryStack
from fairseq_plugins.tools.receptive_field import receptive_field, report


def test_the_papers_numbers():
    said = report("convolution", 20, 8, causal=True)
    assert said == "convolution: 152 to the left + itself = 153, 0 to the right, 153 in all"
    said = report("convolution", 20, 4, causal=False)
    assert said == "convolution: 36 to the left + itself = 37, 40 to the right, 77 in all"
    assert report("self-attention+cgru", 20, 8, causal=True) == "self-attention+cgru: all tokens up to its own"
    assert report("self-attention", 20, 8, causal=False) == "self-attention: all tokens"


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
@pytest.mark.parametrize("mixer", MIXERS)
def test_a_stack_depends_on_the_tokens_that_the_tool_counts(mixer, causal):
    torch.manual_seed(0)
    config = MixerConfig(8, kernel_size=4, heads=2, causal=causal, activation="tanh")
    stack = ActiveMemoryStack(config, 2, mixer, ffn_dim=8, activation="tanh").double()
    x = torch.randn(1, 41, 8, dtype=torch.float64, requires_grad=True)
    stack(x)[0, 20, 0].backward()
    seen = x.grad[0].abs().sum(-1).nonzero().squeeze(-1)
    field = receptive_field(mixer, 4, 2, causal)
    left, right = field or (20, 0 if causal else 20)
    assert seen.tolist() == list(range(20 - left, 21 + right))
    assert (field is None) == (mixer not in MEMORIES)
