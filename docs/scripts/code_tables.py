"""Tables from the code: architectures, options, tools, patches of fairseq."""

import argparse
import ast
import dataclasses
import importlib
import inspect
import re
import runpy
import sys
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import get_args, get_origin
from unittest import mock

import fairseq.optim.lr_scheduler  # noqa: F401  (registers)
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_NAME_REGISTRY, MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

import fairseq_plugins
from fairseq_plugins.compat import every_patch
from fairseq_plugins.tools.lib.markdown_text import code, table

PACKAGE = Path(fairseq_plugins.__file__).parent
ROOT = PACKAGE.parent


# Architectures


def architectures(models: str) -> str:
    """The named architectures of some models with their settings; those with the same settings share a row."""
    rows: dict[str, list[str]] = {}
    for name in sorted(ARCH_CONFIG_REGISTRY):
        if ARCH_MODEL_NAME_REGISTRY[name] in models.split():
            rows.setdefault(sets(name), []).append(code(name))
    return table(["architecture", "settings"], ((", ".join(names), settings) for settings, names in rows.items()))


def sets(name: str) -> str:
    """The settings of an architecture that differ from its model's defaults."""
    model = ARCH_MODEL_NAME_REGISTRY[name]
    defaults, given = default_options(model), chosen(name)
    differ = {option: value for option, value in given.items() if defaults.get(option) != value}
    return ", ".join(f"`{option} {value}`" for option, value in differ.items()) or "the defaults"


def chosen(name: str) -> dict:
    args = argparse.Namespace()
    ARCH_CONFIG_REGISTRY[name](args)
    return vars(args)


def default_options(model: str) -> dict:
    if options := getattr(MODEL_REGISTRY[model], "__dataclass", None):
        return {field.name: default(field) for field in dataclasses.fields(options)}
    return chosen(model)


# Options


def options(kind: str) -> str:
    """The options of every model, task, criterion, optimizer or lr_scheduler of this suite, in alphabetical order."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for name, (made, config) in sorted(registered(kind).items()):
        for each in declared(config) if config else added(made):
            found.setdefault(each, []).append(name)
    return table(["flag", "default", "for", "meaning"], by_meaning(found))


def by_meaning(found: dict[tuple[str, str, str], list[str]]) -> list[list[str]]:
    """A row for each flag and meaning. Where defaults differ, the names are in the order of their defaults."""
    rows: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for (flag, shown, text), names in sorted(found.items()):
        rows.setdefault((flag, text), []).append((shown, ", ".join(map(code, names))))
    return [[flag, *("; ".join(column) for column in zip(*row)), text] for (flag, text), row in rows.items()]


def registered(kind: str) -> dict[str, tuple[type, type | None]]:
    """Name -> the class that the suite registers with fairseq, and the dataclass of its options."""
    if kind == "models":
        every = {name: (model, model_options(model)) for name, model in MODEL_REGISTRY.items()}
    elif kind == "tasks":
        every = {name: (TASK_REGISTRY[name], options) for name, options in TASK_DATACLASS_REGISTRY.items()}
    else:
        known = REGISTRIES[kind]
        every = {name: (made, known["dataclass_registry"].get(name)) for name, made in known["registry"].items()}
    return {name: entry for name, entry in every.items() if is_ours(entry[0])}


def model_options(model: type) -> type | None:
    return getattr(model, "__dataclass", None) or getattr(model, "FLAGS", None)


def is_ours(thing) -> bool:
    return thing.__module__.startswith("fairseq_plugins.")


def declared(config: type) -> list[tuple[str, str, str]]:
    """The rows of the fields that our classes declare, without copies of other options (update_freq)."""
    ours = {name for base in config.__mro__ if is_ours(base) for name in vars(base).get("__annotations__", {})}
    fields = [field for name, field in config.__dataclass_fields__.items() if name in ours]
    return [row(field) for field in fields if not str(default(field)).startswith("${")]


def added(model: type) -> list[tuple[str, str, str]]:
    """The options that a model without a dataclass adds to those of fairseq's model that it extends."""
    fairseqs = next(base for base in model.__mro__ if not is_ours(base))
    before = {action.dest for action in actions(fairseqs)}
    return [action_row(action) for action in actions(model) if action.dest not in before]


