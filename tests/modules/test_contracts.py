"""Every family meets its contract: in its methods, and in their results."""

from functools import partial

import architectures
import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_plugins.agents.model import Agent
from fairseq_plugins.modules.active_memory.mixers import MIXERS, MixerConfig, build_mixers
from fairseq_plugins.modules.contracts import BodyMemory, DecodingState, EpisodeBody, Mixer, Recurrence, StreamBody
from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.stack import ENGINES, FeedbackStack
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.feedback.window import MemoryWindow
from fairseq_plugins.modules.recurrent import GRUStack, LSTMStack
from fairseq_plugins.modules.span.attention import SpanConfig
from fairseq_plugins.modules.span.stack import INTEGRATIONS, TRANSFORMER, SpanStack
from fairseq_plugins.modules.transformer_xl.attention import XLConfig
from fairseq_plugins.modules.transformer_xl.stack import XLStack

B, C, HEADS, SPAN, L = 3, 8, 2, 4, 2
ORDER = torch.tensor([2, 0, 2, 1])  # a row is moved, a row is doubled


def feedback(memory="weighted", engine="fast", **options):
    config = FeedbackLayerConfig(C, 12, HEADS, attention_bias=False, pre_norm=True)
    return FeedbackStream(config, L, MemoryWindow(SPAN, L, HEADS, C // HEADS, **options), memory, engine=engine)


def span(design, **options):
    return SpanStack(SpanConfig(C, HEADS, SPAN, ffn_dim=12, persistent=3, **options), L, design)


def transformer_xl(**options):
    stack = XLStack(XLConfig(C, HEADS, 12, SPAN, same_length=True, **options), L)
    for biases in stack.biases:
        torch.nn.init.normal_(biases.content), torch.nn.init.normal_(biases.position)
    return stack


SPAN_DESIGNS = {"span": TRANSFORMER, **INTEGRATIONS}
SPAN_OPTIONS = {
    "": {},
    ", pre-norm": {"pre_norm": True, "value_positions": True},
    ", adaptive": {"ramp": 2, "initial_span": 0.25, "trim_step": 1, "pre_norm": True, "head_dim": 3},
}
XL_OPTIONS = {
    "": {},
    ", pre-norm": {"pre_norm": True, "untie_biases": True},
    ", clamped": {"clamp_len": 3, "initial_memory": "zeros"},
}


BODIES = {
    **{f"feedback, {engine}": partial(feedback, engine=engine) for engine in ENGINES},
    "feedback, recurrent": partial(feedback, "recurrent"),
    "feedback, adaptive": partial(feedback, "top", ramp=2, initial=0.25, trim_step=1),
    **{
        name + suffix: partial(span, design, **options)
        for name, design in SPAN_DESIGNS.items()
        for suffix, options in SPAN_OPTIONS.items()
    },
    **{"transformer-xl" + suffix: partial(transformer_xl, **options) for suffix, options in XL_OPTIONS.items()},
    "lstm": lambda: LSTMStack(C, L),
    "gru": lambda: GRUStack(C, L),
}


def build(make):
    torch.manual_seed(1)
    return make().double().eval()


def inputs(tokens=13):
    return torch.randn(B, tokens, C, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def assert_steps_equal(owner, state, x, expected):
    """Half of the steps in the batch as it is, the others after its rows have been reordered."""
    assert isinstance(state, DecodingState)
    half = x.size(1) // 2
    for t in range(half):
        assert torch.allclose(owner.step(state, x[:, t]), expected[:, t], atol=1e-12)
    state.reorder(ORDER)
    for t in range(half, x.size(1)):
        assert torch.allclose(owner.step(state, x[ORDER, t]), expected[ORDER, t], atol=1e-12)


@pytest.mark.parametrize("make", BODIES.values(), ids=BODIES)
@torch.no_grad()
def test_stream_body(make):
    body, x = build(make), inputs()
    assert isinstance(body, StreamBody)
    whole, _ = body(x)
    first, memory = body(x[:, :5])
    assert isinstance(memory, body.memory_type)
    assert torch.allclose(first, whole[:, :5], atol=1e-12)
    assert torch.allclose(body(x[:, 5:], memory)[0], whole[:, 5:], atol=1e-12)
    assert torch.allclose(body(x[1:2])[0], whole[1:2], atol=1e-12)
    assert_steps_equal(body, body.start(None, x[:, 0]), x, whole)
    assert_steps_equal(body, body.start(memory, x[:, 0]), x[:, 5:], whole[:, 5:])


@pytest.mark.parametrize("make", BODIES.values(), ids=BODIES)
def test_memory_of_a_stream_body(make):
    """It has no history, is not changed in place, and is the same after a detour over a list of tensors."""
    body, x = build(make), inputs()
    _, memory = body(x[:, :5].requires_grad_())
    assert isinstance(memory, BodyMemory)
    tensors = memory.tensors()
    assert not any(tensor.requires_grad for tensor in tensors)
    before = [tensor.clone() for tensor in tensors]
    y, after = body(x[:, 5:], memory)
    assert all(torch.equal(one, other) for one, other in zip(before, memory.tensors(), strict=True))
    again = body.memory_type.from_tensors(tensors)
    assert torch.equal(body(x[:, 5:], again)[0], y)
    assert any(not torch.equal(one, other) for one, other in zip(before, after.tensors(), strict=True))


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@torch.no_grad()
def test_recurrence(engine):
    torch.manual_seed(1)
    config = FeedbackLayerConfig(C, 12, HEADS)
    window = MemoryWindow(SPAN, L, HEADS, C // HEADS)
    stack = FeedbackStack(config, L, "recurrent", window=window).double().eval()
    x, mixing = inputs().transpose(0, 1), stack.memory.mixing()
    memories = [torch.randn(B, SPAN, C, dtype=torch.float64) for _ in range(L)]

    def start():
        return engine(stack.layers, mixing, limits=window.limits(), memories=memories)

    at_once, stepwise = start(), start()
    assert isinstance(at_once, Recurrence)
    expected = at_once.run(x)
    for t in range(6):
        y, attention = stepwise.step(x[t])
        assert torch.allclose(y, expected[t], atol=1e-12) and attention is None
    stepwise.reorder(ORDER)
    assert torch.allclose(stepwise.step(x[6, ORDER])[0], expected[6, ORDER], atol=1e-12)
    final = at_once.final_memories(SPAN)
    assert [vectors.shape for vectors in final] == [(B, SPAN, C)] * L
    on = engine(stack.layers, mixing, limits=window.limits(), memories=final)
    both = torch.cat([x, x])
    assert torch.allclose(on.run(x), start().run(both)[len(x) :], atol=1e-12)


@pytest.mark.parametrize("name", MIXERS)
@pytest.mark.parametrize("kernel_size", [1, 4, 16])
@torch.no_grad()
def test_mixer(name, kernel_size):
    torch.manual_seed(1)
    (mixer,) = build_mixers(name, MixerConfig(C, kernel_size, heads=HEADS), layers=1)
    mixer, x = mixer.double().eval(), inputs()
    assert isinstance(mixer, Mixer)
    assert_steps_equal(mixer, mixer.start(x[:, 0]), x, mixer(x))
    padding = torch.zeros(B, x.size(1), dtype=torch.bool)
    padding[:, 9:] = True
    assert torch.allclose(mixer(x, padding)[:, :9], mixer(x[:, :9]), atol=1e-12)


def test_a_class_without_the_methods_meets_no_contract():
    assert not isinstance(torch.nn.LSTM(C, C), StreamBody)
    assert not isinstance(torch.nn.Linear(C, C), Mixer)
    assert not isinstance([], DecodingState)


EPISODES = {name: make for name, make in BODIES.items() if "transformer-xl" not in name}


@pytest.mark.parametrize("make", EPISODES.values(), ids=EPISODES)
def test_a_row_starts_a_new_stream(make):
    body, x = build(make), inputs()
    assert isinstance(body, EpisodeBody)
    _, memory = body(x)
    with torch.no_grad():
        state = body.start(memory, x[:, 0])
        for t in range(6):
            body.step(state, x[:, t])
        body.restart(state, torch.tensor([False, True, False]))
        outputs = torch.stack([body.step(state, x[:, t]) for t in range(6, 13)], 1)
        went_on, fresh = body(x, memory)[0][:, 6:], body(x[1:2, 6:])[0][0]
    assert torch.allclose(outputs[[0, 2]], went_on[[0, 2]], atol=1e-12)
    assert torch.allclose(outputs[1], fresh, atol=1e-12)


@pytest.mark.parametrize("make", EPISODES.values(), ids=EPISODES)
def test_padding_leaves_the_memory_alone(make):
    body, x = build(make), inputs()
    _, before = body(inputs(3))
    _, memory = body(x, before, padding=torch.tensor([0, 4, 12]))
    _, whole = body(x, before)
    _, shorter = body(x[:, :9], before)
    _, shortest = body(x[:, :1], before)
    for row, expected in enumerate((whole, shorter, shortest)):
        for tensor, other in zip(memory.tensors(), expected.tensors(), strict=True):
            assert torch.allclose(tensor[row], other[row], atol=1e-12)


def test_every_registered_model_has_one_of_these_bodies():
    """An agent one whose rows may end and start at different steps."""
    ours = {
        arch: model for arch, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith("fairseq_plugins")
    }
    with_body = {arch: model for arch, model in ours.items() if hasattr(model, "build_body")}
    tiny = {model: arch for arch, model in with_body.items() if arch.endswith("_tiny")}
    assert {*tiny} == {*with_body.values()}
    for model, arch in tiny.items():
        built, agent = architectures.build(arch, words=24), issubclass(model, Agent)
        tried = {type(make()) for make in (EPISODES if agent else BODIES).values()}
        assert type(built.body if agent else built.decoder.body) in tried, arch
