"""Speed and memory of the Feedback Transformer beside fairseq's own Transformer of the same sizes.

    python benchmarks/translation_speed.py                  # sizes of IWSLT De-En (Table 8)
    python benchmarks/translation_speed.py --output benchmarks/translation_speed.md
    python benchmarks/translation_speed.py --encoder-layers 3 --depths 1 2 4 --embed-dim 256 --vocabulary 7876

The last line has the sizes of benchmarks/multi30k.md.

Both models run in turn in one process (A B A B ...) and the ratio is the median over the pairs, so that a drift of the
machine's speed hits both. Training is forward, backward and Adam step on generated sentence pairs; generation is
fairseq's beam search, beam 5, to a fixed length, so that both models take the same number of steps whatever they say.
Peak memory is of a process of its own: what training, or generation, adds to the loaded model.
"""

import argparse
import datetime
import json
import os
import platform
import random
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import paths  # noqa: F401  finds the suite
import timing
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary, data_utils
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from tqdm import tqdm

import fairseq_plugins  # noqa: F401  patches fairseq
from fairseq_plugins.models import feedback_transformer  # noqa: F401  registers it

ARCHS = {"transformer": "transformer", "feedback": "feedback_transformer"}
GENERATION_PAIRS = 3  # times as many pairs as training: a job takes a second or two, and single ones scatter by a tenth
SENTENCE = 25  # target tokens of a generated sentence
PAPER = {"train 2": 0.45, "generate 2": 1.7}  # Table 5; on GPUs, batches not given


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder-layers", type=int, default=6)
    parser.add_argument(
        "--depths", type=int, nargs="+", default=[1, 2, 6], metavar="LAYERS", help="of the decoder (%(default)s)"
    )
    parser.add_argument("--embed-dim", type=int, default=512)
    parser.add_argument("--ffn-dim", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=10000)
    parser.add_argument(
        "--max-tokens", type=int, default=2500, help="padded target tokens of a training batch (%(default)s)"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="(%(default)s)")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"], help="(%(default)s)")
    parser.add_argument("--pairs", type=int, default=5, help="measured pairs of runs (%(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the CPU (%(default)s)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the tables there too (Markdown)")
    parser.add_argument("--memory-of", nargs=3, metavar=("MODEL", "DEPTH", "JOB"), help=argparse.SUPPRESS)
    return parser


def main():
    args = options().parse_args()
    torch.set_num_threads(args.threads)
    if args.memory_of:
        model, depth, job = args.memory_of
        print(json.dumps(peak_memory(args, model, int(depth), job)))
        return
    timing.report((part(args) for part in (header, train_table, generation_table, memory_table)), args.output)


def header(args) -> list:
    device = torch.cuda.get_device_name() if args.device == "cuda" else f"CPU, {args.threads} threads"
    return [
        "# Translation speed: Feedback Transformer against fairseq's Transformer",
        "",
        "**Question.** How fast does the Feedback Transformer train and translate beside fairseq's Transformer?",
        "**Set-up.** "
        f"{datetime.date.today()}, {device} ({platform.machine()}), {args.dtype}, Python {platform.python_version()}, "
        f"torch {torch.__version__}. Both: {args.encoder_layers} encoder layers, width {args.embed_dim}, "
        f"FFN {args.ffn_dim}, {args.heads} heads, vocabulary {args.vocabulary}; Feedback: shared keys and values. "
        f"Medians of {args.pairs} pairs of runs in training and of {GENERATION_PAIRS * args.pairs} in generation; "
        "in brackets the smallest and the largest ratio. A ratio above 1 means that Feedback is faster. The paper's "
        "ratios are of GPUs, for generation of one; it gives no batch sizes (Table 5, Figure 4).",
        "",
        f"    {' '.join(['python', 'benchmarks/translation_speed.py', *sys.argv[1:]])}",
        "",
    ]


def train_table(args) -> list:
    rows = [
        "## Training, target tokens per second",
        "",
        "| decoder layers | Transformer | Feedback | ratio | paper |",
        "| --- | --- | --- | --- | --- |",
    ]
    for depth in tqdm(args.depths, desc="training"):
        jobs = (Training(args, name, depth) for name in ARCHS)
        rows.append(row(f"{depth}", timing.compare(*jobs, args.pairs), f"train {depth}"))
    return [*rows, ""]


