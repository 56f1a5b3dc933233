"""Attention to a span and to persistent vectors, held against a loop over streams, tokens and heads."""

import pytest
import torch

from fairseq_plugins.modules.common.relative_position import RelativePosition
from fairseq_plugins.modules.span.attention import SpanConfig
from fairseq_plugins.modules.span.stack import INTEGRATIONS, TRANSFORMER

B, M, H, D, N, C, S = 2, 7, 4, 3, 5, 8, 6
DESIGNS = {"transformer": TRANSFORMER, **INTEGRATIONS}
ATTENTIONS = {name: design.attention for name, design in DESIGNS.items()}


def make(name, **options):
    torch.manual_seed(1)
    config = SpanConfig(embed_dim=C, heads=H, head_dim=D, span=S, persistent=N, **options)
    attention = ATTENTIONS[name](config).double()
    if attention.span:
        attention.span.span_ratio.data = torch.linspace(0.05, 0.45, attention.context_heads, dtype=torch.float64)
    return attention, RelativePosition(D, S).double()


def naive(name, attention, position, inputs, visited=range(H)):
    """One token of one head of one stream at a time. inputs [B, S + M, C], the block last -> [B, M, C]; each head's
    query visits the head that `visited` names."""
    streams = []
    for stream in inputs:
        rows = []
        for t in range(M):
            seen, query = stream[t : t + S], attention.q_proj(stream[t + S]).view(H, D)
            visitors = query[torch.tensor(visited).argsort()]
            heads = [naive_head(name, attention, position, visitors, seen, head) for head in visited]
            if name == "single-head":
                memory = attention.persistent
                heads = torch.stack(heads) + look_up(query.flatten(), memory.key[0], memory.value[0]).view(H, D)
            rows.append(attention.out_proj(torch.cat(tuple(heads))))
        streams.append(torch.stack(rows))
    return torch.stack(streams)


