"""Speed and memory of the language models over streams, each beside the Transformer that it is to be held against.

    python benchmarks/lm_speed.py                                   # 6 layers of 384, block 64, span 256, batch 64
    python benchmarks/lm_speed.py --output benchmarks/lm_speed.md
    python benchmarks/lm_speed.py --device cuda --dtype bfloat16
    python benchmarks/lm_speed.py --tables training length          # only some
    python benchmarks/lm_speed.py --tables feedback                 # of training Feedback alone

Two jobs run in turn in one process (A B A B ...) and the ratio is the median over the pairs, so that a drift of the
machine's speed hits both. Training is forward, backward and Adam step on random tokens, with a full memory; generation
is one step of every stream at a time. The baseline is this suite's span_transformer_lm, which has no loop over time;
fairseq's own transformer_lm of the same size runs beside it. Peak memory is of a process of its own.
"""

import argparse
from argparse import Namespace
from functools import partial
from types import SimpleNamespace

import paths  # noqa: F401  finds the suite
import timing
import torch
from architectures import Vocabulary
from fairseq.models.transformer_lm import (
    TransformerLanguageModel,
    TransformerLanguageModelConfig,
    base_lm_architecture,
)
from page import table
from torch.nn import functional as F
from tqdm import tqdm

import fairseq_plugins  # noqa: F401  patches fairseq
from fairseq_plugins.models.all_attention_lm import AllAttentionConfig, AllAttentionLanguageModel
from fairseq_plugins.models.feedback_lm import FeedbackLanguageModel, FeedbackLanguageModelConfig
from fairseq_plugins.models.span_transformer_lm import (
    SpanTransformerConfig,
    SpanTransformerLanguageModel,
)
from fairseq_plugins.modules.common.stream_memory import StreamMemory

MODELS = {
    "transformer": (SpanTransformerLanguageModel, SpanTransformerConfig),
    "feedback": (FeedbackLanguageModel, FeedbackLanguageModelConfig),
    "all-attention": (AllAttentionLanguageModel, AllAttentionConfig),
}
HEADER = ["job", "baseline, tokens/s", "ours, tokens/s", "ours / baseline", "aim", "the paper"]


def options() -> argparse.ArgumentParser:
    sizes = dict(layers=6, width=384, heads=4, block=64, span=256, batch=64, vocabulary=50)
    parser = timing.options(__doc__, sizes)
    parser.add_argument("--dropout", type=float, default=0.1, help="of attention weights and ReLU (%(default)s)")
    parser.add_argument("--long-span", type=int, default=2048, help="maximum of the adaptive spans (%(default)s)")
    every = [name for name in TABLES if name != "feedback"]
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=every, help="(all)")
    return parser


def main():
    args = options().parse_args()
    timing.main(args, [head, *(TABLES[name] for name in args.tables)], cost)


def head(args) -> str:
    return timing.head(
        args,
        "Speed of the language models",
        "How fast do Feedback and all-attention train and generate beside Transformers of their size?",
        f"{args.layers} layers, width {args.width}, FFN {4 * args.width}, {args.heads} "
        f"heads, block {args.block}, span {args.span}, batch {args.batch}, vocabulary {args.vocabulary}, dropout "
        f"{args.dropout}. Medians of {args.pairs} pairs of runs; in brackets the smallest and the largest ratio. "
        "Above 1 ours is faster.",
    )


def feedback_rows(args) -> list[list[str]]:
    rows, train = [], partial(Training, args)
    for kv, aim in {"shared": "0.75", "per-layer": "0.6"}.items():
        both = timing.compare(train("transformer"), train("feedback", feedback_kv=kv), args.pairs)
        rows.append(row(f"Feedback, keys and values {kv}, against the Transformer", both, aim, "0.285"))
    return rows


def feedback_table(args) -> str:
    """The first two rows of the table of training."""
    return section("Training", HEADER, feedback_rows(args))


