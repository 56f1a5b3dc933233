"""Transformer-XL's attention against the formula of section 3.3, one score after the other."""

import pytest
import torch

from fairseq_plugins.modules.common.sinusoids import sinusoids
from fairseq_plugins.modules.transformer_xl import ages
from fairseq_plugins.modules.transformer_xl.ages import Run
from fairseq_plugins.modules.transformer_xl.attention import Biases, XLAttention, XLConfig
from fairseq_plugins.modules.transformer_xl.position import POSITION_SCHEMES, SinusoidalPosition

H, D, C, B, M = 3, 4, 6, 2, 5
SEEN = {
    "empty memory": ages.of_block(M),
    "memory": ages.followed_by(ages.just_before(4), ages.of_block(M)),
    "long memory": ages.followed_by(ages.just_before(9), ages.of_block(M)),
    "retained memory": ages.followed_by(ages.after(ages.just_before(4), 2 * M), ages.of_block(M)),
    "memory with a gap": (Run(3, 9), Run(2, 1), Run(M, 1 - M)),
}


def distance(scheme, seen, i, j):
    """From the query at place i of the block to the j-th token that is seen."""
    age = ages.tensor(seen)[j].item()
    return {"pairwise": i, "last-token": M - 1}[scheme] + age


def reference(attention, x, memory, seen, scheme, biases, clamp, limit):
    """A loop over everything: attention.forward in obvious steps."""
    inputs = torch.cat([memory, x], dim=1)
    q, k, v = (
        project(rows).unflatten(-1, (H, D))
        for project, rows in ((attention.q_proj, x), (attention.k_proj, inputs), (attention.v_proj, inputs))
    )
    y = []
    for i in range(M):
        scores = []
        for j in range(inputs.size(1)):
            far = distance(scheme, seen, i, j)
            far = min(far, clamp) if clamp > 0 else far
            r = attention.position_proj(sinusoids(torch.tensor([far]), C, x.dtype)).view(H, D)
            score = ((q[:, i] + biases.content) * k[:, j]).sum(-1) + ((q[:, i] + biases.position) * r).sum(-1)
            visible = 0 <= memory.size(1) + i - j < (limit or 10**9)  # tokens back, however old they are
            scores.append(score / D**0.5 if visible else torch.full_like(score, -torch.inf))
        weights = torch.stack(scores, dim=1).softmax(1)  # [B, n, H]
        y.append(torch.einsum("bnh,bnhd->bhd", weights, v).flatten(1))
    return attention.out_proj(torch.stack(y, dim=1))


def make(**options):
    torch.manual_seed(1)
    config = XLConfig(embed_dim=C, heads=H, head_dim=D, ffn_dim=1, mem_len=9, **options)
    attention, biases = XLAttention(config).double(), Biases(config).double()
    for parameter in biases.parameters():
        parameter.data.normal_()
    return attention, biases


def block(seen):
    torch.manual_seed(2)
    tokens = sum(run.length for run in seen)
    inputs = torch.randn(B, tokens, C, dtype=torch.float64)
    return inputs[:, tokens - M :].clone().requires_grad_(), inputs[:, : tokens - M]


def gradients(y, attention, biases, x):
    cotangent = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return torch.autograd.grad((y * cotangent).sum(), [x, *attention.parameters(), *biases.parameters()])


@pytest.mark.parametrize("clamp, limit", [(-1, None), (4, 5)])
@pytest.mark.parametrize("seen", SEEN.values(), ids=SEEN)
@pytest.mark.parametrize("scheme", POSITION_SCHEMES)
def test_it_is_the_formula_gradients_included(scheme, seen, clamp, limit):
    attention, biases = make()
    x, memory = block(seen)
    position = SinusoidalPosition(C, scheme, clamp, limit, dropout=0.0)
    ours = attention(x, memory, position(seen, x), position, biases)
    expected = reference(attention, x, memory, seen, scheme, biases, clamp, limit)
    assert torch.allclose(ours, expected, atol=1e-12)
    for a, b in zip(gradients(ours, attention, biases, x), gradients(expected, attention, biases, x), strict=True):
        assert torch.allclose(a, b, atol=1e-11)


@torch.no_grad()
def test_scales_multiply_the_biases_of_a_head_and_count_as_0_to_1():
    scaled, biases = make(bias_scales=True)
    scaled.bias_scales.content.data = torch.tensor([0.5, 2, 1])
    scaled.bias_scales.position.data = torch.tensor([-1, 1, 0.25])
    x, memory = block(SEEN["memory"])
    position = SinusoidalPosition(C, "pairwise", clamp=-1, limit=None, dropout=0.0)
    ours = scaled(x, memory, position(SEEN["memory"], x), position, biases)
    plain, _ = make()
    biases.content *= torch.tensor([[0.5], [1], [1]])
    biases.position *= torch.tensor([[0], [1], [0.25]])
    assert torch.allclose(ours, plain(x, memory, position(SEEN["memory"], x), position, biases), atol=1e-12)


@torch.no_grad()
def test_scores_are_rounded_to_float32_where_tokens_are_hidden():
    """As the public code does: the result is that of scores that are rounded to float32."""
    rounding, biases = make(float32_scores=True)
    query, keys, placed = (torch.randn(H, B, *shape, dtype=torch.float64) for shape in ((M, D), (9, D), (M, 9)))
    scores = (query @ keys.transpose(-1, -2) + placed) * D**-0.5
    hidden = torch.ones(M, 9).triu(5).bool()
    for mask, wanted in ((hidden, scores.float().double().masked_fill(hidden, -torch.inf)), (None, scores)):
        ours = rounding.attend(query, placed, keys, keys, mask)
        assert torch.allclose(ours, wanted.softmax(-1) @ keys, atol=1e-14, rtol=0)


@pytest.mark.parametrize("scheme", POSITION_SCHEMES)
def test_crossed_heads_are_heads_whose_keys_values_and_positions_were_exchanged(scheme):
    attention, biases = make(cross_head_p=1.0)
    seen, order = SEEN["memory"], torch.tensor([1, 2, 0])
    x, memory = block(seen)
    position = SinusoidalPosition(C, scheme, clamp=-1, limit=None, dropout=0.0)
    attention.cross_head.draw = lambda: order
    ours = attention(x, memory, position(seen, x), position, biases)
    exchanged, _ = make()
    for project in (exchanged.k_proj, exchanged.v_proj, exchanged.position_proj):
        project.weight.data = project.weight.data.view(H, D, C)[order].flatten(0, 1)
    expected = exchanged(x, memory, position(seen, x), position, biases)
    assert torch.allclose(ours, expected, atol=1e-12)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"embed_dim": 7}, "width 7 is not divisible by 3 heads"),
        ({"mem_len": 0, "same_length": True}, "memory of 0 tokens is too small"),
        ({"mem_len": -1}, "memory of -1 tokens is too small"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        XLConfig(**{"embed_dim": C, "heads": H, "ffn_dim": 1, "mem_len": 4, **options})
