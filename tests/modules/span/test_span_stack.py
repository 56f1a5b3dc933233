"""Layers over streams: their memories, and the integrations of persistent vectors."""

import pytest
import torch

from fairseq_plugins.modules.span.attention import SpanConfig
from fairseq_plugins.modules.span.stack import (
    INTEGRATIONS,
    TRANSFORMER,
    SoftmaxFeedForward,
    SpanMemory,
    SpanStack,
    integration,
)

B, T, C, S, L = 3, 23, 8, 5, 3
DESIGNS = {"transformer": TRANSFORMER, **INTEGRATIONS}


def make(name="all-attn", **options):
    torch.manual_seed(1)
    sizes = {"embed_dim": C, "heads": 4, "span": S, "ffn_dim": 16, "persistent": 6}
    stack = SpanStack(SpanConfig(**{**sizes, **options}), L, DESIGNS[name]).double()
    for parameter in stack.parameters():  # LayerNorms too: a zero in a memory is not zero after them
        if parameter.dim() == 1 and "ramp" not in options:
            parameter.data += 0.1 * torch.randn_like(parameter)
    return stack


def embeddings():
    torch.manual_seed(2)
    return torch.randn(B, T, C, dtype=torch.float64)


def test_zeros_before_the_stream_are_attended_to():
    stack, x = make("transformer", span=4), embeddings()
    attention = stack.layers[0].attention
    seen = []
    attention.register_forward_hook(lambda module, inputs, output: seen.append(output))
    stack.position.weight.data.zero_()
    attention.q_proj.weight.data.zero_()
    stack(x)
    # equal scores: the second token's output is a quarter of its only predecessor's value, the rest are zeros
    assert torch.allclose(seen[0][:, 1], attention.out_proj(attention.v_proj(x[:, 0])) / 4, atol=1e-12)


def test_spans_that_grow_find_zeros_where_nothing_was_kept():
    stack, x = make(span=80, ramp=2, trim_step=2), embeddings()
    ratios = [layer.attention.span.span_ratio for layer in stack.layers]
    _, memory = stack(x)
    assert {inputs.size(1) for inputs in memory.inputs} == {2 + 64}
    for ratio in ratios:
        ratio.data.fill_(1.0)
    grown, after = stack(x, memory)
    padded = [torch.nn.functional.pad(inputs, (0, 0, 14, 0)) for inputs in memory.inputs]
    assert torch.equal(grown, stack(x, SpanMemory(padded))[0])
    assert {inputs.size(1) for inputs in after.inputs} == {80}


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_without_persistent_vectors_every_integration_is_attention_alone(name):
    config = SpanConfig(embed_dim=C, heads=4, span=S)
    torch.manual_seed(0)
    stack = SpanStack(config, L, integration(name, 0))
    assert all(layer.sublayer is None and not hasattr(layer.attention, "persistent") for layer in stack.layers)
    assert torch.isfinite(stack(embeddings().float())[0]).all()


def test_unknown_integrations_are_refused_with_the_names_there_are():
    with pytest.raises(ValueError, match="'sum' is not one of all-attn, attn-split"):
        integration("sum", 6)


def test_ff_attn_is_equation_9():
    """U Softmax(V x), with the feed-forward sublayer's matrices and no biases."""
    torch.manual_seed(0)
    sublayer = SoftmaxFeedForward(SpanConfig(embed_dim=C, heads=4, span=S, persistent=6)).double()
    x = torch.randn(B, T, C, dtype=torch.float64)
    V, U = sublayer.persistent.key[0], 6**0.5 * sublayer.persistent.value[0].t()
    assert (V.shape, U.shape) == ((6, C), (C, 6))
    expected = torch.stack([U @ (V @ token).softmax(0) for token in x.flatten(0, 1)]).view_as(x)
    assert torch.allclose(sublayer(x), expected, atol=1e-12)


def test_ff_attn_follows_attention_with_a_layer_norm_of_its_own():
    layer = make("ff-attn").layers[0]
    x, y = torch.randn(2, B, C, dtype=torch.float64)
    z = layer.attention_norm(x + y)
    assert torch.equal(layer.add(x, y), layer.sublayer_norm(z + layer.sublayer(z)))


def test_pre_norm_starts_with_small_residual_branches():
    ends = {}
    for pre_norm in (False, True):
        torch.manual_seed(0)
        layer = SpanStack(SpanConfig(embed_dim=C, heads=4, span=S, ffn_dim=16, pre_norm=pre_norm), 8).layers[3]
        ends[pre_norm] = layer.attention.out_proj.weight, layer.sublayer.fc2.weight, layer.sublayer.fc2.bias
    for plain, scaled in zip(ends[False], ends[True]):
        assert torch.allclose(scaled, plain / 4)  # sqrt(2 * 8)