def generation_table(args) -> list:
    rows = [
        "## Generation, beam 5, target tokens per second",
        "",
        "| decoder layers | batch | Transformer | Feedback | ratio | paper |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    generation_pairs = GENERATION_PAIRS * args.pairs
    for batch, batches in ((1, 8), (32, 1)):
        jobs = {(name, depth): Generation(args, name, depth, batch, batches) for name in ARCHS for depth in args.depths}
        for depth in tqdm(args.depths, desc=f"generation, batch {batch}"):
            both = timing.compare(*(jobs[name, depth] for name in ARCHS), generation_pairs)
            rows.append(row(f"{depth} | {batch}", both, f"generate {depth}"))
        shallow, deep = min(args.depths), max(args.depths)
        if shallow < deep:
            across = timing.compare(jobs["transformer", deep], jobs["feedback", shallow], generation_pairs)
            rows.append(row(f"Feedback {shallow}, Transformer {deep} | {batch}", across, "shallow against deep"))
    return [*rows, ""]


def memory_table(args) -> list:
    rows = [
        "## Peak memory beyond the loaded model, MiB",
        "",
        "| decoder layers | job | Transformer | Feedback | Feedback / Transformer |",
        "| --- | --- | --- | --- | --- |",
    ]
    for depth in tqdm(args.depths, desc="memory"):
        for job in ("training", "generation"):
            plain, feedback = (timing.in_own_process("--memory-of", name, depth, job) for name in ARCHS)
            rows.append(f"| {depth} | {job} | {plain:.0f} | {feedback:.0f} | {feedback / plain:.2f} |")
    return [*rows, ""]


def row(label: str, measured: timing.Compared, key: str) -> str:
    return (
        f"| {label} | {measured.baseline:.0f} | {measured.ours:.0f} | **{measured.ratio:.2f}** "
        f"({measured.low:.2f} to {measured.high:.2f}) | {PAPER.get(key, '')} |"
    )


class Job:
    """A model with `depth` decoder layers, and generated data; a call does the work and returns how many target tokens
    that was."""

    def __init__(self, args, name: str, depth: int, **options):
        torch.manual_seed(1)
        self.device = args.device
        self.draw = random.Random(1)
        self.dictionary = Dictionary()
        for i in range(args.vocabulary):
            self.dictionary.add_symbol(str(i))
        task = SimpleNamespace(source_dictionary=self.dictionary, target_dictionary=self.dictionary)
        sizes = dict(embed_dim=args.embed_dim, ffn_embed_dim=args.ffn_dim, attention_heads=args.heads)
        config = Namespace(
            encoder_layers=args.encoder_layers,
            decoder_layers=depth,
            dropout=0.3,
            share_decoder_input_output_embed=True,
            **{f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in sizes.items()},
            **options,
        )
        ARCH_CONFIG_REGISTRY[ARCHS[name]](config)
        model = ARCH_MODEL_REGISTRY[ARCHS[name]].build_model(config, task)
        self.model = model.to(self.device, getattr(torch, args.dtype))

    def sentences(self, lengths: list) -> torch.Tensor:
        symbols = range(self.dictionary.nspecial, len(self.dictionary))
        rows = [torch.tensor([*self.draw.choices(symbols, k=n), self.dictionary.eos()]) for n in lengths]
        return data_utils.collate_tokens(rows, self.dictionary.pad(), left_pad=False).to(self.device)

    def source(self, lengths: list) -> dict:
        return {"src_tokens": self.sentences(lengths), "src_lengths": torch.tensor(lengths, device=self.device) + 1}


class Training(Job):
    """Batches of sentences of similar length, as fairseq makes them: short, medium and long ones."""

    def __init__(self, args, name, depth, **options):
        super().__init__(args, name, depth, **options)
        self.model.train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        task = SimpleNamespace(target_dictionary=self.dictionary)
        self.criterion = LabelSmoothedCrossEntropyCriterion(task, sentence_avg=False, label_smoothing=0.1)
        self.samples = [self.sample(longest, args.max_tokens // longest) for longest in (12, 24, 48)]

    def sample(self, longest: int, size: int) -> dict:
        lengths = [self.draw.randint(longest - longest // 6, longest - 1) for _ in range(size)]
        target = self.sentences(lengths)
        previous = target.roll(1, dims=1)
        previous[:, 0] = self.dictionary.eos()
        net_input = {**self.source(lengths), "prev_output_tokens": previous}
        return {"net_input": net_input, "target": target, "ntokens": sum(lengths) + size}

    def __call__(self):
        for sample in self.samples:
            self.optimizer.zero_grad()
            loss, _, _ = self.criterion(self.model, sample)
            loss.backward()
            self.optimizer.step()
        return sum(sample["ntokens"] for sample in self.samples)


class Generation(Job):
    def __init__(self, args, name, depth, batch, batches, **options):
        super().__init__(args, name, depth, **options)
        self.model.eval()
        self.generator = SequenceGenerator(
            [self.model], self.dictionary, beam_size=5, max_len_a=0, max_len_b=SENTENCE, min_len=SENTENCE
        )
        self.batches = [self.source([SENTENCE] * batch) for _ in range(batches)]

    @torch.no_grad()
    def __call__(self):
        for source in self.batches:
            self.generator.generate([self.model], {"net_input": source})
        return sum(len(source["src_tokens"]) for source in self.batches) * SENTENCE


def peak_memory(args, name: str, depth: int, job: str) -> float:
    """MiB that the job adds to a process that holds the model."""
    job = Training(args, name, depth) if job == "training" else Generation(args, name, depth, 32, 1)
    return timing.added_memory(job)


if __name__ == "__main__":
    main()
