"""The modules in a training loop of your own, without fairseq: one example for each family of models.

Each example trains on a text that repeats eleven numbers, until the model predicts the next one, and then decodes token
by token. All examples run twice: in this process, and in one in which fairseq cannot be imported.

B streams, M block length, V vocabulary, C width.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_plugins.modules import (
    ActiveMemoryStack,
    FeedbackLayerConfig,
    FeedbackStream,
    MemoryWindow,
    MixerConfig,
    SkipRetain,
    SpanConfig,
    SpanStack,
    StreamMemory,
    XLConfig,
    XLStack,
    integration,
)
from fairseq_plugins.modules.contracts import StreamBody

B, M, V, C = 2, 8, 5, 16
EPOCHS, LEARNING_RATE = 12, 1e-2


def text() -> Tensor:
    """Tokens [B, 6 M + 1]: a pattern of eleven, repeated; each stream begins at another place."""
    pattern = torch.tensor([0, 1, 0, 2, 0, 3, 0, 4, 1, 2, 1])
    places = torch.arange(6 * M + 1) + torch.tensor([[0], [4]])
    return pattern[places % len(pattern)]


class LanguageModel(nn.Module):
    """An embedding, layers, and an output layer."""

    def __init__(self, layers: nn.Module):
        super().__init__()
        self.embed, self.layers, self.output = nn.Embedding(V, C), layers, nn.Linear(C, V)


# Language models over streams: a memory goes from block to block


def train_on_streams(model: LanguageModel, after_update=lambda: None, penalty=lambda: 0.0) -> list[float]:
    """The loss of every block."""
    optimizer, losses, tokens = torch.optim.Adam(model.parameters(), LEARNING_RATE), [], text()
    for _ in range(EPOCHS):
        memory = None  # the streams start
        for inputs, targets in zip(tokens[:, :-1].split(M, dim=1), tokens[:, 1:].split(M, dim=1), strict=True):
            y, memory = model.layers(model.embed(inputs), memory)
            loss = F.cross_entropy(model.output(y).flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            (loss + penalty()).backward()
            optimizer.step()
            after_update()
            losses.append(loss.item())
    return losses


@torch.no_grad()
def check_decoding_of_streams(model: LanguageModel) -> None:
    """A block after a block gives the same as single steps after a block."""
    model.eval()
    x = model.embed(text()[:, : 3 * M])
    _, memory = model.layers(x[:, : 2 * M])
    block, _ = model.layers(x[:, 2 * M :], memory)
    state = model.layers.start(memory, x[:, 0])
    steps = [model.layers.step(state, x[:, t]) for t in range(2 * M, 3 * M)]
    assert torch.allclose(torch.stack(steps, dim=1), block, atol=1e-5)


def feedback_transformer() -> list[float]:
    """The Feedback Transformer over a stream: each step attends to the memories of the last 12 steps."""
    config = FeedbackLayerConfig(embed_dim=C, ffn_dim=32, heads=2, pre_norm=True)
    window = MemoryWindow(span=12, num_layers=2, heads=2, head_dim=C // 2)
    model = LanguageModel(FeedbackStream(config, num_layers=2, window=window))
    losses = train_on_streams(model)
    check_decoding_of_streams(model)
    return losses


def all_attention() -> list[float]:
    """The all-attention network: persistent vectors instead of feed-forward layers, and adaptive spans. The spans have
    a penalty, and are brought back into their range after each update."""
    config = SpanConfig(embed_dim=C, heads=2, span=16, persistent=20, ramp=4, initial_span=0.5, pre_norm=True)
    model = LanguageModel(SpanStack(config, num_layers=2, design=integration("all-attn", config.persistent)))
    spans = [layer.attention.span for layer in model.layers.layers]
    losses = train_on_streams(
        model,
        after_update=lambda: [span.clamp_() for span in spans],
        penalty=lambda: sum(span.loss(1e-4) for span in spans),
    )
    check_decoding_of_streams(model)
    return losses


def skip_cross_head_transformer_xl() -> list[float]:
    """Transformer-XL with Skip-Retain and cross-head attention. Skip-Retain has to know the number of the update. The
    parameters of a skipped layer get no gradient, so torch's optimizers leave them as they are."""
    config = XLConfig(embed_dim=C, heads=2, ffn_dim=32, mem_len=12, same_length=True, cross_head_p=0.1)
    skip = SkipRetain("not-last", layers=3, p=0.1)
    model = LanguageModel(XLStack(config, num_layers=3, skip=skip))
    losses = train_on_streams(model, after_update=lambda: skip.set_num_updates(skip.update + 1))
    check_decoding_of_streams(model)
    return losses


def memory_of_its_own() -> list[float]:
    """StreamMemory: a memory that is handed around, saved to a file and loaded, whatever the family of the model."""
    body: StreamBody = XLStack(XLConfig(embed_dim=C, heads=2, ffn_dim=32, mem_len=12), num_layers=2)
    model, memory, loaded = LanguageModel(body), StreamMemory(), StreamMemory()
    losses = train_on_streams(model)
    x = model.eval().embed(text()[:, : 2 * M])

    def run(block: Tensor, memory: StreamMemory) -> Tensor:
        memory.claim(model)
        y, after = body(block, memory.read(body.memory_type))
        memory.advance(after, tokens=block.size(1))
        return y

    run(x[:, :M], memory)
    loaded.load_state_dict(memory.state_dict())
    assert torch.equal(run(x[:, M:], loaded), run(x[:, M:], memory)) and loaded.position == 2 * M
    return losses


# Models of sequences


def active_memory() -> list[float]:
    """Active memory: convolutions and self-attention, added up, in each layer. A sequence starts from nothing."""
    config = MixerConfig(embed_dim=C, kernel_size=4, heads=2)
    model = LanguageModel(ActiveMemoryStack(config, 2, "self-attention+persistent-convolution", ffn_dim=32))
    optimizer, losses, tokens = torch.optim.Adam(model.parameters(), LEARNING_RATE), [], text()
    for _ in range(6 * EPOCHS):
        y = model.layers(model.embed(tokens[:, :-1]))
        loss = F.cross_entropy(model.output(y).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    with torch.no_grad():
        x = model.eval().embed(tokens)
        state = model.layers.start(x[:, 0])
        steps = [model.layers.step(state, x[:, t]) for t in range(x.size(1))]
        assert torch.allclose(torch.stack(steps, dim=1), model.layers(x), atol=1e-5)
    return losses


EXAMPLES = [feedback_transformer, all_attention, skip_cross_head_transformer_xl, memory_of_its_own, active_memory]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_learns_and_decodes(example):
    torch.manual_seed(1)
    losses = example()
    assert sum(losses[-6:]) / 6 < 0.3 * losses[0]


def test_the_examples_run_without_fairseq():
    """sys.modules[name] = None makes every import of that name fail, as if it were not installed."""
    program = (
        "import sys; sys.modules['fairseq'] = None\n"
        "from test_plain_torch import EXAMPLES\n"
        "for example in EXAMPLES:\n"
        "    example()\n"
        "print(*sorted(name for name in sys.modules if name.startswith('fairseq_plugins.')))"
    )
    paths = [Path(__file__).parent, Path(__file__).parents[2]]
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    imported = {name for name in run.stdout.split() if not name.startswith("fairseq_plugins.modules")}
    startup = "fairseq_plugins.startup"
    assert imported == {startup, f"{startup}.activation", f"{startup}.late_imports"}
