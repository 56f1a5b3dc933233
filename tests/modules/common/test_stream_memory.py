"""The memory of streams: its owner, its start, and its file."""

from pathlib import Path

import pytest
import torch
from torch import nn

from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.feedback.window import MemoryWindow
from fairseq_plugins.modules.recurrent import GRUMemory, LSTMMemory, LSTMStack
from fairseq_plugins.modules.span.attention import SpanConfig
from fairseq_plugins.modules.span.stack import SpanMemory, SpanStack, integration
from fairseq_plugins.modules.transformer_xl.ages import Run
from fairseq_plugins.modules.transformer_xl.attention import XLConfig
from fairseq_plugins.modules.transformer_xl.stack import LayerMemory, XLMemory, XLStack


def test_it_starts_empty_and_advances():
    memory, content = StreamMemory(), SpanMemory([torch.zeros(2, 5, 3)])
    assert memory.read(SpanMemory) is None and memory.position == 0 and memory.tensors() == []
    memory.advance(SpanMemory([]), tokens=4)
    memory.advance(content, tokens=3)
    assert memory.position == 7
    assert memory.read(SpanMemory) is content
    memory.reset()
    assert memory.read(SpanMemory) is None and memory.position == 0


def test_a_memory_with_history_is_refused():
    memory, x = StreamMemory(), torch.zeros(2, 5, 3, requires_grad=True)
    with pytest.raises(ValueError, match="a SpanMemory carries history for autograd; detach its tensors"):
        memory.advance(SpanMemory([x.detach(), 2 * x]), tokens=5)
    assert memory.position == 0 and memory.content is None


def test_a_memory_of_another_family_is_refused():
    memory = StreamMemory()
    memory.advance(SpanMemory([]), tokens=4)
    with pytest.raises(ValueError, match="is a SpanMemory, the model needs a LSTMMemory"):
        memory.read(LSTMMemory)


def test_a_second_model_is_refused_until_it_is_reset():
    memory, one, other = StreamMemory(), nn.Linear(1, 1), nn.Linear(1, 1)
    memory.claim(one)
    memory.claim(one)
    with pytest.raises(ValueError, match="another model"):
        memory.claim(other)
    memory.copy().claim(other)
    memory.reset()
    memory.claim(other)


SKIPPED = XLMemory([
    LayerMemory(torch.rand(1, 4, 2), (Run(4, 1),)),
    LayerMemory(torch.rand(1, 5, 2), (Run(2, 9), Run(3, 1))),
])  # fmt: skip
CONTENTS = {
    "span": SpanMemory([torch.rand(1, 2, 3), torch.rand(1, 4, 3)]),
    "lstm": LSTMMemory(torch.rand(1, 2, 3), torch.rand(1, 2, 3)),
    "gru": GRUMemory(torch.rand(1, 2, 3)),
    "transformer-xl": XLMemory([LayerMemory(torch.rand(1, 4, 2), (Run(4, 1),))]),
    "transformer-xl without tokens": XLMemory([LayerMemory(torch.rand(1, 0, 2), ())]),
    "skip-retain": SKIPPED,
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_memory_saved_and_loaded_goes_on_where_it_was(content, tmp_path):
    memory, loaded = StreamMemory(), StreamMemory()
    memory.advance(content, tokens=2)
    torch.save(memory.state_dict(), tmp_path / "memory.pt")
    loaded.load_state_dict(torch.load(tmp_path / "memory.pt", weights_only=True), device="cpu")
    assert loaded.position == 2
    for other in (loaded, loaded.copy()):
        again = other.read(type(content))
        assert type(again) is type(content)
        for ours, theirs in zip(again.tensors(), content.tensors(), strict=True):
            assert torch.equal(ours, theirs)
    if isinstance(content, XLMemory):
        assert [layer.ages for layer in again.layers] == [layer.ages for layer in content.layers]


def test_a_memory_that_was_not_read_is_saved_again_as_it_was():
    memory, loaded = StreamMemory(), StreamMemory()
    memory.advance(SKIPPED, tokens=2)
    loaded.load_state_dict(memory.state_dict())
    for ours, theirs in zip(loaded.state_dict()["caches"], memory.state_dict()["caches"], strict=True):
        assert torch.equal(ours, theirs)


# Files of the first version


def bodies():
    config = FeedbackLayerConfig(8, 8, 2, attention_bias=False, pre_norm=True)
    return {
        "feedback": FeedbackStream(config, 2, MemoryWindow(6, 2, 2, 4)),
        "feedback-recurrent": FeedbackStream(config, 2, MemoryWindow(6, 2, 2, 4), memory="recurrent"),
        "span": SpanStack(SpanConfig(8, 2, 6, persistent=3), 2, integration("all-attn", 3)),
        "transformer-xl": XLStack(XLConfig(8, 2, 8, 6), 3),
        "skip-retain": XLStack(XLConfig(8, 2, 8, 6), 3),
        "lstm": LSTMStack(8, 2),
    }


@pytest.mark.parametrize("name", bodies())
@torch.no_grad()
def test_memories_of_the_first_version_are_read(name):
    """The file holds memories of that version and its next outputs. One memory is of a layer that was skipped."""
    saved = torch.load(Path(__file__).with_name("memories_of_0_1.pt"), weights_only=True)[name]
    body, memory = bodies()[name].eval(), StreamMemory()
    body.load_state_dict(saved["parameters"])
    memory.load_state_dict(saved["memory"])
    y, _ = body(saved["x"], memory.read(body.memory_type))
    assert memory.position == 12
    assert torch.allclose(y, saved["y"], atol=1e-6)
    assert not torch.allclose(body(saved["x"])[0], saved["y"], atol=1e-3)  # the memory matters


@pytest.mark.parametrize("name", bodies())
@pytest.mark.parametrize("more", [-1, 1])
def test_a_memory_of_another_number_of_layers_is_refused(name, more):
    body, memory = bodies()[name], StreamMemory()
    x = torch.randn(2, 3, 8)
    tensors = body(x)[1].tensors()
    memory.load_state_dict({"caches": [tensors[0]] * (len(tensors) + more) or tensors * 3, "position": 3})
    with pytest.raises(ValueError, match="the memory (is|holds|of)"):
        body(x, memory.read(body.memory_type))


@pytest.mark.parametrize(
    "state, words",
    [
        ({"caches": [], "position": 15}, "memory of 15 tokens is empty"),
        ({"caches": [torch.rand(1, 4, 2), torch.tensor([[0, 3, 1]])], "position": 4}, "ages in the memory"),
    ],
)
def test_a_damaged_memory_is_refused(state, words):
    memory = StreamMemory()
    with pytest.raises(ValueError, match=words):
        memory.load_state_dict(state)
        memory.read(XLMemory)