def training_table(args) -> str:
    rows, train = feedback_rows(args), partial(Training, args)
    for block in (args.block, 2 * args.span):
        both = timing.compare(FairseqTraining(args, block), train("transformer"), args.pairs)
        label = f"the Transformer against fairseq's transformer_lm without memory, {block} tokens at a time"
        rows.append(row(label, both, "0.8"))
    ours = train("all-attention", persistent_vectors=4 * args.width)
    both = timing.compare(train("transformer"), ours, args.pairs)
    rows.append(row("all-attention against the Transformer of equal parameters", both, "0.85"))
    spans = dict(attention_span=args.long_span, adaptive_span=True, span_init=1 / 8)
    both = timing.compare(train("transformer", **spans, trim=False), train("transformer", **spans), args.pairs)
    rows.append(row(f"spans of {args.long_span // 8} of {args.long_span}, trimmed against not trimmed", both, "2"))
    return "\n\n".join([section("Training", HEADER, rows), transformer_floor(args), all_attention_floor(args)])


def transformer_floor(args) -> str:
    width, seen = args.width, args.span + args.block
    block = 12 * width * width
    memory = 2 * args.span / args.block * width * width
    fairseq = f"{2 * args.block * width / 1e6:.2f}M or {4 * args.span * width / 1e6:.2f}M"
    return (
        "Before a token fairseq's transformer_lm sees half its block on average, and ours --span tokens. In a layer of"
        f" fairseq's a token takes {block / 1e6:.2f}M multiplications by weights. In ours it takes"
        f" {memory / 1e6:.2f}M more, {1 + memory / block:.2f} times as many: keys and values of {args.span} tokens in"
        f" memory are computed again for each block of {args.block}, as the gradients of the papers' code need. Scores"
        f" and sums of values take {2 * seen * width / 1e6:.2f}M in ours, and {fairseq} in fairseq's, by the length of"
        " its block."
    )


def all_attention_floor(args) -> str:
    width, extra = args.width, 4 * args.width
    attention = args.span * 2 * width
    ffn = 4 * width * width + attention + 2 * width * extra
    return (
        f"The products of a token in a layer are {ffn / 1e6:.2f}M multiplications in both. All-attention also has the "
        f"softmax of {args.heads} x {extra} scores, where the Transformer has {extra} ReLUs."
    )


def memory_table(args) -> str:
    base, _ = cost_of("transformer")
    rows = [["Transformer", f"{base:.0f}", "1"]]
    for label, name, given in (
        *((f"Feedback, keys and values {kv}", "feedback", {"feedback_kv": kv}) for kv in ("shared", "per-layer")),
        ("all-attention", "all-attention", {"persistent_vectors": 4 * args.width}),
    ):
        ours, _ = cost_of(name, **given)
        rows.append([label, f"{ours:.0f}", f"{ours / base:.2f}"])
    columns = ["model", "MiB", "of the Transformer's"]
    return section("Peak memory of training beyond the loaded model, MiB", columns, rows)


def generation_table(args) -> str:
    rows = []
    for batch in (1, args.batch):
        steps = 64 if batch == 1 else 16
        feedback = Generation(args, "feedback", batch, steps, feedback_kv="shared")
        keys, hidden = Generation(args, "transformer", batch, steps), HiddenStates(args, "transformer", batch, steps)
        for which, baseline, aim, paper in (
            ("that caches keys and values", keys, "1.5", ""),
            ("that caches hidden states, as the papers' code", hidden, "3", "3.7"),
        ):
            both = timing.compare(baseline, feedback, args.pairs)
            rows.append(row(f"batch {batch}: Feedback against a Transformer {which}", both, aim, paper))
    caches = [cache_size(Generation(args, name, 1, 1, **kv)) for name, kv in (("transformer", {}), SHARED)]
    sizes = f"Keys and values of one stream take {caches[0]} KiB in the Transformer and {caches[1]} KiB in Feedback."
    return "\n\n".join([section("Generation, with a full memory", HEADER, rows), sizes, generation_floor(args)])


