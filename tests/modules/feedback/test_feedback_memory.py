import pytest
import torch
from engine_comparison import ENGINES

from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.memory import (
    build_composition,
    mix,
    mix_backward_mixing,
    mix_backward_outputs,
)
from fairseq_plugins.modules.feedback.stack import FeedbackStack
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.feedback.window import MemoryWindow


@pytest.mark.parametrize("name, row", [
    ("weighted", [1 / 3, 1 / 3, 1 / 3]), ("average", [1 / 3, 1 / 3, 1 / 3]), ("top", [0, 0, 1]),
    ("layer-0", [1, 0, 0]), ("layer-1", [0, 1, 0]),
])  # fmt: skip
def test_coefficients_at_the_start(name, row):
    memory = build_composition(name, 2)
    assert memory.mixing().tolist() == [pytest.approx(row)]
    assert sum(p.numel() for p in memory.parameters()) == (3 if name == "weighted" else 0)


def test_recurrent_memory_sees_its_own_layer_and_those_below():
    memory = build_composition("recurrent", 3)
    torch.nn.init.normal_(memory.layer_logits[1])
    mixing = memory.mixing()
    assert torch.equal(mixing != 0, torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], dtype=torch.bool))
    assert torch.allclose(mixing.sum(1), torch.ones(3))


@pytest.mark.parametrize("name", ["layer-3", "bottom", "layer-"])
def test_unknown_names_are_refused(name):
    with pytest.raises(ValueError, match=name):
        build_composition(name, 2)


# Equation (1)


def outputs(levels=4):
    return list(torch.randn(levels, 3, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64))


MIXING = torch.tensor([[0.1, 0.4, 0.2, 0.3], [0.5, 0.5, 0.0, 0.0]], dtype=torch.float64)


def test_a_memory_is_the_sum_of_equation_1():
    x = outputs()
    weighted, recurrent = mix(MIXING, x)
    assert torch.allclose(weighted, 0.1 * x[0] + 0.4 * x[1] + 0.2 * x[2] + 0.3 * x[3], atol=1e-12)
    assert torch.allclose(recurrent, 0.5 * x[0] + 0.5 * x[1], atol=1e-12)


def test_the_derivatives_of_equation_1_are_those_of_autograd():
    mixing, x = MIXING.clone().requires_grad_(), [level.requires_grad_() for level in outputs()]
    memories = mix(mixing, x)
    cotangents = list(torch.randn(2, 3, 5, dtype=torch.float64))
    d_mixing, *dx = torch.autograd.grad(memories, [mixing, *x], cotangents)
    assert torch.allclose(mix_backward_outputs(cotangents, MIXING), torch.stack(dx), atol=1e-12)
    assert torch.allclose(mix_backward_outputs(cotangents[:1], MIXING[:1])[2], 0.2 * cotangents[0], atol=1e-12)
    ours = mix_backward_mixing(cotangents, x)
    assert torch.allclose(ours[MIXING > 0], d_mixing[MIXING > 0], atol=1e-12)


def test_the_memory_of_a_stream_is_made_by_equation_1():
    """By both engines, of the outputs of all layers."""
    window = MemoryWindow(2, 2, 2, 4)
    stream = FeedbackStream(FeedbackLayerConfig(8, 8, 2), 2, window).double()
    torch.nn.init.normal_(stream.stack.memory.layer_logits)
    x = torch.randn(3, 1, 8, dtype=torch.float64)
    logits = stream.stack.memory.layer_logits.softmax(0)
    for engine in ENGINES.values():
        stream.stack.engine = engine
        one_layer = [x[:, 0]]
        for layers in (1, 2):
            below = FeedbackStack(stream.stack.layers[0].config, layers, window=MemoryWindow(2, layers, 2, 4)).double()
            below.layers, below.window.position = stream.stack.layers[:layers], window.position
            one_layer.append(below.advance(x.transpose(0, 1), below.initial_memory(x[:, 0]))[0][0])
        expected = sum(weight * level for weight, level in zip(logits, one_layer, strict=True))
        _, memory = stream(x)
        assert torch.allclose(memory.vectors[0][:, -1], expected, atol=1e-12)
