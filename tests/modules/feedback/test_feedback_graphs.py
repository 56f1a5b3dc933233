"""Blocks as graphs, with a stand-in for CUDA's (see tape.py), against the same operations one by one: bit for bit."""

import copy
import gc

import pytest
import torch
from tape import TapeCapture

from fairseq_plugins.modules.feedback import graphs
from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.stack import ENGINES, FeedbackStack
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.feedback.window import MemoryWindow

B, C, HEADS, LAYERS, STEPS, SOURCE = 2, 8, 2, 3, 5, 4


@pytest.fixture(autouse=True)
def capture(monkeypatch):
    made = TapeCapture()
    monkeypatch.setattr(graphs, "capture_for", lambda device: made)
    return made


def config(**options):
    return FeedbackLayerConfig(**{"embed_dim": C, "ffn_dim": 12, "heads": HEADS, "dropout": 0.2, **options})


RATES = {"attention_dropout": 0.2, "activation_dropout": 0.1}


def stream(memory="weighted", kv="shared", **window):
    window = MemoryWindow(6, LAYERS, HEADS, C // HEADS, **window)
    layers = config(pre_norm=True, attention_bias=False, activation="gelu", **RATES)
    module = FeedbackStream(layers, LAYERS, window, memory, kv)
    for adaptive in window.spans:
        adaptive.span_ratio.data.uniform_(0.3, 1)
    return module


class Stream:
    """Blocks of a stream, in training; the memory goes from block to block."""

    def __init__(self, **options):
        torch.manual_seed(0)
        self.module, self.memory = stream(**options), None
        self.stack = self.module.stack

    def inputs(self):
        return [torch.randn(B, STEPS, C)]

    def __call__(self, x):
        y, self.memory = self.module(x, self.memory)
        return y


class Translation:
    """Sentences, one or both with padding on the left, and an encoder's output."""

    def __init__(self, padded=False, **options):
        torch.manual_seed(0)
        self.module = self.stack = FeedbackStack(config(context_dim=C, **RATES), LAYERS, **options)
        self.padding = torch.zeros(B, STEPS, dtype=torch.bool) if padded else None
        self.context_padding = torch.zeros(B, SOURCE, dtype=torch.bool)

    def inputs(self):
        self.context_padding = torch.arange(SOURCE) >= torch.randint(2, SOURCE, (B, 1))
        if self.padding is not None:
            self.padding = torch.arange(STEPS) < torch.randint(0, 3, (B, 1))
        return [torch.randn(STEPS, B, C), torch.randn(B, SOURCE, C)]

    def __call__(self, x, context):
        return self.module(x, context, self.context_padding, self.padding)


CASES = {
    "stream": lambda: Stream(),
    "per-layer": lambda: Stream(kv="per-layer"),
    "spans": lambda: Stream(ramp=3, trim_step=2),
    "top": lambda: Stream(memory="top"),
    "recurrent": lambda: Stream(memory="recurrent", kv="per-layer"),
    "translation": lambda: Translation(),
    "padded translation": lambda: Translation(padded=True),
    "per-layer translation": lambda: Translation(kv="per-layer", memory="average"),
}


def updates(case, engine, count, micro_batches=2, autocast=False):
    """Losses, outputs and gradients of some updates, which change all weights."""
    case.stack.engine = ENGINES[engine]
    optimizer = torch.optim.SGD(case.module.parameters(), lr=0.1)
    torch.manual_seed(7)
    found = []
    for _ in range(count):
        optimizer.zero_grad()
        for _ in range(micro_batches):
            inputs = [x.requires_grad_() for x in case.inputs()]
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                y = case(*inputs)
            y.float().square().sum().backward()
            found += [y.detach(), *(x.grad for x in inputs)]
        found += [p.grad.clone() for p in case.module.parameters() if p.grad is not None]
        torch.nn.utils.clip_grad_norm_(case.module.parameters(), 1.0)
        optimizer.step()
    return [*found, torch.rand(1)]  # as many random numbers have been drawn


def assert_same(got, expected):
    assert len(got) == len(expected)
    assert all(torch.equal(a, b) for a, b in zip(got, expected))
    assert all(x.isfinite().all() for x in expected)


@pytest.mark.parametrize("name", CASES)
def test_updates_are_the_same_bit_for_bit(name, capture):
    assert_same(updates(CASES[name](), "fast", 3), updates(CASES[name](), "eager", 3))
    assert capture.captured == 2  # the graph of the forward and that of the backward pass


def test_half_precision_is_the_same(capture):
    for make in (Stream, Translation):
        capture.captured = 0
        assert_same(updates(make(), "fast", 3, autocast=True), updates(make(), "eager", 3, autocast=True))
        assert capture.captured == 2


@pytest.mark.parametrize("make", [Stream, Translation])
def test_evaluation_is_the_same(make, capture):
    case = make()
    case.module.eval()
    batches = [case.inputs() for _ in range(3)]

    @torch.no_grad()
    def outputs(engine):
        case.stack.engine, case.memory = ENGINES[engine], None
        return [case(*batch) for batch in batches for _ in range(2)]

    assert_same(outputs("fast"), outputs("eager"))
    assert capture.captured == 1  # no backward pass
