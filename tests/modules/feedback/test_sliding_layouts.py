"""Keys and values of a stream in each layout: the same numbers as the plain loop, in training and step by step."""

import pytest
import torch
from engine_comparison import assert_engines_agree, use_engine

from fairseq_plugins.modules.feedback.engine import loop, recurrence, sliding_cache, state
from fairseq_plugins.modules.feedback.engine.sliding_cache import AcrossSums, AlongSums, ByPosition
from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.feedback.window import MemoryWindow

B, C, HEADS, LAYERS, SPAN, STEPS = 3, 8, 2, 2, 5, 4


@pytest.fixture(params=[AlongSums, AcrossSums, ByPosition])
def layout(request, monkeypatch):
    monkeypatch.setattr(state, "fastest_layout", lambda device: request.param)
    return request.param


@pytest.fixture
def module():
    torch.manual_seed(0)
    config = FeedbackLayerConfig(C, 12, HEADS, attention_bias=False, pre_norm=True, activation="gelu")
    window = MemoryWindow(SPAN, LAYERS, HEADS, C // HEADS, ramp=2, initial=0.5, trim_step=1)
    return FeedbackStream(config, LAYERS, window, kv="per-layer").double()


def test_training_agrees_with_the_plain_loop(layout, module):
    def run(x):
        memory, outputs = None, []
        for steps in x.split(STEPS, dim=1):
            y, memory = module(steps, memory)
            outputs.append(y)
        return {"output": torch.cat(outputs, dim=1)}

    assert_engines_agree(module, run, {"x": torch.randn(B, 3 * STEPS, C, dtype=torch.double)})


@torch.no_grad()
def test_steps_agree_with_the_plain_loop(layout, module, monkeypatch):
    """The window moves to the front of the buffers, a row begins anew, and rows change their places."""
    for part in (loop, recurrence):
        monkeypatch.setattr(part, "STREAM_CAPACITY", 3)
    x = torch.randn(8, B, C, dtype=torch.double)

    def outputs(engine):
        use_engine(module, engine)
        state, found = module.start(None, x[0]), []
        for step, x_t in enumerate(x):
            found.append(module.step(state, x_t))
            if step == 3:
                module.restart(state, torch.tensor([False, True, False]))
            if step == 5:
                state.reorder(torch.tensor([2, 0, 1]))
        return torch.stack(found)

    assert (outputs("fast") - outputs("plain")).abs().max() < 1e-12


@torch.no_grad()
def test_a_new_order_of_rows_leaves_the_layout(layout):
    source = layout(B, HEADS, 4, SPAN, STEPS, torch.zeros(B, C))
    strides = source.keys.stride(), source.values.stride()
    source.reorder(torch.tensor([1, 0, 2]))
    assert (source.keys.stride(), source.values.stride()) == strides


@pytest.mark.parametrize("vendor, expected", [("GenuineIntel", AcrossSums), ("AuthenticAMD", AlongSums)])
def test_the_processor_decides(vendor, expected, monkeypatch):
    monkeypatch.setattr(sliding_cache, "processor", lambda: f"vendor_id\t: {vendor}")
    choose = sliding_cache.fastest_layout.__wrapped__
    assert choose(torch.device("cpu")) is expected
    assert choose(torch.device("meta")) is ByPosition
