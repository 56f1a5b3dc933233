"""The operators held against plain loops over time, gradients included, in float64."""

import pytest
import torch
from torch.nn import functional as F

from fairseq_plugins.modules.active_memory.convolution import reach
from fairseq_plugins.modules.active_memory.mixers import MIXERS, MixerConfig, build_mixers, hard_sigmoid

B, T, C, LENGTHS = 3, 9, 6, [9, 4, 1]
causal_or_not = pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
kernels = pytest.mark.parametrize("kernel_size", [1, 4, 5, 12])
every_mixer = pytest.mark.parametrize("name", MIXERS)


def make(name, causal=True, kernel_size=4, layers=1, **options):
    torch.manual_seed(0)
    config = MixerConfig(C, kernel_size, heads=2, head_dim=5, causal=causal, **options)
    return [mixer.double().eval() for mixer in build_mixers(name, config, layers)]


def inputs():
    torch.manual_seed(1)
    return torch.randn(B, T, C, dtype=torch.float64)


def convolve_by_hand(convolution, x, causal):
    """One sequence [n, C], one output token at a time."""
    left, _ = reach(convolution.weight.size(1), causal)
    before, behind = convolution.ends.vectors(x)
    assert len(before) == left
    seen = torch.cat([before, x, behind])
    tokens = []
    for t in range(len(x)):
        y = convolution.bias
        for j in range(convolution.weight.size(1)):
            y = y + convolution.weight[:, j] @ seen[t + j]
        tokens.append(y)
    return torch.stack(tokens).chunk(convolution.outputs, dim=-1)


def attend_by_hand(attention, x, causal):
    heads = []
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    for parts in zip(*(project(x).chunk(attention.heads, dim=-1) for project in projections)):
        query, key, value = parts
        scores = query @ key.T * attention.scale
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), float("-inf"))
        heads.append(scores.softmax(-1) @ value)
    return attention.out_proj(torch.cat(heads, dim=-1))


def plain(mixer, x, causal):
    (y,) = convolve_by_hand(mixer.convolution, x, causal)
    return F.relu(y)


def highway(mixer, x, causal):
    value, gate = convolve_by_hand(mixer.value_and_gate, x, causal)
    gate = hard_sigmoid(gate)
    return value * gate + x * (1 - gate)


def cgru(mixer, x, causal):
    update, reset = map(hard_sigmoid, convolve_by_hand(mixer.gates, x, causal))
    (candidate,) = convolve_by_hand(mixer.candidate, reset * x, causal)
    return update * x + (1 - update) * candidate.tanh()


BY_HAND = {
    "self-attention": attend_by_hand,
    "convolution": plain,
    "persistent-convolution": plain,
    "highway-convolution": highway,
    "cgru": cgru,
}


def by_hand(name, mixer, x, causal):
    """A batch whose sequences have LENGTHS tokens, one sequence at a time; zeros where no token is."""
    rows = []
    for row, length in zip(x, LENGTHS):
        parts = MIXERS[name]
        mixers = [mixer] if len(parts) == 1 else mixer
        y = sum(BY_HAND[part](own, row[:length], causal) for part, own in zip(parts, mixers, strict=True))
        rows.append(F.pad(y, (0, 0, 0, T - length)))
    return torch.stack(rows)


@every_mixer
@causal_or_not
@kernels
def test_outputs_and_gradients_are_those_of_a_plain_loop(name, causal, kernel_size):
    (mixer,) = make(name, causal, kernel_size)
    x, cotangent = inputs().requires_grad_(), torch.randn(B, T, C, dtype=torch.float64)
    padding = torch.arange(T) >= torch.tensor(LENGTHS).unsqueeze(1)
    fast = mixer(x, padding).masked_fill(padding.unsqueeze(-1), 0)
    slow = by_hand(name, mixer, x, causal)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12)
    leaves = [x, *(parameter for parameter in mixer.parameters() if parameter.numel())]
    ours, theirs = (torch.autograd.grad((y * cotangent).sum(), leaves) for y in (fast, slow))
    for mine, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, expected, rtol=0, atol=1e-11)


def test_one_set_of_persistent_vectors_serves_all_layers():
    layers = torch.nn.ModuleList(make("persistent-convolution", causal=False, layers=3))
    shapes = [tuple(parameter.shape) for name, parameter in layers.named_parameters() if ".ends." in name]
    assert shapes == [(1, C), (2, C)]


@pytest.mark.parametrize("scaling, factor", [("sqrt", 5**-0.5), ("sqrt-times-width", 5**-0.5 / 5)])
def test_scores_are_scaled_by_the_width_of_a_head(scaling, factor):
    (attention,) = make("self-attention", attention_scaling=scaling)
    assert attention.scale == pytest.approx(factor)


def test_initial_weights_are_glorots():
    (mixer,) = make("highway-convolution", kernel_size=4)
    limit = (6 / (4 * C + 4 * C)) ** 0.5  # of one convolution, although two are computed at once
    assert 0.95 * limit < mixer.value_and_gate.weight.abs().max() <= limit


@pytest.mark.parametrize("options, words", [
    ({"kernel_size": 0}, "kernel size 0 is too small"),
    ({"activation": "maxout"}, "activation 'maxout' is not one of"),
    ({"attention_scaling": "none"}, "attention scaling 'none' is not one of sqrt, sqrt-times-width"),
    ({"heads": 4}, "width 6 is not divisible by 4 heads"),
])  # fmt: skip
def test_sizes_that_cannot_be_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        MixerConfig(**{"embed_dim": C, **options})


def test_a_mixer_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="mixer 'lstm' is not one of self-attention, convolution"):
        build_mixers("lstm", MixerConfig(C, heads=2), 1)
