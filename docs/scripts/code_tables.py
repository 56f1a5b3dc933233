"""What the code says of itself, as tables: architectures, options, tools, patches of fairseq."""

import argparse
import ast
import contextlib
import dataclasses
import importlib
import inspect
import io
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
    """The named architectures of some models, each with what it sets."""
    names = [name for name in sorted(ARCH_CONFIG_REGISTRY) if ARCH_MODEL_NAME_REGISTRY[name] in models.split()]
    return table(["architecture", "settings"], ((code(name), sets(name)) for name in names))


def sets(name: str) -> str:
    """What an architecture sets other than its model's own defaults."""
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
    """The options of every model, task, criterion, optimizer or lr_scheduler of this suite.

    Options that several have in common stand once, under the names of all of them.
    """
    parts = [f"### {', '.join(map(code, names))}\n\n{table(HEADER, rows)}" for names, rows in sections(kind)]
    return "\n\n".join(parts)


HEADER = ["flag", "default", "what it does"]


def sections(kind: str) -> list[tuple[tuple[str, ...], list]]:
    """(names, rows of their options), those of the most names first."""
    found: dict[tuple[str, ...], list] = {}
    by_config, own_rows = shared(kind)
    for config, names in by_config.items():
        if rows := [row(field) for field in declared(config)]:
            found.setdefault(tuple(sorted(names)), []).extend(rows)
    for name, rows in own_rows.items():
        found.setdefault((name,), []).extend(rows)
    return sorted(found.items(), key=lambda section: (-len(section[0]), section[0]))


def shared(kind: str) -> tuple[dict[type, list[str]], dict[str, list]]:
    """Each dataclass of ours -> the names whose options it holds; name -> the rows of one without a dataclass."""
    by_config, own_rows = {}, {}
    for name, (made, config) in sorted(registered(kind).items()):
        if config is None:
            own_rows[name] = added(made)
        for base in reversed(config.__mro__ if config else ()):
            if is_ours(base):
                by_config.setdefault(base, []).append(name)
    return by_config, own_rows


def registered(kind: str) -> dict[str, tuple[type, type | None]]:
    """Name -> what the suite registers with fairseq, and the dataclass of its options."""
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


def declared(config: type) -> list[dataclasses.Field]:
    """The fields that a class itself declares, but for those that are another part's option (update_freq)."""
    fields = config.__dataclass_fields__
    own = [fields[name] for name in vars(config).get("__annotations__", {}) if name in fields]
    return [field for field in own if not str(default(field)).startswith("${")]


def added(model: type) -> list:
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
    """Every command of a folder: what it says it does, and its options."""
    scripts = [path for path in sorted((ROOT / folder).glob("*.py")) if is_command(path)]
    return "\n\n".join(filter(None, map(tool, scripts)))


def is_command(path: Path) -> bool:
    """A command under its present name; an earlier name of a tool says what it is now called, and starts that."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    started = any(ast.unparse(node.test) == "__name__ == '__main__'" for node in tree.body if isinstance(node, ast.If))
    return started and not is_earlier_name(tree)


def is_earlier_name(tree: ast.Module) -> bool:
    """Whether main() of a script hands on to that of another tool and parses nothing itself."""
    mains = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main"]
    calls = [ast.unparse(node.func) for main in mains for node in ast.walk(main) if isinstance(node, ast.Call)]
    return any(call.endswith(".main") for call in calls)


class Found(BaseException):
    """No Exception: a command that catches its errors must not catch this."""

    def __init__(self, parser: argparse.ArgumentParser):
        self.parser = parser


def tool(path: Path) -> str:
    parser = parser_of(path)
    if parser is None:
        return ""
    lines = inspect.cleandoc(parser.description or "").strip()
    rows = [action_row(action) for action in parser._actions if action.dest != "help"]
    rows = [row for row in rows if row]
    listed = table(["option", "default", "what it does"], rows)
    return f"### `{invocation(path)}`\n\n```text\n{lines}\n```\n\n{listed}"


def invocation(path: Path) -> str:
    relative = path.relative_to(ROOT)
    if relative.parts[0] == PACKAGE.name:
        return "python -m " + ".".join(relative.with_suffix("").parts)
    return f"python {relative}"


def parser_of(path: Path) -> argparse.ArgumentParser | None:
    """The parser of a script, caught when it is about to parse; None for one that parses nothing."""

    def caught(parser, *args, **kwargs):
        raise Found(parser)

    words = [path.name]
    with (
        mock.patch.object(argparse.ArgumentParser, "parse_args", caught),
        mock.patch.object(sys, "argv", words),
        mock.patch.object(sys, "path", [str(path.parent), *sys.path]),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except Found as found:
            return found.parser
    return None


def action_row(action: argparse.Action) -> tuple[str, str, str] | None:
    if action.help == argparse.SUPPRESS:
        return None
    if isinstance(action, argparse._SubParsersAction):
        names = ", ".join(map(code, action.choices))
        return code(action.dest if action.dest != argparse.SUPPRESS else "COMMAND"), "", f"one of {names}"
    name = ", ".join(action.option_strings) or action.metavar or action.dest
    text = (action.help or "").replace("(%(default)s)", "").replace("%(default)s", str(action.default)).strip()
    text = text.replace("%%", "%")
    if action.choices:
        text = f"{text}; one of {', '.join(code(each) for each in action.choices)}".removeprefix("; ")
    shown = "" if action.default in (None, "", [], False, argparse.SUPPRESS) else code(action.default)
    if action.required and action.option_strings:
        shown = "required"
    return code(name if isinstance(name, str) else " ".join(name)), shown, text


# Patches


def patches(_: str) -> str:
    """Every patch by the file that has it, in the order in which they are applied."""
    calls = [node.value.func for node in ast.parse(inspect.getsource(every_patch.apply)).body[0].body[1:]]
    by_module: dict[str, list[str]] = {}
    for call in calls:
        by_module.setdefault(call.value.id, []).append(call.attr)
    return "\n\n".join(patch_table(module, names) for module, names in by_module.items())


def patch_table(module: str, names: list[str]) -> str:
    loaded = importlib.import_module(f"fairseq_plugins.compat.{module}")
    rows = [(code(name), " ".join(inspect.getdoc(getattr(loaded, name)).split())) for name in names]
    header = ["patch", "what fairseq gets wrong, and what the patch does"]
    return f"### `fairseq_plugins/compat/{module}.py`\n\n{table(header, rows)}"
