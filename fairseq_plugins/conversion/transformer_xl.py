"""Checkpoints of github.com/kimiyoung/transformer-xl, the part in PyTorch (Dai et al., 2019): model.pt, which is the
whole pickled module."""

from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

from torch import nn

from fairseq_plugins.conversion.reading import StandIn
from fairseq_plugins.conversion.sources import END_OF_LINE, Converted, Source
from fairseq_plugins.conversion.vocabulary import Vocabulary, words
from fairseq_plugins.conversion.weights import Weights
from fairseq_plugins.conversion.xl import ARCH, Words, take_xl
from fairseq_plugins.errors import UserError

NAME = "transformer-xl"
TYPES = (
    "mem_transformer.AdaptiveEmbedding",
    "mem_transformer.MemTransformerLM",
    "mem_transformer.PositionalEmbedding",
    "mem_transformer.PositionwiseFF",
    "mem_transformer.RelPartialLearnableDecoderLayer",
    "mem_transformer.RelPartialLearnableMultiHeadAttn",
    "proj_adaptive_softmax.ProjectedAdaptiveLogSoftmax",
)
# torch's own in such a file. The last was part of every module until torch 1.2
TORCH_TYPES = (
    "torch.nn.modules.activation.ReLU",
    "torch.nn.modules.container.ModuleList",
    "torch.nn.modules.container.ParameterList",
    "torch.nn.modules.container.Sequential",
    "torch.nn.modules.dropout.Dropout",
    "torch.nn.modules.linear.Linear",
    "torch.nn.modules.normalization.LayerNorm",
    "torch.nn.modules.sparse.Embedding",
    "torch.nn.backends.thnn._get_thnn_function_backend",
)
# Of models that are refused
OTHER_TYPES = (
    "log_uniform_sampler.LogUniformSampler",
    "mem_transformer.DecoderLayer",
    "mem_transformer.MultiHeadAttn",
    "mem_transformer.RelLearnableDecoderLayer",
    "mem_transformer.RelLearnableMultiHeadAttn",
    "utils.log_uniform_sampler.LogUniformSampler",
    "utils.proj_adaptive_softmax.ProjectedAdaptiveLogSoftmax",
)
ALONE = (
    ", but the repository counts enwik8, text8 and WikiText-2 in the texts for validation and test, too: put them"
    " beside it, or the order of symbols may be another"
)
OTHER_ORDER = (
    "counted as for another corpus, the text gives as many symbols in another order; if losses are high, give cache.pt"
)


def convert(checkpoint: Any, args: Namespace) -> Converted:
    if not isinstance(checkpoint, StandIn):
        raise UserError(f"the checkpoint is no model.pt of {NAME}, which is a pickled module; check --from.")
    if attribute(checkpoint, "attn_type", int) or attribute(checkpoint, "sample_softmax", int) > 0:
        raise UserError(
            "the checkpoint was trained with --attn_type or --sample_softmax, which no model of this suite has; it"
            " cannot be converted."
        )
    embeddings, attention = map(checkpoint.get_submodule, ("word_emb", "layers.0.dec_attn"))
    form = Words(
        width=attribute(checkpoint, "d_model", int),
        embed_dim=attribute(checkpoint, "d_embed", int),
        cutoffs=attribute(embeddings, "cutoffs", list)[:-1],
        factor=attribute(embeddings, "div_val", int),
        reverse_clusters=True,
    )
    weights = Weights(checkpoint.state_dict(), NAME)
    options, state, notes = take_xl(weights, form)
    rate = attribute(checkpoint.get_submodule("drop"), "p", float)
    options |= {
        "float32_scores": True,
        "decoder_normalize_before": attribute(attention, "pre_lnorm", bool),
        "mem_len": attribute(checkpoint, "mem_len", int),
        "clamp_len": attribute(checkpoint, "clamp_len", int),
        "same_length": attribute(checkpoint, "same_length", bool),
        "attention_dropout": attribute(attention.get_submodule("dropatt"), "p", float),
        **dict.fromkeys(("dropout", "embed_dropout", "output_dropout"), rate),
    }
    return Converted(ARCH, options, state, attribute(checkpoint, "tgt_len", int), notes)


def attribute(module: nn.Module, name: str, kind: type) -> Any:
    """An attribute of this type. Raises UserError if there is none."""
    value = vars(module).get(name)
    if type(value) is not kind:
        raise UserError(
            f"the checkpoint's {type(module).__name__} has {name} {value!r}, not {kind.__name__}; check --from."
        )
    return value


def counted_vocabulary(train: Path, converted: Converted) -> Vocabulary:
    """By falling count. WikiText-103 is counted in train.txt, and its ends of line come first. WikiText-2 is counted in
    valid.txt and test.txt, too, and so are enwik8 and text8, which have no ends of line."""
    others = [path for name in ("valid", "test") if (path := train.with_name(name + train.suffix)).is_file()]
    alone = () if len(others) == 2 else (f"{train.name} alone was counted{ALONE}",)
    found = [
        Vocabulary(counted([train], first=(END_OF_LINE,)), ends_lines=True),
        Vocabulary(counted([train, *others], first=(END_OF_LINE,)), True, alone),
        Vocabulary(counted([train, *others]), False, alone),
    ]
    if "adaptive_input" not in converted.options:
        found.reverse()
    fitting = [one for one in found if len(one.symbols) == converted.symbols]
    if any(one.symbols != fitting[0].symbols for one in fitting):
        fitting[0] = fitting[0]._replace(notes=(*fitting[0].notes, OTHER_ORDER))
    return next(iter(fitting), found[0])


def counted(paths: list[Path], first: tuple[str, ...] = ()) -> list[str]:
    """Words by falling count. Of those with equal counts, the one that appears first comes first."""
    counts = Counter(words(*paths))
    del counts[END_OF_LINE]
    return [*first, *(symbol for symbol, _ in counts.most_common())]


SOURCE = Source(
    NAME,
    convert,
    counted_vocabulary,
    symbols=("vocab", "idx2sym"),
    corpus_types=("data_utils.Corpus", "utils.vocabulary.Vocab"),
    checkpoint_types=(*TYPES, *OTHER_TYPES, *TORCH_TYPES),
)
