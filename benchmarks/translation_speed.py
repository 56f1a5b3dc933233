"""Speed and memory of the Feedback Transformer beside fairseq's own Transformer of the same sizes.

    python benchmarks/translation_speed.py                  # sizes of IWSLT De-En (Table 8)
    python benchmarks/translation_speed.py --output benchmarks/translation_speed.md
    python benchmarks/translation_speed.py --tables int8    # only some; int8 is for float32 on a CPU
    python benchmarks/translation_speed.py --encoder-layers 3 --depths 1 2 4 --embed-dim 256 --vocabulary 7876

The last line has the sizes of benchmarks/multi30k.md.

Both models run in turn in one process (A B A B ...) and the ratio is the median over the pairs, so that a drift of the
machine's speed hits both. Training is forward, backward and Adam step on generated sentence pairs; generation is
fairseq's beam search, beam 5, to a fixed length, so that both models take the same number of steps whatever they say.
Peak memory is of a process of its own: what training, or generation, adds to the loaded model.
"""

import argparse
import random
import statistics
import time
from argparse import Namespace
from types import SimpleNamespace

import paths  # noqa: F401  finds the suite
import timing
import torch
from architectures import Vocabulary
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import data_utils
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from page import table
from tqdm import tqdm

import fairseq_plugins  # noqa: F401  patches fairseq
from fairseq_plugins.models import feedback_transformer  # noqa: F401  registers it
from fairseq_plugins.models.common.int8 import ask_for_int8

ARCHS = {"transformer": "transformer", "feedback": "feedback_transformer"}
GENERATION_PAIRS = 3  # times as many pairs as training: a job takes a second or two, and single ones scatter by a tenth
SENTENCE = 25  # target tokens of a generated sentence
BATCHES = ((1, 8), (32, 1))  # sentences, and how many such batches a job generates
PAPER = {"train 2": 0.45, "generate 2": 1.7}  # Table 5; on GPUs, batches not given


def options() -> argparse.ArgumentParser:
    sizes = dict(encoder_layers=6, embed_dim=512, ffn_dim=1024, heads=4, vocabulary=10000)
    parser = timing.options(__doc__, sizes)
    parser.add_argument(
        "--depths", type=int, nargs="+", default=[1, 2, 6], metavar="LAYERS", help="of the decoder (%(default)s)"
    )
    parser.add_argument(
        "--max-tokens", type=int, default=2500, help="padded target tokens of a training batch (%(default)s)"
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, help="(all; int8 is for --device cpu)")
    parser.set_defaults(device="cuda" if torch.cuda.is_available() else "cpu")
    return parser


def main():
    parser = options()
    args = parser.parse_args()
    possible = [*TABLES]
    if args.device != "cpu":
        possible.remove("share")
    if (args.device, args.dtype) != ("cpu", "float32"):
        possible.remove("int8")
    for name in args.tables or []:
        if name not in possible:
            parser.error(f"--tables {name} is for --device cpu, and int8 for --dtype float32; leave {name} out")
    args.tables = args.tables or possible
    timing.main(args, [head, *(TABLES[name] for name in args.tables)], peak_memory)


def head(args) -> str:
    return timing.head(
        args,
        "Translation speed: Feedback Transformer against fairseq's Transformer",
        "How fast does the Feedback Transformer train and translate beside fairseq's Transformer?",
        f"Both: {args.encoder_layers} encoder layers, width {args.embed_dim}, "
        f"FFN {args.ffn_dim}, {args.heads} heads, vocabulary {args.vocabulary}; Feedback: shared keys and values. "
        f"Medians of {args.pairs} pairs of runs in training and of {GENERATION_PAIRS * args.pairs} in generation; "
        "in brackets the smallest and the largest ratio. A ratio above 1 means that Feedback is faster. The paper's "
        "ratios were measured on GPUs, for generation on one; the paper gives no batch sizes (Table 5, Figure 4).",
    )


def training_table(args) -> str:
    rows = []
    for depth in tqdm(args.depths, desc="training"):
        jobs = (Training(args, name, depth) for name in ARCHS)
        rows.append([f"{depth}", *cells(timing.compare(*jobs, args.pairs), f"train {depth}")])
    columns = ["decoder layers", "Transformer", "Feedback", "ratio", "paper"]
    return f"## Training, target tokens per second\n\n{table(columns, rows)}"


def generation_table(args) -> str:
    rows, pairs = [], GENERATION_PAIRS * args.pairs
    for batch, batches in BATCHES:
        jobs = {(name, depth): Generation(args, name, depth, batch, batches) for name in ARCHS for depth in args.depths}
        for depth in tqdm(args.depths, desc=f"generation, batch {batch}"):
            both = timing.compare(*(jobs[name, depth] for name in ARCHS), pairs)
            rows.append([f"{depth}", f"{batch}", *cells(both, f"generate {depth}")])
        shallow, deep = min(args.depths), max(args.depths)
        if shallow < deep:
            across = timing.compare(jobs["transformer", deep], jobs["feedback", shallow], pairs)
            rows.append([f"Feedback {shallow}, Transformer {deep}", f"{batch}", *cells(across)])
    columns = ["decoder layers", "batch", "Transformer", "Feedback", "ratio", "paper"]
    return f"## Generation, beam 5, target tokens per second\n\n{table(columns, rows)}"


