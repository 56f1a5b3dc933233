"""How many operations a step of the recurrence takes, views left out. On a GPU each costs as much time as many numbers.

The limits are the present numbers: a change may lower them.
"""

import pytest
import torch
from operations import Operations

from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.stack import FeedbackStack
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.feedback.window import MemoryWindow

B, C, HEADS = 3, 16, 2


def language_model(layers=6, kv="shared", **options):
    """As the language models of the paper: pre-norm, no biases in attention, dropout within the sublayers."""
    config = FeedbackLayerConfig(
        C, 24, HEADS, attention_bias=False, pre_norm=True, attention_dropout=0.1, activation_dropout=0.1
    )
    body = FeedbackStream(config, layers, MemoryWindow(8, layers, HEADS, C // HEADS), kv=kv)
    return body, lambda x: body(x)[0]


def translation(layers):
    """As a decoder for translation: post-norm, an encoder, dropout after the sublayers."""
    stack = FeedbackStack(FeedbackLayerConfig(C, 24, HEADS, context_dim=C, dropout=0.3), layers)
    padding = torch.tensor([[False, False, True]] * B)
    return stack, lambda x: stack(x.transpose(0, 1), torch.randn(B, 3, C), padding)


def of_a_step(run, few=4, many=9) -> float:
    """`run(steps)` -> how many operations one more step takes."""
    run(few)  # from now on gradients are added to those that are there
    numbers = []
    for steps in (few, many):
        with Operations() as operations:
            run(steps)
        numbers.append(operations.number.total())
    return (numbers[1] - numbers[0]) / (many - few)


@pytest.mark.parametrize(
    "build, options, limit",
    [
        (language_model, {"kv": "shared"}, 189),
        (language_model, {"kv": "per-layer"}, 207),
        (translation, {"layers": 2}, 95),
        (translation, {"layers": 6}, 247),
    ],
)
def test_training(build, options, limit):
    module, forward = build(**options)
    module.train()
    assert of_a_step(lambda steps: forward(torch.randn(B, steps, C)).sum().backward()) <= limit


@pytest.mark.parametrize("build, options, limit", [(language_model, {}, 233), (translation, {"layers": 6}, 303)])
def test_training_with_autocast(build, options, limit):
    module, forward = build(**options)
    module.train()

    def run(steps):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = forward(torch.randn(B, steps, C))
        y.sum().backward()

    assert of_a_step(run) <= limit


@pytest.mark.parametrize("kv, limit", [("shared", 74), ("per-layer", 84)])
@torch.no_grad()
def test_decoding_of_a_language_model(kv, limit):
    body, _ = language_model(kv=kv)
    state = body.eval().start(None, torch.randn(B, C))
    body.step(state, torch.randn(B, C))
    assert of_a_step(lambda steps: [body.step(state, torch.randn(B, C)) for _ in range(steps)]) <= limit


@pytest.mark.parametrize("layers, limit", [(2, 47), (6, 127)])
@torch.no_grad()
def test_decoding_of_a_translation(layers, limit):
    stack, _ = translation(layers)
    state = stack.eval().start(torch.randn(B, 3, C), beam=2)
    stack.step(state, torch.randn(2 * B, C))
    assert of_a_step(lambda steps: [stack.step(state, torch.randn(2 * B, C)) for _ in range(steps)]) <= limit
