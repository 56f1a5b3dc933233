"""The Feedback Transformer over streams: the fast engine against the plain loop."""

import itertools

import pytest
import torch
from engine_comparison import ENGINES, assert_autocast_is_as_exact_as_the_plain_loop, assert_engines_agree, use_engine

from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.memory import FeedbackMemory
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.feedback.window import MemoryWindow

B, C, HEADS, HEAD_DIM, LAYERS = 3, 10, 2, 4, 3  # heads times their width is not the model's width
SPANS = {"fixed": {}, "adaptive": {"ramp": 3, "trim_step": 2}}


def build(span=6, kind="fixed", memory="weighted", kv="shared", **options):
    torch.manual_seed(0)
    config = FeedbackLayerConfig(
        embed_dim=C, ffn_dim=14, heads=HEADS, head_dim=HEAD_DIM, attention_bias=False, **options
    )
    window = MemoryWindow(span, LAYERS, HEADS, HEAD_DIM, **SPANS[kind])
    stream = FeedbackStream(config, LAYERS, window, memory, kv).double()
    for parameter in stream.parameters():  # away from the symmetries of the initial values
        torch.nn.init.normal_(parameter, std=0.5)
    for layer, adaptive in enumerate(window.spans):  # layers and heads of different spans, the widest less than all
        adaptive.span_ratio.data.copy_(torch.tensor([0.07, 0.11 + 0.1 * layer]))
    return stream


def embeddings(steps, batch=B):
    return torch.randn(batch, steps, C, generator=torch.Generator().manual_seed(1), dtype=torch.double)


def assert_engines_agree_over_blocks(stream, x, blocks):
    def run(x):
        memory, outputs = None, []
        for block in x.split(blocks, dim=1):
            y, memory = stream(block, memory)
            outputs.append(y)
        return {
            "output": torch.cat(outputs, dim=1),
            **{f"memory{i}": vectors for i, vectors in enumerate(memory.vectors)},
        }

    assert_engines_agree(stream, run, {"x": x})


@pytest.mark.parametrize(
    "kind, memory, kv, pre_norm",
    list(itertools.product(SPANS, ["weighted", "top", "layer-0", "recurrent"], ["shared", "per-layer"], [False, True])),
)
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_engines_agree(kind, memory, kv, pre_norm, rate):
    stream = build(kind=kind, memory=memory, kv=kv, pre_norm=pre_norm, attention_dropout=rate, activation_dropout=rate)
    assert_engines_agree_over_blocks(stream, embeddings(10), blocks=5)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("blocks", [2, 9])  # shorter and longer than the span
def test_memories_are_normalised_twice_from_the_second_block_on(engine, blocks):
    """By hand: each block's own memories go through the lowest layer's LayerNorm before the next block sees them, which
    normalises all memories as ever; those of earlier blocks and the zeros of the start are left as they are."""
    stream, x = build(pre_norm=True, kv="per-layer").eval(), embeddings(3 * blocks)
    use_engine(stream, engine)
    norm, by_hand, ours = stream.stack.layers[0].self_attn_layer_norm, None, None
    with torch.no_grad():
        for block in x.split(blocks, dim=1):
            stream.stack.normalise_twice = False
            expected, ((vectors,),) = stream(block, by_hand)
            own = min(blocks, 6)
            by_hand = FeedbackMemory([torch.cat([vectors[:, :-own], norm(vectors[:, -own:])], dim=1)])
            stream.stack.normalise_twice = True
            y, after = stream(block, ours)
            state = stream.start(ours, block[:, 0])
            steps = torch.stack([stream.step(state, x_t) for x_t in block.unbind(1)], dim=1)
            assert torch.allclose(y, expected, atol=1e-12) and torch.allclose(steps, expected, atol=1e-12)
            ours = FeedbackMemory.from_tensors([tensor.clone() for tensor in after.tensors()])  # as from a file
    assert torch.allclose(ours.vectors[0], by_hand.vectors[0], atol=1e-12)


