"""The options of fairseq's commands and of what users of the suite choose in them, and numbers to give them."""

import argparse
import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from fairseq import options
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY

from fairseq_plugins.options.ranges import Range, is_numeric, range_of

COMMANDS = {
    "train": options.get_training_parser,
    "generate": options.get_generation_parser,
    "interactive": options.get_interactive_generation_parser,
    "eval-lm": options.get_eval_lm_parser,
    "validate": options.get_validation_parser,
    "preprocess": options.get_preprocessing_parser,
}
# Parts of fairseq that users of the suite choose; all of ours are taken, too.
CHOSEN = {
    "task": ["translation", "language_modeling", "sentence_prediction", "masked_lm"],
    "model": ["transformer", "transformer_lm", "lstm", "lstm_lm", "roberta"],
    "criterion": [
        "cross_entropy", "label_smoothed_cross_entropy", "adaptive_loss", "sentence_prediction", "masked_lm",
    ],
    "optimizer": ["adadelta", "adafactor", "adagrad", "adam", "adamax", "nag", "sgd", "lamb", "cpu_adam", "composite"],
    "lr_scheduler": [
        "cosine", "fixed", "inverse_sqrt", "manual", "pass_through", "polynomial_decay", "reduce_lr_on_plateau", "step",
        "tri_stage", "triangular",
    ],
    "scoring": ["bleu", "sacrebleu", "chrf", "wer"],
    "bpe": ["subword_nmt", "sentencepiece", "gpt2", "characters", "bytes"],
    "tokenizer": ["moses", "space"],
}  # fmt: skip


class Part(NamedTuple):
    """A command, or a part of fairseq that has options of its own: ("optimizer", "adam")."""

    kind: str
    name: str


def part_classes() -> Iterator[tuple[Part, type]]:
    """All parts that have a class."""
    registries = {name: registry["registry"] for name, registry in REGISTRIES.items()}
    for kind, registry in {"task": TASK_REGISTRY, "model": MODEL_REGISTRY, **registries}.items():
        for name, part in registry.items():
            if name in CHOSEN.get(kind, ()) or part.__module__.startswith("fairseq_plugins"):
                yield Part(kind, name), part


def parsers() -> Iterator[tuple[Part, argparse.ArgumentParser]]:
    """The parser of each command without its parts, and one for each part."""
    for name, make in COMMANDS.items():
        yield Part("command", name), make()
    for part, its_class in part_classes():
        parser = argparse.ArgumentParser(allow_abbrev=False)
        if hasattr(its_class, "add_args"):
            its_class.add_args(parser)
        elif fields := getattr(its_class, "__dataclass", None):
            gen_parser_from_dataclass(parser, fields())
        yield part, parser


def numeric_options() -> dict[Part, dict[str, argparse.Action]]:
    """The options for numbers of each command and part, by their flags. One that is a command's and a part's, or two
    commands', is named once."""
    found, seen = {}, set()
    for part, parser in parsers():
        for action in parser._actions:
            flag = max(action.option_strings, default="", key=len)
            new = flag not in seen or part.kind == "task"  # sizes of --task streaming_... and language_modeling differ
            if new and is_numeric(action.dest, action.type):
                found.setdefault(part, {})[flag] = action
                seen.add(flag)
    return found


def numbers_taken_as_text() -> set[str]:
    """Fields for numbers that fairseq's parser takes as text, since their values come from another part by default."""
    found = set()
    for part, parser in parsers():
        its_class = dict(part_classes()).get(part)
        fields = getattr(its_class, "__dataclass", None)
        kinds = {field.name: str(field.type) for field in dataclasses.fields(fields)} if fields else {}
        for action in parser._actions:
            kind = kinds.get(action.dest, "")
            if action.type is None and action.nargs != 0 and ("int" in kind or "float" in kind):
                found.add(action.dest)
    return found


def written(value: float, range: Range) -> str:
    """A value of an option as it is given: as often as the option wants it."""
    text = str(int(value)) if range.whole and value == int(value) else repr(value)
    return ",".join([text] * (range.several or 1))


def wrong_values(dest: str) -> list[str]:
    """Of the wrong type, nan, inf, below and above."""
    range = range_of(dest)
    step = 1 if range.whole else 0.5
    below = range.low if range.above else range.low - step
    while below in range.also:
        below -= step
    numbers = [float("nan"), float("-inf"), *([] if range.infinite else [float("inf")])]
    numbers += [below, range.high if range.below else range.high + step]
    values = ["x", "", *(written(number, dataclasses.replace(range, whole=False)) for number in numbers)]
    values += ["1.5"] * range.whole + ["1,2"] * (range.several == 1) + ["0.5"] * (range.several not in (1, None))
    return [value for value in dict.fromkeys(values) if not (range.infinite and value == "inf")]


def right_values(dest: str) -> list[str]:
    """The least, the largest, and those that mean something of their own."""
    range = range_of(dest)
    least = 0 if range.low == float("-inf") else range.low
    values = [least + 0.1 if range.above else least, *range.also]
    if range.high < float("inf"):
        values.append(range.high - 0.1 if range.below else range.high)
    if range.infinite:
        values.append(float("inf"))
    return list(dict.fromkeys(written(value, range) for value in values))
