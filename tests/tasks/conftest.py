"""A language model with a memory, small enough to see through, and a task around tokens given in the test."""

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqDecoder
from pytest import fixture
from task_options import options_of
from torch import nn

from fairseq_plugins.models.common.base import StreamingLanguageModel
from fairseq_plugins.modules.span.stack import SpanMemory
from fairseq_plugins.streams.dataset import StreamDataset
from fairseq_plugins.tasks.streaming_language_modeling import (
    StreamingLanguageModelingConfig,
    StreamingLanguageModelingTask,
)

SPAN, WIDTH = 6, 8


class WindowDecoder(FairseqDecoder):
    """Predicts from the token and the mean embedding of the ``SPAN`` tokens before it."""

    def __init__(self, dictionary):
        super().__init__(dictionary)
        self.embed = nn.Embedding(len(dictionary), WIDTH)
        self.output = nn.Linear(WIDTH, len(dictionary))

    def forward(self, src_tokens, incremental_state=None, memory=None):
        x = self.embed(src_tokens)
        before = memory.read(SpanMemory) if memory else None
        seen = torch.cat([before.inputs[0] if before else x.new_zeros(len(x), SPAN, WIDTH), x], dim=1)
        windows = seen[:, :-1].unfold(1, SPAN, 1).mean(-1)
        if memory is not None:
            memory.claim(self)
            memory.advance(SpanMemory([seen[:, -SPAN:].detach()]), src_tokens.size(1))
        return self.output(torch.tanh(x + windows)), {}


class WindowModel(StreamingLanguageModel):
    memory_length = SPAN

    def __init__(self, dictionary):
        super().__init__(WindowDecoder(dictionary))


@fixture
def dictionary() -> Dictionary:
    """Four special symbols, then 40 others."""
    dictionary = Dictionary()
    for number in range(40):
        dictionary.add_symbol(f"w{number}")
    return dictionary


@fixture
def model(dictionary):
    torch.manual_seed(3)
    return WindowModel(dictionary).double()


@fixture
def make_task(dictionary):
    """make_task(tokens={split: array}, option=...) -> task with these splits loaded."""

    def make_task(tokens={}, **options):
        options = {"sample_break_mode": "none", **options}
        task = StreamingLanguageModelingTask.setup_task(options_of(StreamingLanguageModelingConfig, **options))
        task.dictionary = task.output_dictionary = dictionary
        for split, array in tokens.items():
            task.datasets[split] = StreamDataset(array, split, dictionary.pad(), dictionary.eos())
        return task

    return make_task