@pytest.mark.parametrize("kind", SPANS)
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_is_as_exact_as_with_the_plain_loop(kind, pre_norm, dtype):
    """With GELU: where rounding turns a ReLU on or off, a gradient jumps."""
    torch.manual_seed(0)
    config = FeedbackLayerConfig(C, 14, HEADS, head_dim=HEAD_DIM, pre_norm=pre_norm, activation="gelu")
    stream = FeedbackStream(config, LAYERS, MemoryWindow(12, LAYERS, HEADS, HEAD_DIM, **SPANS[kind]))
    assert_autocast_is_as_exact_as_the_plain_loop(
        stream, lambda stream, x: {"output": stream(x)[0]}, {"x": embeddings(32).float()}, dtype
    )


@pytest.mark.parametrize("kind", SPANS)
@pytest.mark.parametrize("span, blocks", [(6, 1), (6, 2), (3, 7), (1, 4), (12, 3), (120, 5)])  # of 120 some are cut off
def test_engines_agree_whatever_the_block_and_the_span(kind, span, blocks):
    assert_engines_agree_over_blocks(build(span, kind, pre_norm=True), embeddings(2 * blocks + 1), blocks)


def test_a_grown_span_sees_zeros_where_nothing_was_kept():
    stream, x = build(span=120, kind="adaptive").eval(), embeddings(9)
    with torch.no_grad():
        _, memory = stream(x)
        (vectors,) = memory.vectors
        for adaptive in stream.stack.window.spans:
            adaptive.span_ratio.fill_(1.0)
        y, after = stream(x, memory)
        padded = torch.nn.functional.pad(vectors, (0, 0, 120 - vectors.size(1), 0))
        assert vectors.size(1) < after.vectors[0].size(1) == 120
        assert torch.equal(y, stream(x, FeedbackMemory([padded]))[0])


def test_wrong_spans_are_refused():
    with pytest.raises(ValueError, match="span of 0"):
        MemoryWindow(0, LAYERS, HEADS, HEAD_DIM)


@pytest.mark.parametrize("kv", ["shared", "per-layer"])
@pytest.mark.parametrize("memory", ["weighted", "top"])
def test_recorded_steps_are_differentiated_without_doing_them_again(memory, kv):
    torch.manual_seed(1)
    config = FeedbackLayerConfig(8, 12, 2, attention_bias=False, pre_norm=True)
    body = FeedbackStream(config, 2, MemoryWindow(4, 2, 2, 4), memory, kv).double()
    x = torch.randn(3, 7, 8, dtype=torch.float64)
    _, before = body(torch.randn(3, 5, 8, dtype=torch.float64))
    results = []
    for stepwise in (False, True):
        body.zero_grad()
        leaf = x.clone().requires_grad_()
        if stepwise:
            state = body.start_recorded(before, x[:, 0], steps=7)
            stepped = torch.stack([body.step(state, x[:, t]) for t in range(7)], 1)
            y, after = body.finish(state, leaf)
            assert torch.allclose(stepped, y, atol=1e-12)
        else:
            y, after = body(leaf, before)
        (y * torch.linspace(1, 2, 8, dtype=torch.float64)).pow(2).sum().backward()
        grads = [parameter.grad for parameter in body.parameters() if parameter.grad is not None]
        results.append([y.detach(), leaf.grad, *after.tensors(), *(grad.clone() for grad in grads)])
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other, atol=1e-10)


@pytest.mark.parametrize("engine", ENGINES)
def test_other_parameters_for_one_call(engine):
    """As torch.func.functional_call has them: the module has its own again when the gradients are computed."""
    stream, x = build(pre_norm=True, kv="per-layer"), embeddings(4)
    use_engine(stream, engine)
    parameters = {name: (2 * value).detach().requires_grad_() for name, value in stream.named_parameters()}
    y, _ = torch.func.functional_call(stream, parameters, (x,))
    found = torch.autograd.grad(y.square().sum(), [*parameters.values()], allow_unused=True)
    with torch.no_grad():
        for value in stream.parameters():
            value.mul_(2)
    expected = torch.autograd.grad(stream(x)[0].square().sum(), [*stream.parameters()], allow_unused=True)
    torch.testing.assert_close(found, expected)