def actions(model: type) -> list[argparse.Action]:
    parser = argparse.ArgumentParser(add_help=False)
    model.add_args(parser)
    return parser._actions


def row(field: dataclasses.Field) -> tuple[str, str, str]:
    flag, value = "--" + field.name.replace("_", "-"), default(field)
    text = field.metadata.get("help", "")
    if choices := choices_of(field.type):
        text = f"{text}; one of {', '.join(map(code, choices))}"
    if value is False:
        shown = "off"
    elif value in (None, ""):
        shown = ""
    else:
        shown = code(value)
    return code(flag), shown, text


def choices_of(kind) -> list[str]:
    kinds = get_args(kind) if get_origin(kind) else (kind,)
    enums = [each for each in kinds if inspect.isclass(each) and issubclass(each, Enum) and each is not NoneType]
    return [str(choice.value) for enum in enums for choice in enum]


def default(field: dataclasses.Field):
    value = field.default_factory() if field.default is dataclasses.MISSING else field.default
    return str(value.value) if isinstance(value, Enum) else value


# Tools


def tools(folder: str) -> str:
    """Every command of a folder with its purpose and an example; --help prints its options."""
    rows = [(code(path.stem), purpose(parser), code(example(parser))) for path, parser in commands(folder)]
    return table(["tool", "purpose", "example"], rows)


def scripts(folder: str) -> str:
    """Every command of a folder with its purpose, as a table."""
    return table(["script", "text"], ((code(path.stem), purpose(parser)) for path, parser in commands(folder)))


def commands(folder: str) -> list[tuple[Path, argparse.ArgumentParser]]:
    paths = sorted((ROOT / folder).glob("*.py"))
    return [(path, parser_of(path)) for path in paths if "__main__" in path.read_text(encoding="utf-8")]


def purpose(parser: argparse.ArgumentParser) -> str:
    """The first paragraph of a description."""
    return plain(" ".join(inspect.cleandoc(parser.description).partition("\n\n")[0].split()))


def example(parser: argparse.ArgumentParser) -> str:
    """The first command of a description, in one line."""
    paragraphs = inspect.cleandoc(parser.description).split("\n\n")
    lines = next(part for part in paragraphs if part.lstrip().startswith("python ")).replace("\\\n", " ").splitlines()
    return re.sub(" +", " ", lines[0].partition("  #")[0].strip())


class Found(BaseException):
    """No Exception: a command that catches its errors must not catch this."""

    def __init__(self, parser: argparse.ArgumentParser):
        self.parser = parser


def parser_of(path: Path) -> argparse.ArgumentParser:
    """The parser of a script, caught when it is about to parse."""

    def caught(parser, *args, **kwargs):
        raise Found(parser)

    with (
        mock.patch.object(argparse.ArgumentParser, "parse_args", caught),
        mock.patch.object(sys, "argv", [path.name]),
        mock.patch.object(sys, "path", [str(path.parent), *sys.path]),
    ):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except Found as found:
            return found.parser
    raise ValueError(f"{path} parses no options.")


def action_row(action: argparse.Action) -> tuple[str, str, str]:
    text = plain((action.help or "").replace("(%(default)s)", "").strip())
    if action.choices:
        text = f"{text}; one of {', '.join(map(code, action.choices))}".removeprefix("; ")
    shown = "" if action.default in (None, "", [], False) else code(action.default)
    return code(", ".join(action.option_strings)), shown, text


def plain(text: str) -> str:
    """Text that Markdown does not take for HTML, such as <unk>."""
    return text.replace("<", "&lt;")


# Patches


def patches(_: str) -> str:
    """Every patch with the file that has it, in the order in which they are applied."""
    calls = [node.value.func for node in ast.parse(inspect.getsource(every_patch.apply)).body[0].body[1:]]
    by_module: dict[str, list[str]] = {}
    for call in calls:
        by_module.setdefault(call.value.id, []).append(call.attr)
    rows = [patch_row(module, name) for module, names in by_module.items() for name in names]
    return table(["file", "patch", "fault of fairseq, and its repair"], rows)


def patch_row(module: str, name: str) -> tuple[str, str, str]:
    patch = getattr(importlib.import_module(f"fairseq_plugins.compat.{module}"), name)
    return code(f"{module}.py"), code(name), " ".join(inspect.getdoc(patch).split())