def naive_head(name, attention, position, query, seen, head):
    config, memory = attention.config, getattr(attention, "persistent", None)
    if name == "head-split" and head >= H // 2:
        return look_up(query[head], memory.key[head - H // 2], memory.value[head - H // 2])
    keys = attention.k_proj(seen).view(S, -1, D)[:, head]
    values = attention.v_proj(seen).view(S, -1, D)[:, head]
    table = position.weight.t()
    scores = (keys + table) @ query[head] / D**0.5
    if config.value_positions:
        values = values + table
    mask = attention.span.mask()[head] if attention.span else torch.ones(S)
    if name == "all-attn":
        scores = torch.cat([scores, (D**0.5 * memory.key[head]) @ query[head] / D**0.5])
        values = torch.cat([values, N**0.5 * memory.value[head]])
        mask = torch.cat([mask, torch.ones(N)])
    weights = scores.softmax(0) * mask
    if attention.span:
        weights = weights / (weights.sum() + 1e-8)
    y = weights @ values
    if name == "attn-split":
        return y + look_up(query[head], memory.key[head], memory.value[head])
    return y


def look_up(query, key, value):
    """k = sqrt(D) k', v = sqrt(N) v', scores over sqrt(D), as the paper writes it."""
    width = len(query)
    weights = ((width**0.5 * key) @ query / width**0.5).softmax(0)
    return weights @ (N**0.5 * value)


def gradients(y, *leaves):
    torch.manual_seed(2)
    return torch.autograd.grad((y * torch.randn_like(y)).sum(), leaves)


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("ramp", [None, 2])
@pytest.mark.parametrize("value_positions", [False, True])
def test_equals_the_loop_gradients_included(name, ramp, value_positions):
    attention, position = make(name, ramp=ramp, trim_step=1, value_positions=value_positions)
    width = attention.width()
    assert (width < S) == (ramp is not None)
    inputs = torch.randn(B, S + M, C, dtype=torch.float64, requires_grad=True)
    ours = attention(inputs[:, S:], inputs[:, S - width : S], position)
    plain = naive(name, attention, position, inputs)
    assert torch.allclose(ours, plain, atol=1e-7 if ramp else 1e-12)  # trimming leaves the softmax fewer terms
    leaves = [inputs, *attention.parameters(), *position.parameters()]
    for a, b in zip(gradients(ours, *leaves), gradients(plain, *leaves), strict=True):
        assert torch.allclose(a, b, atol=1e-6 if ramp else 1e-12)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_untrimmed_adaptive_spans_equal_the_loop_exactly(name):
    attention, position = make(name, ramp=2, trim_step=64)
    inputs = torch.randn(B, S + M, C, dtype=torch.float64)
    ours = attention(inputs[:, S:], inputs[:, :S], position)
    assert torch.allclose(ours, naive(name, attention, position, inputs), atol=1e-12)


def test_head_split_has_neither_keys_nor_vectors_that_are_not_used():
    split, whole = (make(name)[0] for name in ("head-split", "attn-split"))
    assert split.k_proj.weight.shape == (H // 2 * D, C)
    assert split.persistent.key.numel() == whole.persistent.key.numel() // 2


@pytest.mark.parametrize("name", ["all-attn", "attn-split", "single-head"])
def test_joint_split_and_single_head_have_the_same_number_of_parameters(name):
    count = sum(parameter.numel() for parameter in make(name)[0].parameters())
    assert count == 4 * C * H * D + 2 * N * H * D


def test_dropout_spares_nobody_twice():
    """A dropped weight is dropped after the renormalisation: the others are scaled by 1 / (1 - p)."""
    attention, position = make("all-attn", ramp=2, dropout=0.5)
    attention.v_proj.weight.data.fill_(0)
    attention.persistent.value.data.fill_(N**-0.5)  # all values one: the output is the sum of the kept weights
    attention.out_proj.weight.data = torch.eye(C, H * D, dtype=torch.float64)
    inputs = torch.randn(B, S + M, C, dtype=torch.float64)
    block, memory = inputs[:, S:], inputs[:, :S]
    share = attention.eval()(block, memory, position)
    torch.manual_seed(0)
    drawn = torch.stack([attention.train()(block, memory, position) for _ in range(1000)])
    assert torch.allclose(drawn.mean(0), share, atol=0.1)
    assert drawn.std() > 0.1


@pytest.mark.parametrize(
    "options, words",
    [
        ({"span": 0}, "span of 0"),
        ({"persistent": -1}, "-1 persistent"),
        ({"ramp": 0}, "ramp of 0"),
        ({"heads": 3, "head_dim": None}, "not divisible by 3"),
    ],
)
def test_wrong_sizes_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        SpanConfig(**{"embed_dim": C, "heads": H, "span": S, **options})


def test_head_split_refuses_an_odd_number_of_heads():
    with pytest.raises(ValueError, match="even number of heads"):
        ATTENTIONS["head-split"](SpanConfig(embed_dim=9, heads=3, span=S, persistent=N))


@pytest.mark.parametrize("tokens", [64, 65, 100])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_a_long_block_in_pieces_equals_short_blocks(name, tokens):
    attention, position = make(name, ramp=2, trim_step=1, value_positions=True)
    width = attention.width()
    torch.manual_seed(3)
    inputs = torch.randn(B, width + tokens, C, dtype=torch.float64, requires_grad=True)
    blocks = [inputs[:, begin : begin + width + 9] for begin in range(0, tokens, 9)]
    short = [attention(block[:, width:], block[:, :width], position) for block in blocks]
    long = attention(inputs[:, width:], inputs[:, :width], position)
    assert torch.allclose(long, torch.cat(short, dim=1), atol=1e-12)
    leaves = [inputs, *attention.parameters(), *position.parameters()]
    for a, b in zip(gradients(long, *leaves), gradients(torch.cat(short, dim=1), *leaves), strict=True):
        assert torch.allclose(a, b, atol=1e-11)


@pytest.mark.parametrize("options", [{}, {"ramp": 2}, {"value_positions": True}])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_crossed_heads_look_at_keys_values_and_persistent_vectors_of_others(name, options):
    attention, position = make(name, cross_head_p=1.0, **options)
    visited = [2, 0, 3, 1]
    attention.cross_head.draw = lambda: torch.tensor(visited)
    inputs = torch.randn(B, S + M, C, dtype=torch.float64)
    y = attention(inputs[:, S:], inputs[:, :S], position)
    assert torch.allclose(y, naive(name, attention, position, inputs, visited), atol=1e-10)