def generation_floor(args) -> str:
    row, layers = args.width * 4 / 2**20, args.layers  # MiB
    return (
        f"A step reads its weights, {12 * layers * args.width * row:.0f} MiB in the Transformer and "
        f"{(10 * layers + 2) * args.width * row:.0f} in Feedback, which makes keys and values once and not in every "
        f"layer. In both each layer reads the keys and values of every stream, {layers * 2 * args.span * row:.1f} MiB "
        "in all; those of Feedback are the same for all layers, so they are read faster where a cache holds them."
    )


SHARED = ("feedback", {"feedback_kv": "shared"})


def cache_size(job) -> int:
    return sum(buffer.numel() * buffer.element_size() for buffer in job.buffers()) // 2**10


def length_table(args) -> str:
    """Cost per token does not grow with the length of the stream, memory grows with the span."""
    models = {"Transformer": ("transformer", {}), "Feedback": SHARED}
    columns = [f"{model}, {unit}" for model in models for unit in ("tokens/s", "MiB at the peak")]
    lengths = [(2**n, args.span) for n in (10, 12, 14)] + [(2**11, args.span * factor) for factor in (2, 4, 8)]
    rows = []
    for tokens, span in tqdm(lengths, desc="long streams"):
        rows.append([f"{tokens}", f"{span}"])
        for name, kv in models.values():
            memory, speed = cost_of(name, attention_span=span, blocks=tokens // args.block, batch=1, **kv)
            rows[-1] += [f"{speed:.0f}", f"{memory:.0f}"]
    return section("Long streams: training, one stream", ["tokens", "span", *columns], rows)


TABLES = {
    "training": training_table,
    "feedback": feedback_table,
    "memory": memory_table,
    "generation": generation_table,
    "length": length_table,
}


def cost_of(name: str, **given) -> tuple[float, float]:
    """MiB at the peak and tokens per second of a Training, in a process of its own."""
    return tuple(timing.in_own_process(name, given))


def cost(args, name: str, given: dict) -> tuple[float, float]:
    job, speeds = Training(args, name, **given), []
    memory = timing.added_memory(lambda: speeds.append(timing.tokens_per_second(job)))
    return memory, speeds[0]


def section(title: str, columns: list[str], rows: list[list[str]]) -> str:
    return f"## {title}\n\n{table(columns, rows)}"


def row(label: str, both: timing.Compared, aim: str, paper: str = "") -> list[str]:
    return [label, *both.speeds(), both.told(), aim, paper]


def build(args, name: str, **options):
    """A model of the benchmark's sizes."""
    torch.manual_seed(1)
    model, config = MODELS[name]
    sizes = dict(attention_span=args.span, dropout=args.dropout)
    if hasattr(config, "decoder_ffn_embed_dim"):
        sizes["decoder_ffn_embed_dim"] = 4 * args.width
    config = config(
        decoder_layers=args.layers,
        decoder_embed_dim=args.width,
        decoder_attention_heads=args.heads,
        decoder_normalize_before=True,
        **{**sizes, **options},
    )
    task = SimpleNamespace(keeps_memory=True, source_dictionary=Vocabulary(args.vocabulary))
    return model.build_model(config, task).to(args.device, getattr(torch, args.dtype))


class Training:
    """Some blocks of a stream; a call trains on them and returns the number of tokens."""

    def __init__(self, args, name: str, blocks: int = 1, batch: int = 0, trim: bool = True, **options):
        self.model = build(args, name, **options).train()
        if not trim:
            for span in self.model.adaptive_spans():
                span.trim_step = span.max_span
        self.batch, self.blocks = batch or args.batch, blocks
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        shape = (self.batch, args.block * blocks + 1)
        self.tokens = torch.randint(4, args.vocabulary, shape).to(args.device)
        self.block, self.memory = args.block, StreamMemory()
        with torch.no_grad():  # a full memory; beyond four blocks of zeros, which cost the same
            filled = -(-options.get("attention_span", args.span) // args.block)
            for _ in range(min(filled, 4)):
                self.model(self.tokens[:, : args.block], memory=self.memory)

    def __call__(self) -> int:
        for start in range(0, self.block * self.blocks, self.block):
            tokens = self.tokens[:, start : start + self.block + 1]
            output = self.model(tokens[:, :-1], memory=self.memory)
            self.step(self.model.token_nll(output, tokens[:, 1:]).mean())
        return self.batch * self.block * self.blocks

    def step(self, loss) -> None:
        timing.update(self.optimizer, loss)


class FairseqTraining(Training):
    """fairseq's own language model of the same size, which sees the block and no memory; as many tokens an update."""

    def __init__(self, args, block: int, ffn: int = 0):
        torch.manual_seed(1)
        config = Namespace(
            decoder_layers=args.layers,
            decoder_embed_dim=args.width,
            decoder_input_dim=args.width,
            decoder_output_dim=args.width,
            decoder_ffn_embed_dim=ffn or 4 * args.width,
            decoder_attention_heads=args.heads,
            decoder_normalize_before=True,
            attention_dropout=args.dropout,
            activation_dropout=args.dropout,
            dropout=0.0,
            tokens_per_sample=block,
            max_target_positions=block,
        )
        base_lm_architecture(config)
        for name, value in vars(TransformerLanguageModelConfig()).items():
            setattr(config, name, getattr(config, name, value))
        words = Vocabulary(args.vocabulary)
        task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
        self.model = TransformerLanguageModel.build_model(config, task).train()
        self.model.to(args.device, getattr(torch, args.dtype))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        streams = -(-args.batch * args.block // block)
        self.tokens = torch.randint(4, args.vocabulary, (streams, block + 1)).to(args.device)

    def __call__(self) -> int:
        logits, _ = self.model(self.tokens[:, :-1])
        self.step(F.cross_entropy(logits.flatten(0, 1), self.tokens[:, 1:].flatten()))
        return self.tokens[:, 1:].numel()


class Generation:
    """Steps of decoding with a full memory; a call returns the number of tokens."""

    def __init__(self, args, name: str, batch: int, steps: int, **options):
        self.model = build(args, name, **options).eval()
        self.decoder = self.model.decoder
        self.tokens = torch.randint(4, args.vocabulary, (batch, steps)).to(args.device)
        self.start(args)

    @torch.no_grad()
    def start(self, args) -> None:
        self.state = self.decoder.body.start(None, self.decoder.embed(self.tokens[:, 0]))  # zeros cost as anything does

    @torch.no_grad()
    def __call__(self) -> int:
        for tokens in self.tokens.unbind(1):
            self.decoder.output(self.decoder.body.step(self.state, self.decoder.embed(tokens)))
        return self.tokens.numel()

    def buffers(self) -> list[torch.Tensor]:
        """Keys and values that a step sees."""
        if isinstance(self.state, list):
            return [x for cache in self.state for x in (cache.keys, cache.values)]
        self()
        sources = self.state.decoder.memory_sources()
        return [x[..., : source.span] for source in sources for x in (source.keys.transpose(1, 2), source.values)]


class HiddenStates(Generation):
    """A Transformer that caches hidden states and recomputes keys and values of all of them at every token."""

    def start(self, args) -> None:
        self.memory = None

    @torch.no_grad()
    def __call__(self) -> int:
        for tokens in self.tokens.split(1, dim=1):
            y, self.memory = self.decoder.body(self.decoder.embed(tokens), self.memory)
            self.decoder.output(y)
        return self.tokens.numel()


if __name__ == "__main__":
    main()
