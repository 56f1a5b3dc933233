"""Streams and sentences whose blocks and steps of decoding can be CUDA graphs, and their results."""

import torch

from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.stack import ENGINES, FeedbackStack
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.feedback.window import MemoryWindow

B, C, HEADS, LAYERS, STEPS, SOURCE = 2, 8, 2, 3, 5, 4


def config(**options):
    return FeedbackLayerConfig(**{"embed_dim": C, "ffn_dim": 12, "heads": HEADS, "dropout": 0.2, **options})


RATES = {"attention_dropout": 0.2, "activation_dropout": 0.1}


def stream(memory="weighted", kv="shared", normalise_twice=False, **window):
    window = MemoryWindow(6, LAYERS, HEADS, C // HEADS, **window)
    layers = config(pre_norm=True, attention_bias=False, activation="gelu", **RATES)
    module = FeedbackStream(layers, LAYERS, window, memory, kv, normalise_twice=normalise_twice)
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
    "normalised twice": lambda: Stream(normalise_twice=True),
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


BEAM = 2


def beam_search(stack, steps=9):
    """Three batches of sentences, step by step, with rows in new orders: sentences end, and at last a row leaves."""
    found = []
    for batch in range(3):
        padding = torch.zeros(3, SOURCE, dtype=torch.bool)
        padding[1, batch:] = batch > 0
        state, rows = stack.start(torch.randn(3, SOURCE, C), padding, beam=BEAM), 3 * BEAM
        for step in range(steps):
            found += state.step(torch.randn(rows, C))
            order = torch.arange(rows).view(-1, BEAM).flip(1).flatten()
            if step == 3:  # the first sentence has ended
                order = order[BEAM:]
            if step == 6 and batch == 1:
                order = order.roll(1)
            rows = len(order)
            state.reorder(order)
    return found


def decoded(case, engine, training=False):
    case.module.train(training)
    torch.manual_seed(4)
    case.stack.engine = ENGINES[engine]
    return beam_search(case.stack)


def streamed(case, engine, steps=30, restart=True):
    """Outputs of streams step by step, twice after each other; one is begun anew."""
    case.module.eval()
    case.stack.engine = ENGINES[engine]
    torch.manual_seed(5)
    found = []
    for _ in range(3):
        with torch.no_grad():
            _, memory = case.module(torch.randn(B, STEPS, C))
        state = case.module.start(memory, torch.zeros(B, C))
        for step in range(steps):
            found.append(case.module.step(state, torch.randn(B, C)))
            if step == 4 and restart:
                case.module.restart(state, torch.tensor([False, True]))
        state.reorder(torch.tensor([1]))
        found.append(case.module.step(state, torch.randn(1, C)))
    return found
