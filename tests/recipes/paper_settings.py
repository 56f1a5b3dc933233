"""What a recipe's commands set, and what recipes/PAPER/paper.json declares of them: how to read and compare both.

    {
      "paper": "who, when, what",
      "settings": {
        "enwik8": {                                 a group of settings, each beside its source:
          "paper: Table 9": {"decoder_layers": 12},     the paper, its section or table,
          "code": {"adam_betas": "(0.9, 0.999)"},       the authors' code, where the paper is silent,
          "ours: why": {"embed_dropout": 0.1}           ours, and the reason
        }
      },
      "initial weights": {                          of which code in tests/models/initial_weights.py they are,
        "transformer-sequential": {"code": ["feedback_lm_enwik8"]}    by which source, and of which architectures
      },
      "choices": {                                what no option changes, in the same way; a sentence each
        "agents": {"ours: why": ["layers are pre-norm"]}
      },
      "recipes": {
        "table4_enwik8": {                          one recipe or several, with spaces between
          "train *": ["enwik8"],                        the commands of such names, and the groups that hold for them;
          "train *-fine": ["fine-tuning"]               what comes later overrides what came before
        }
      },
      "published": {"Table 4": {"feedback": {"test bpc": 0.96}}}
    }

A file may have "gpus", the number that its recipes are called with, 8 otherwise. Commands are named by what they do and
the training they do it to: "train feedback-fine", "eval-lm feedback-fine/test", "preprocess enwik8". Options have the
names that fairseq gives them. Instead of those that depend on the number of processes there are total_batch_size,
total_max_tokens and total_batch_size_valid: one update of all processes, one batch of the validation. Instead of the
flags of precision there is "precision": fp16, bf16 or fp32, which is without TF32; and "model" is the architecture's
model. In a pattern * is anything and <word> a part of the name, which is {word} in the texts of the
groups; {name} is the training's name there and {stem} that up to its last hyphen. {"one of": [8, 12]} is for commands
of one name that differ, each of which has one of these values, and each value one of them.
"""

import argparse
import dataclasses
import json
import re
import shlex
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerConfig, TransformerModel
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY

from fairseq_plugins.tools.parse_commands import launched, parse

OUT, DATA = "/out", "/data"  # what recipes are called with
SOURCE = re.compile(r"paper: .+|code|code: .+|ours: .+")
PRINTING = {"row", "results_table", "plot", "position_accuracy"}  # tables and pictures of what the others found

# Options that change no result: where files lie, what is logged and kept, the machine, the same figures another way.
HOUSEKEEPING = {
    "arch", "data", "path", "paths", "out", "output", "json", "raw", "inputs", "references", "generated", "bpe_dir",
    "checkpoint", "checkpoints", "folder", "save_dir", "user_dir", "gen_subset", "subset",
    "log_format", "log_interval", "log_learned", "no_progress_bar", "no_epoch_checkpoints", "keep_interval_updates",
    "memory_in_checkpoint", "split_streams", "num_workers", "workers", "published",
    "distributed_world_size", "distributed_rank", "no_seed_provided",
    "update_epoch_batch_itr", "feedback_engine", "plasma_path", "find_unused_parameters", "batch_size_valid",
    "max_tokens_valid",
    "size",  # of preprocess/: how many merges if --bpe does not say, which recipes do
}  # fmt: skip
BATCH = {"batch_size", "max_tokens", "update_freq"}
HALF = {"fp16", "bf16"}
# fairseq's options that are declared although they are as by default: of trainings, and of other commands
TRAINING = re.compile(
    "task|criterion|label_smoothing|optimizer|adam_.*|weight_decay|clip_norm|lr|lr_scheduler|warmup_.*|max_update"
    "|max_epoch|.*dropout|.*layerdrop|(en|de)coder_(layers|embed_dim|ffn_embed_dim|attention_heads)"
)
EVALUATION = re.compile("batch_size|tokens_per_sample|model_overrides|beam|lenpen")


class Command(NamedTuple):
    """
    Attributes:
        name: what it does, and to which training
        options: every effective value
        needed: names of the options that have to be declared
    """

    name: str
    options: dict[str, Any]
    needed: set[str]


def read_commands(lines: list[str]) -> list[Command]:
    """The commands in a recipe's --commands FILE, but for those that print."""
    commands = [read_command(words) for _, words in split(lines)]
    return [command for command in commands if command.name.split()[0] not in PRINTING]


