"""Patches of fairseq's command line."""

import argparse
import contextlib
import difflib
import functools
import re
import sys
from collections.abc import Callable
from typing import Any, cast

import omegaconf
from fairseq import checkpoint_utils, options
from fairseq.dataclass import initialize

from fairseq_plugins.compat.patch import after_parsing, replace, settings_of
from fairseq_plugins.errors import UserError
from fairseq_plugins.options import combinations, ranges
from fairseq_plugins.options.literals import evaluate


def bf16_is_not_tpu():
    """fairseq's parser sets --tpu if --bf16 is given, and then fails because torch_xla is missing. The patch keeps
    --tpu as the user gave it."""

    @replace(options, "parse_args_and_arch")
    def parse_args_and_arch(original, parser, input_args=None, *args, **kwargs):
        parsed = original(parser, input_args, *args, **kwargs)
        settings = settings_of(parsed)
        if getattr(settings, "bf16", False) and getattr(settings, "tpu", False):
            settings.tpu = getattr(parser.parse_known_args(input_args)[0], "tpu", False)
        return parsed


def help_shows_every_flag():
    """fairseq prints --help before it has added the flags of --arch, --task and other choices, so they are missing. The
    patch prints it when all flags are there. Without --arch, fairseq's training ends in a traceback; the patch says
    what is missing, or prints the help."""

    @replace(options, "parse_args_and_arch")
    def parse_args_and_arch(original, parser, *args, modify_parser=None, **kwargs):
        modified: list[argparse.ArgumentParser] = []
        asked: list[bool] = []

        class Help(argparse._HelpAction):
            def __call__(self, parser, *rest):
                asked.append(True)
                if len(modified) == 2:
                    super().__call__(parser, *rest)

        for action in parser._actions:
            if type(action) is argparse._HelpAction:
                action.__class__ = Help

        def modify(parser):
            if modify_parser is not None:
                modify_parser(parser)
            modified.append(parser)  # before fairseq's first parse, and again when all flags are there

        try:
            return original(parser, *args, modify_parser=modify, **kwargs)
        except RuntimeError as error:
            if error.args:
                raise
        # fairseq raises a RuntimeError without words where --arch names no model
        if asked:
            parser.print_help()
            parser.exit(message="\n--help with --arch NAME and --task NAME shows their flags, too.\n")
        raise UserError("--arch is missing: name a model, such as --arch feedback_lm_tiny; --help lists them.")


def numbers_fit():
    """fairseq does not check the numbers of its options: --lr -1 trains nothing, --lenpen nan translates badly, and
    --required-batch-size-multiple 0 kills the process, all silently. Some combinations of options end in a traceback.
    The patch checks numbers by the table in ``options/ranges.py``, and combinations by that in
    ``options/combinations.py``."""

    @replace(options, "parse_args_and_arch")
    def parse_args_and_arch(original, parser, *args, modify_parser=None, **kwargs):
        def modify(parser):
            if modify_parser is not None:
                modify_parser(parser)
            hold_to_ranges(parser)

        return original(parser, *args, modify_parser=modify, **kwargs)

    after_parsing(combinations.check)

    @replace(options, "add_preprocess_args")
    def add_preprocess_args(original, parser):  # fairseq-preprocess parses after this
        hold_to_ranges(original(parser))
        return parser


def configurations_fit():
    """fairseq-hydra-train reads no command line, so its numbers and combinations pass unchecked. The patch checks them
    when the training starts, by the same tables."""
    if not (train := sys.modules.get("fairseq_cli.train")):  # another command
        return
    just_importing = not hasattr(train, "add_defaults")  # the suite came first; the name comes from initialize next

    @replace(initialize if just_importing else train, "add_defaults")
    def add_defaults(original, cfg):
        original(cfg)
        if "job_logging_cfg" in cfg or cfg.common.reset_logging:  # only fairseq-hydra-train sets these
            check_configuration(cfg)


TRAINING_GROUPS = (
    "common", "distributed_training", "dataset", "optimization", "checkpoint", "task", "model", "criterion",
    "optimizer", "lr_scheduler", "bmuf", "ema",
)  # fmt: skip


def check_configuration(cfg: omegaconf.DictConfig) -> None:
    """Raises UserError if a number in a training's configuration does not fit, or options do not go together."""
    settings: dict[str, Any] = {}
    for group in TRAINING_GROUPS:
        if not isinstance(cfg.get(group), omegaconf.DictConfig):
            continue
        values = cast(dict[str, Any], omegaconf.OmegaConf.to_container(cfg[group], resolve=True))
        for name, value in values.items():
            settings[name] = value
            read = evaluate(value) if name in ranges.AS_TEXT and isinstance(value, str) else value
            if is_number(read) and not ranges.range_of(name).allows(read):
                raise UserError(f"{group}.{name} {value} does not fit; give {ranges.range_of(name)}.")
    combinations.check(argparse.Namespace(**settings))


