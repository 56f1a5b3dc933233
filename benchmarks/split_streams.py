"""Peak memory of a training whose streams are split into N groups (--split-streams).

    MALLOC_MMAP_THRESHOLD_=131072 python benchmarks/split_streams.py --output benchmarks/split_streams.md

A job is two updates through the task, with Adam, in a process of its own. The table has the memory that it adds at its
peak to a process with the weights and Adam's moments: gradients, activations and the memory of all streams. The
variable makes the C library return the memory of every tensor at once, so that no free memory is counted.
"""

import argparse
from itertools import islice
from types import SimpleNamespace

import numpy as np
import page
import paths  # noqa: F401  finds the suite
import timing
import torch
from architectures import Vocabulary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models import MODEL_DATACLASS_REGISTRY as CONFIGS
from omegaconf import OmegaConf

import fairseq_plugins.models  # noqa: F401  registers the architectures
from fairseq_plugins.criterions.streaming_lm import StreamingLMCriterion
from fairseq_plugins.streams.dataset import StreamDataset
from fairseq_plugins.tasks.streaming_language_modeling import (
    StreamingLanguageModelingConfig,
    StreamingLanguageModelingTask,
)

GROUPS = (1, 2, 4, 8)
XL = {"mem_len": 128, "decoder_ffn_embed_dim": 1024, "seed": 1}
FAMILIES = {
    "Transformer-XL": ("transformer_xl_lm_tiny", XL),
    "Skip Cross-Head, phase 1": (
        "transformer_xl_lm_tiny",
        {**XL, "initial_memory": "zeros", "skip_schedule": "linear", "cross_head_p": 0.1},
    ),
    "all-attention": ("all_attention_lm_tiny", {"attention_span": 128, "persistent_vectors": 512}),
    "Feedback": ("feedback_lm_tiny", {"attention_span": 128, "decoder_ffn_embed_dim": 1024}),
}


def options() -> argparse.ArgumentParser:
    sizes = dict(layers=4, width=256, heads=4, block=128, streams=32, vocabulary=205)
    return timing.options_of_memory(__doc__, sizes)


def main():
    timing.main(options().parse_args(), [head, peaks], peak)


def peak(args, family: str, groups: int) -> float:
    return timing.added_memory(Training(args, *FAMILIES[family], groups))


def head(args) -> str:
    return page.head(
        "Peak memory with --split-streams",
        "How much memory does a training save that splits its streams into N groups?",
        f"{page.cpu()}, float32, {page.python()}, torch {torch.__version__}. "
        f"{args.layers} layers, width {args.width}, {args.heads} heads, block and memory "
        f"{args.block}, {args.streams} streams, vocabulary {args.vocabulary}. "
        "The table shows the MiB of the peak beyond the weights and Adam's moments: gradients, activations and the "
        "memory of all streams. In brackets is the share of the peak with one group.",
        variables="MALLOC_MMAP_THRESHOLD_=131072 ",
    )


def peaks(args) -> str:
    rows = []
    for family in FAMILIES:
        found = [timing.in_own_process(family, groups) for groups in GROUPS]
        rows.append([family, *(f"{peak:.0f} ({peak / found[0]:.2f})" for peak in found)])
    answer = "**Answer.** Gradients and the memory of all streams do not depend on N. Activations are divided by it."
    return f"{page.table(['groups (N)', *map(str, GROUPS)], rows)}\n\n{answer}"


class Training:
    """Two updates over streams; a call trains and returns the number of tokens."""

    def __init__(self, args, arch: str, options: dict, groups: int):
        self.args = args
        self.task = self.make_task(Vocabulary(args.vocabulary), groups)
        self.model = self.build(arch, options)
        self.criterion = StreamingLMCriterion(self.task)
        self.adam = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        for parameter in self.model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        self.adam.step()  # makes the moments
        self.adam.zero_grad()

    def make_task(self, words: Vocabulary, groups: int) -> StreamingLanguageModelingTask:
        given = {"seed": 1, "batch_size": self.args.streams, "update_freq": [1], "sample_break_mode": "none"}
        given |= {"tokens_per_sample": self.args.block, "split_streams": groups}
        given |= dict.fromkeys(("disable_validation", "no_save", "sentence_avg", "skip_remainder_batch"), False)
        defaults = OmegaConf.to_container(OmegaConf.structured(StreamingLanguageModelingConfig()))
        task = StreamingLanguageModelingTask.setup_task(OmegaConf.create({**defaults, **given}))
        task.dictionary = task.output_dictionary = words
        tokens = np.random.default_rng(1).integers(4, len(words), 2 * self.args.streams * self.args.block)
        task.datasets["train"] = StreamDataset(tokens, "train", words.pad(), words.eos())
        return task

    def build(self, arch: str, options: dict):
        torch.manual_seed(1)
        sizes = {"decoder_layers": self.args.layers, "decoder_embed_dim": self.args.width}
        given = SimpleNamespace(decoder_attention_heads=self.args.heads, **sizes, **options)
        ARCH_CONFIG_REGISTRY[arch](given)
        defaults = OmegaConf.structured(CONFIGS[ARCH_MODEL_NAME_REGISTRY[arch]]())
        config = OmegaConf.merge(defaults, {"_name": arch, **vars(given)})
        return ARCH_MODEL_REGISTRY[arch].build_model(config, self.task)

    def __call__(self) -> int:
        blocks = self.task.stream_iterator(self.task.datasets["train"], self.args.streams, training=True)
        self.task.begin_epoch(1, self.model)
        return sum(self.update(*pair) for pair in enumerate(islice(blocks.next_epoch_itr(shuffle=False), 2)))

    def update(self, number: int, sample: dict) -> int:
        optimizer = SimpleNamespace(backward=lambda loss: loss.backward(), step=self.adam.step)
        self.adam.zero_grad()
        _, tokens, _ = self.task.train_step(sample, self.model, self.criterion, optimizer, number)
        self.task.optimizer_step(optimizer, self.model, number)
        return tokens


if __name__ == "__main__":
    main()