def int8_table(args) -> str:
    rows = []
    for depth in tqdm(args.depths, desc="eight bits"):
        found = []
        for batch, batches in BATCHES:
            jobs = (Generation(args, "feedback", depth, batch, batches, int8=int8) for int8 in (False, True))
            found.append(cells(timing.compare(*jobs, GENERATION_PAIRS * args.pairs))[:-1])
        rows.append([f"{depth}", "1; 32", *map("; ".join, zip(*found))])
    columns = ["decoder layers", "batch", "Feedback", "with `--int8`", "ratio"]
    return f"## An output layer in eight bits, the same generation\n\n{table(columns, rows)}"


def share_table(args) -> str:
    """How much of a generation is fairseq's: all but the steps of the decoder."""
    rows = []
    for depth in tqdm(args.depths, desc="fairseq's share"):
        for batch, batches in BATCHES:
            jobs = (Generation(args, name, depth, batch, batches) for name in ARCHS)
            found = (percents([job.outside_decoder() for _ in range(1 + args.pairs)][1:]) for job in jobs)
            rows.append([f"{depth}", f"{batch}", *found])
    columns = ["decoder layers", "batch", "of the Transformer's time", "of Feedback's time"]
    return f"## fairseq's encoder and search in a generation\n\n{table(columns, rows)}"


def percents(parts: list[float]) -> str:
    middle, least, most = (f"{100 * find(parts):.0f}" for find in (statistics.median, min, max))
    return f"{middle} % ({least} to {most})"


def memory_table(args) -> str:
    rows = []
    for depth in tqdm(args.depths, desc="memory"):
        for job in ("training", "generation"):
            plain, feedback = (timing.in_own_process(name, depth, job) for name in ARCHS)
            rows.append([f"{depth}", job, f"{plain:.0f}", f"{feedback:.0f}", f"{feedback / plain:.2f}"])
    columns = ["decoder layers", "job", "Transformer", "Feedback", "Feedback / Transformer"]
    return f"## Peak memory beyond the loaded model, MiB\n\n{table(columns, rows)}"


TABLES = {
    "training": training_table,
    "generation": generation_table,
    "share": share_table,
    "int8": int8_table,
    "memory": memory_table,
}


def cells(both: timing.Compared, key: str = "") -> list[str]:
    return [*both.speeds(), both.told(), str(PAPER.get(key, ""))]


class Job:
    """A model with `depth` decoder layers, and generated data; a call does the work and returns how many target tokens
    that was."""

    def __init__(self, args, name: str, depth: int, **options):
        torch.manual_seed(1)
        self.device = args.device
        self.draw = random.Random(1)
        self.dictionary = Vocabulary(args.vocabulary + 4)  # and fairseq's own symbols
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
            loss, _, _ = self.criterion(self.model, sample)
            timing.update(self.optimizer, loss)
        return sum(sample["ntokens"] for sample in self.samples)


class Generation(Job):
    sentence = SENTENCE

    def __init__(self, args, name, depth, batch, batches, int8=False, **options):
        super().__init__(args, name, depth, **options)
        self.model.eval()
        if int8:
            ask_for_int8(self.model, name)
        self.model.make_generation_fast_()  # as fairseq-generate does
        self.generator = SequenceGenerator(
            [self.model], self.dictionary, beam_size=5, max_len_a=0, max_len_b=self.sentence, min_len=self.sentence
        )
        self.batches = [self.source([self.sentence] * batch) for _ in range(batches)]

    @torch.no_grad()
    def __call__(self):
        for source in self.batches:
            self.generator.generate([self.model], {"net_input": source})
        return sum(len(source["src_tokens"]) for source in self.batches) * self.sentence

    def outside_decoder(self) -> float:
        """The part of a call's time that is not spent in the steps of the decoder. On a GPU it means nothing."""
        ensemble, spent = self.generator.model, 0.0
        step = ensemble.forward_decoder

        def timed(*args, **kwargs):
            nonlocal spent
            start = time.perf_counter()
            result = step(*args, **kwargs)
            spent += time.perf_counter() - start
            return result

        ensemble.forward_decoder = timed
        start = time.perf_counter()
        try:
            self()
        finally:
            ensemble.forward_decoder = step
        return 1 - spent / (time.perf_counter() - start)


def peak_memory(args, name: str, depth: int, job: str) -> float:
    """MiB that the job adds to a process that holds the model."""
    job = Training(args, name, depth) if job == "training" else Generation(args, name, depth, 32, 1)
    return timing.added_memory(job)


if __name__ == "__main__":
    main()