def split(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """(FILE:LINE, words of the command)"""
    for line in lines:
        where, _, command = line.partition("\t")
        yield where, shlex.split(command)


def read_rows(lines: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and columns of each row that the recipe prints."""
    for _, words in split(lines):
        if words[1] == "recipes/lib/row.py":
            yield words[3], dict(word.split("=", 1) for word in words[4:] if "=" in word)


def read_command(words: list[str]) -> Command:
    processes, words = launched(words)
    parsed = parse(words)
    if words[0] == "fairseq-train":
        return read_training(parsed.options, parsed.parser, processes)
    program = words[0].removeprefix("fairseq-")
    if program == "python":
        program = words[2].rpartition(".")[2] if words[1] == "-m" else words[1].removesuffix(".py").replace("/", " ")
    options, needed = effective(parsed.options, parsed.parser, every_number=words[0] == "python")
    if "--" in words:  # of tune_length_penalty, for fairseq-generate
        rest = read_command(["fairseq-generate", DATA, "--path", "a", *words[words.index("--") + 1 :]])
        options, needed = {**rest.options, **options}, needed | rest.needed - {"lenpen"}
    return Command(
        " ".join([re.sub("^(fairseq_plugins tools|recipes lib) ", "", program), *subject(words)]), options, needed
    )


def effective(options: argparse.Namespace, parser: argparse.ArgumentParser, every_number: bool):
    """Options and which of them have to be declared, of a command that does not train."""
    numbers = {"precision": precision(options)} if "fp16" in options else {}
    options = {name: plain(value) for name, value in vars(options).items() if name not in HOUSEKEEPING | HALF} | numbers
    needed = {
        name
        for name, value in options.items()
        if EVALUATION.fullmatch(name) or value != plain(default(parser, name)) or (every_number and is_number(value))
    }
    return options, needed


def default(parser: argparse.ArgumentParser, name: str) -> Any:
    return "fp32" if name == "precision" else parser.get_default(name)


def precision(options: argparse.Namespace) -> str:
    return "fp16" if options.fp16 else "bf16" if options.bf16 else "fp32"


def subject(words: list[str]) -> list[str]:
    """The training whose files are named first, and the split."""
    folders = [found[1] for word in words if (found := re.search(rf"{OUT}/(.+?)(/[^/]*\.\w+)?$", word))]
    folders = [folder for folder in folders if not re.search(r"\.\w+$", folder)][:1]
    splits = [words[words.index("--gen-subset") + 1]] if "--gen-subset" in words else []
    return ["/".join(folders + splits)] if folders or splits else []


def read_training(options: argparse.Namespace, parser: argparse.ArgumentParser, processes: int) -> Command:
    model = ARCH_MODEL_REGISTRY[options.arch]
    kinds = [model, TASK_REGISTRY[options.task]]
    kinds += [REGISTRIES[name]["registry"][getattr(options, name)] for name in ("criterion", "optimizer")]
    kinds += [REGISTRIES["lr_scheduler"]["registry"][options.lr_scheduler]]
    ours = {name for kind in kinds for name in fields_of_this_suite(kind)}
    defaults = model_defaults(model)
    values = {**defaults, **vars(options)}
    needed = {
        name
        for name, value in values.items()
        if TRAINING.fullmatch(name)
        or name in ours
        or plain(value) != plain(defaults.get(name, parser.get_default(name)))
    }
    totals = total_batch(options, processes) | {
        "model": ARCH_MODEL_NAME_REGISTRY[options.arch],
        "precision": precision(options),
    }
    left_out = HOUSEKEEPING | BATCH | HALF
    values = {name: plain(value) for name, value in values.items() if name not in left_out}
    return Command(f"train {plain(options.save_dir)}", values | totals, (needed - left_out) | set(totals))


def total_batch(options: argparse.Namespace, processes: int) -> dict[str, int]:
    """What all processes take for one update, and for one batch of the validation."""
    updates = plain(options.update_freq) * processes
    if options.batch_size is None:
        return {"total_max_tokens": options.max_tokens * updates}
    return {
        "total_batch_size": options.batch_size * updates,
        "total_batch_size_valid": int(options.batch_size_valid) * processes,
    }


def model_defaults(model: type) -> dict[str, Any]:
    """What options of a model are that neither a flag nor the architecture sets."""
    options = TransformerConfig if issubclass(model, TransformerModel) else getattr(model, "__dataclass", None)
    parser = argparse.ArgumentParser()
    if options:
        gen_parser_from_dataclass(parser, options(), with_prefix="")
    return {action.dest: action.default for action in parser._actions if action.dest != "help"}


def fields_of_this_suite(kind: type) -> set[str]:
    """Options that this suite gives to a model, task, criterion, optimiser or schedule: their defaults may change."""
    return {
        field.name
        for part in kind.__mro__
        for options in (vars(part).get("__dataclass"), vars(part).get("FLAGS"))
        for base in (options.__mro__ if options else ())
        if base.__module__.startswith("fairseq_plugins.")
        for field in dataclasses.fields(base)
        if field.name in vars(base).get("__annotations__", {}) and not str(field.default).startswith("${")
    }


def plain(value: Any) -> Any:
    """As in a file: a choice is its name, what stands alone in a list itself, a path that of a training."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple) and len(value) == 1:
        return plain(value[0])
    if isinstance(value, tuple | Path):
        return plain(str(value))
    if isinstance(value, str):
        return int(value) if value.isdecimal() else value.removeprefix(f"{OUT}/")
    return value


def is_number(value: Any) -> bool:
    """A number, or several."""
    if isinstance(value, list):
        return any(map(is_number, value))
    if isinstance(value, str):
        return bool(re.fullmatch(r"[-(\[]?\d[-\d.,e) \]]*", value))
    return isinstance(value, int | float) and not isinstance(value, bool)


class Paper:
    """A paper's file.

    Raises ValueError where a name stands twice in it, a source is none, or a recipe names a group that is not there.
    """

    def __init__(self, text: str):
        self.content = json.loads(text, object_pairs_hook=once_each)
        self.gpus = self.content.get("gpus", 8)
        self.settings, self.recipes = self.content["settings"], self.content["recipes"]
        for group, sources in self.settings.items():
            for source in sources:
                if not SOURCE.fullmatch(source):
                    raise ValueError(f"{group}: {source!r} is no source: give 'paper: where', 'code' or 'ours: why'")
        for held in self.recipes.values():
            for group in sum(held.values(), []):
                if group not in self.settings:
                    raise ValueError(f"{group!r} is no group of settings")
        self.used: set[tuple[str, str, str]] = set()  # group, source and option of what held for some command
        self.met: set[tuple[str, str]] = set()  # options and values that were one of several

    def of_recipe(self, name: str) -> list[tuple[str, list[str]]]:
        """Patterns of a recipe's commands, and the groups that hold for them."""
        return [each for names, held in self.recipes.items() if name in names.split() for each in held.items()]

    def declared(self, recipe: str, command: str) -> dict[str, Any]:
        """The options that the file declares for a command."""
        training = command.partition(" ")[2]
        names = {"name": training, "stem": training.rpartition("-")[0]}
        found = {}
        for pattern, groups in self.of_recipe(recipe):
            if match := expression(pattern).fullmatch(command):
                for group in groups:
                    for source, options in self.settings[group].items():
                        for option, value in options.items():
                            found[option] = filled(value, names | match.groupdict()), (group, source, option)
        self.used |= {place for _, place in found.values()}
        return {option: value for option, (value, _) in found.items()}

    def differences(self, recipe: str, commands: list[Command]) -> list[str]:
        """What the commands set that the file does not declare, and the other way round."""
        found = []
        for command in commands:
            declared = self.declared(recipe, command.name)
            where = f"{recipe}, {command.name}"
            for option in sorted(command.needed - set(declared)):
                found.append(f"{where}: {option} is {command.options[option]!r} and not declared")
            for option, value in declared.items():
                if option not in command.options:
                    found.append(f"{where}: {option} is declared, the command has no such option")
                elif isinstance(value, dict) and command.options[option] in value["one of"]:
                    self.met.add((option, str(command.options[option])))
                elif not equal(command.options[option], value):
                    found.append(f"{where}: {option} is {command.options[option]!r}, declared {value!r}")
        return found

    def unused(self) -> list[str]:
        """Settings that were declared for no command so far."""
        found = []
        for group, sources in self.settings.items():
            for source, options in sources.items():
                for option, value in options.items():
                    if (group, source, option) not in self.used:
                        found.append(" / ".join((group, source, option)))
                    for one in value["one of"] if isinstance(value, dict) else ():
                        if (option, str(one)) not in self.met:
                            found.append(" / ".join((group, source, option, str(one))))
        return found


def equal(value: Any, declared: Any) -> bool:
    return value == declared and isinstance(value, bool) == isinstance(declared, bool)


def expression(pattern: str) -> re.Pattern:
    parts = re.split(r"(\*|<\w+>)", pattern)
    return re.compile("".join(".*" if part == "*" else word(part) or re.escape(part) for part in parts))


def word(part: str) -> str | None:
    return f"(?P{part}[^/]+?)" if part.startswith("<") else None


def filled(value: Any, names: dict[str, str]) -> Any:
    if not isinstance(value, str):
        return value
    for name, text in names.items():
        value = value.replace(f"{{{name}}}", text)
    return float(value) if re.fullmatch(r"\d+\.\d+", value) else plain(value)


def once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{sorted(twice)[0]!r} stands twice in one place")
    return dict(pairs)