def is_number(value) -> bool:
    """Whether it is a number or a list of numbers."""
    values = value if isinstance(value, list | tuple) else [value]
    return bool(values) and all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)


def hold_to_ranges(parser: argparse.ArgumentParser) -> None:
    """Make the parser refuse a number that is out of its option's range, and report each error in one sentence, without
    the list of all options."""

    def error(message):
        message = re.sub(r"'(\S+)' \(choose from (.{200,})\)", nearest, message, flags=re.DOTALL)
        message = message.removeprefix("argument ")  # --lr: nan does not fit
        raise UserError(re.sub(r"^(\S+): (.* does not fit|is missing);", r"\1 \2;", message))

    parser.error = error  # type: ignore[method-assign]
    for action in parser._actions:
        if getattr(action.type, "func", None) is not ranges.read and ranges.is_numeric(action.dest, action.type):
            action.type = functools.partial(ranges.read, action.dest, action.type)


def nearest(choice: re.Match) -> str:
    """A wrong choice, and in place of many right ones those that are spelt like it."""
    right = difflib.get_close_matches(choice[1], re.findall(r"[\w.@-]+", choice[2]), cutoff=0.7)
    known = f"the nearest are {', '.join(right)}" if right else "--help lists the choices"
    return f"'{choice[1]}'; {known}"


def overrides_are_options():
    """fairseq evaluates --model-overrides as code and uses the value without a check. It silently ignores names that
    are not options of the checkpoint. The patch accepts a dictionary of the model's options only."""

    named: set[str] = set()

    @after_parsing
    def remember(settings):
        named.update(combinations.dictionary("model_overrides", getattr(settings, "model_overrides", "{}")))

    @replace(checkpoint_utils, "overwrite_args_by_name")
    def overwrite_args_by_name(original, cfg, overrides):
        while WAITING:
            WAITING.pop()(cfg)
        check_options(cfg, named.intersection(overrides))
        named.clear()  # other models of an ensemble may not have all of them
        original(cfg, overrides)


WAITING: list[Callable] = []  # checks of ``before_overrides``


@contextlib.contextmanager
def before_overrides(check):
    """In this context, ``check`` is called with the configuration of the first checkpoint that is loaded with
    overrides, as it was trained. A model that has ``add_args`` gets every override from fairseq, so afterwards any name
    would be one of its options."""
    WAITING.append(check)
    try:
        yield
    finally:
        WAITING.clear()


def int8_is_of_a_loaded_model():
    """fairseq overrides options of a training with --model-overrides. The patch takes int8 out of them, which is no
    such option, and asks the loaded models for it."""

    @replace(checkpoint_utils, "load_model_ensemble_and_task")
    def load_model_ensemble_and_task(original, filenames, arg_overrides=None, *arguments, **named):
        overrides = arg_overrides and {name: value for name, value in arg_overrides.items() if name != INT8}
        loaded = original(filenames, overrides, *arguments, **named)
        asked = (arg_overrides or {}).get(INT8, False)
        if not isinstance(asked, bool):
            raise UserError(f"int8 {asked!r} does not fit; give True or False.")
        if asked:
            from fairseq_plugins.models.common.int8 import ask_for_int8  # it imports torch

            for filename, model in zip(filenames, loaded[0]):
                ask_for_int8(model, filename)
        return loaded


INT8 = "int8"


def check_options(cfg, names) -> None:
    """Raises UserError for a name of --model-overrides that is not an option in the checkpoint's configuration."""
    unknown = sorted(map(str, set(names) - options_in(cfg) - {INT8}))
    if unknown:
        raise UserError(
            f"--model-overrides: the checkpoint has no option {', '.join(unknown)}; write options as the"
            " flags of its training, without -- and with _ for -."
        )


def options_in(cfg) -> set:
    """The names of all options in a configuration and its parts."""
    if isinstance(cfg, argparse.Namespace):
        return set(vars(cfg))
    parts = (cfg[name] for name in cfg if name in cfg)  # omegaconf leaves out mandatory values that are missing
    inner = (options_in(part) for part in parts if isinstance(part, omegaconf.DictConfig | argparse.Namespace))
    return set(cfg).union(*inner)
