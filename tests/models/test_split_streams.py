"""--split-streams: groups of streams, trained in turn, give the update of all streams at once."""

import numpy as np
import pytest
import torch
from architectures import Vocabulary
from language_models import MODELS, VOCABULARY, build
from task_options import options_of

from fairseq_plugins.criterions.streaming_lm import StreamingLMCriterion
from fairseq_plugins.errors import UserError
from fairseq_plugins.streams.dataset import StreamDataset
from fairseq_plugins.tasks.streaming_language_modeling import (
    StreamingLanguageModelingConfig,
    StreamingLanguageModelingTask,
)

SKIPS = {"decoder_layers": 4, "mem_len": 7, "skip_schedule": "uniform", "skip_p": 0.4, "initial_memory": "zeros"}
CROSS_HEADS = {"decoder_attention_heads": 4, "cross_head_p": 0.6}
STOCHASTIC = {
    "skip-retain, cross-heads": ("transformer_xl_lm_tiny", SKIPS | CROSS_HEADS),
    "spans, persistent vectors, cross-heads": ("all_attention_lm_tiny", {"attention_span": 9} | CROSS_HEADS),
}
STREAMS, TOKENS = 4, 4 * 23 + 2  # the last block is padded, in some groups only


class Sums:
    """An optimiser as the task sees it; its gradients add up until they are read."""

    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # at 0.1 updates amplify rounding errors

    def backward(self, loss):
        loss.backward()

    def step(self):
        self.optimizer.step()

    def gradients(self, tokens):
        """Of the mean over tokens, as fairseq makes it before the step."""
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        return [gradient.div_(tokens).clone() for gradient in gradients]


def make_task(groups):
    given = {"batch_size": STREAMS, "tokens_per_sample": 5, "split_streams": groups, "sample_break_mode": "none"}
    task = StreamingLanguageModelingTask.setup_task(options_of(StreamingLanguageModelingConfig, **given))
    task.dictionary = task.output_dictionary = words = Vocabulary(VOCABULARY)
    tokens = np.random.default_rng(1).integers(4, VOCABULARY, TOKENS)
    task.datasets["train"] = StreamDataset(tokens, "train", words.pad(), words.eos())
    return task


def train(arch, options, groups, start=None, blocks=None):
    """The gradients and the loss of every block's update, its log, and the content of a file."""
    model, task = build(arch, options | {"dropout": 0.0}).double(), make_task(groups)
    criterion, optimizer = StreamingLMCriterion(task), Sums(model)
    iterator = task.stream_iterator(task.datasets["train"], STREAMS, training=True)
    task.begin_epoch(1, model)
    updates, logs = [], []
    if start:
        model.load_state_dict(start["model"])
        task.training.load_state_dict(start["memory"])
    for update, sample in list(enumerate(iterator.next_epoch_itr(shuffle=False)))[blocks or slice(None)]:
        torch.manual_seed(update)  # as fairseq does
        model.zero_grad()
        loss, tokens, logged = task.train_step(sample, model, criterion, optimizer, update)
        updates.append([optimizer.gradients(tokens), loss])
        logs.append(logged)
        task.optimizer_step(optimizer, model, update)
    return updates, logs, {"model": model.state_dict(), "memory": task.training.state_dict()}


def assert_equal(one, other):
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("arch, options", (MODELS | STOCHASTIC).values(), ids=MODELS | STOCHASTIC)
def test_groups_of_streams_are_the_whole_batch(arch, options):
    updates, logs, end = train(arch, options, groups=1)
    same_updates, same_logs, same_end = train(arch, options, groups=4)
    assert len(updates) == 5
    assert_equal((updates, end), (same_updates, same_end))
    torch.testing.assert_close(logs, same_logs, rtol=1e-6, atol=1e-6, check_dtype=False)


def test_a_file_is_read_with_another_number_of_groups():
    """In the middle of an epoch; layers have been skipped before."""
    model = STOCHASTIC["skip-retain, cross-heads"]
    updates, _, end = train(*model, groups=2)
    _, _, middle = train(*model, groups=2, blocks=slice(0, 3))
    again, _, same_end = train(*model, groups=4, start=middle, blocks=slice(3, None))
    assert len(middle["memory"]["caches"]) > model[1]["decoder_layers"]  # the ages of memories are in it, too
    assert_equal((updates[3:], end), (again, same_end))


def test_groups_drop_out_other_units():
    """Only random numbers that concern the whole batch are drawn once."""
    model = build("span_transformer_lm_tiny", {"dropout": 0.5}).double()
    task = make_task(2)
    (sample, *_) = task.stream_iterator(task.datasets["train"], STREAMS, training=True).next_epoch_itr()
    sample["net_input"]["src_tokens"][:] = 7
    sample["target"][:] = 7
    task.train_step(sample, model, StreamingLMCriterion(task), Sums(model), 0)
    outputs = [memory.tensors()[1][:, -1] for memory in task.training.groups]
    assert not torch.allclose(*outputs)


def test_groups_are_equal():
    task = make_task(3)
    with pytest.raises(UserError, match="--split-streams 3 does not divide the 4 streams .* choose 1, 2, 4"):
        task.stream_iterator(task.datasets["train"], STREAMS, training=True)
