"""Patches of the messages of fairseq and the libraries below it: only those that a user can act on, and each once."""

import argparse
import itertools
import logging
import os
import shlex
import sys
import warnings
from pathlib import Path

from fairseq import scoring, trainer
from fairseq.scoring import bleu
from omegaconf import DictConfig

from fairseq_plugins.compat.patch import replace

# The beginnings of warnings that are about fairseq's own calls
CANNOT_BE_CHANGED = (
    # fairseq uses hydra as it was at version 1.0
    r"hydra\.experimental\.\w+\(\) is no longer experimental",
    r"\s*The version_base parameter is not specified",
    r"In '[^']*': Usage of deprecated keyword in package header",
    r"\s*'[^']*' is validated against ConfigStore schema",
    r"\s*The strict flag in the compose API is deprecated",
    # and torch as it was at version 1.10
    r"`torch\.cuda\.amp\.\w+\(args\.\.\.\)` is deprecated",
    r"`torch\.nn\.utils\.weight_norm` is deprecated",
    r"`broadcast_buffers` is deprecated",
    r"`torch\.jit\.script` is deprecated",
    # fairseq always asks for it; on a CPU it means nothing
    r"'pin_memory' argument is set as true but no accelerator is found",
)


def old_calls_are_silent():
    """fairseq uses hydra and torch as they were in 2021, so every command begins with some twenty lines of warnings
    that no user can act on. The patch silences these warnings, and the debug messages of hydra's that fairseq-generate
    shows. Python's -W and PYTHONWARNINGS show the warnings again."""
    if not sys.warnoptions:
        for message in CANNOT_BE_CHANGED:
            warnings.filterwarnings("ignore", message)
    logging.getLogger("hydra").setLevel(logging.INFO)


FORMAT = "%(asctime)s | %(levelname)s | %(name)s | %(message)s"  # of all of fairseq's commands
# Commands that set up their log after they have imported fairseq
LATE = {f"fairseq_cli.{name}" for name in ("eval_lm", "generate", "interactive", "preprocess")}


def commands_log_the_time():
    """One of fairseq's models sets up the log when it is imported, for debugging. So fairseq-eval-lm, fairseq-generate
    and fairseq-interactive come too late with theirs, and print "INFO:fairseq_cli.eval_lm:" without the time. The patch
    gives them fairseq's format and $LOGLEVEL. Their log stays on standard error, apart from their results. (In a
    program of one's own ``startup/activation.py`` keeps the log as it was.)"""
    root, program = logging.root, getattr(sys.modules["__main__"].__spec__, "name", None)
    debugging = [handler for handler in root.handlers if getattr(handler.formatter, "_fmt", 0) == logging.BASIC_FORMAT]
    if root.level == logging.DEBUG and debugging and LATE & {*sys.modules, program}:
        for handler in debugging:
            handler.setFormatter(logging.Formatter(FORMAT, "%Y-%m-%d %H:%M:%S"))
        root.setLevel(os.environ.get("LOGLEVEL", "INFO").upper())


COMMANDS = ("eval_lm", "generate", "interactive", "preprocess", "train", "validate")


def configurations_are_one_line():
    """fairseq's commands begin with their whole configuration, some 8,000 characters on a line. The patch logs the
    command in its place. $LOGLEVEL=debug prints the configuration, and --log-file keeps it."""
    for command in COMMANDS:
        logging.getLogger(f"fairseq_cli.{command}").addFilter(command_for_configuration)


def command_for_configuration(record: logging.LogRecord) -> bool:
    if isinstance(record.msg, DictConfig | argparse.Namespace) and logging.root.level > logging.DEBUG:
        for handler in logging.getLogger(record.name).handlers:
            if isinstance(handler, logging.FileHandler):
                handler.handle(record)
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        record.msg, record.args = f"{command} (LOGLEVEL=debug in front of it prints the whole configuration)", ()
    return True


def only_bleu_is_of_symbols():
    """With --bpe, fairseq-generate warns that "the BLEU score is computed on BPE tokens", also with another --scoring
    than bleu, such as chrf, which gets raw text. The patch silences the warning then."""

    @replace(scoring, "build_scorer")
    def build_scorer(original, choice, tgt_dict):
        scorer = original(choice, tgt_dict)
        if not isinstance(scorer, bleu.Scorer):
            logging.getLogger("fairseq_cli.generate").addFilter(is_not_about_bleu)
        return scorer


def is_not_about_bleu(record: logging.LogRecord) -> bool:
    return "BLEU score is" not in str(record.msg)


def missing_biases_are_not_shared():
    """fairseq-train lists parameters that two modules share. It takes all that are missing, as the bias of a linear
    layer without one, for the same parameter: "detected shared parameter: k_proj.bias <- v_proj.bias". The patch leaves
    them out of the list."""

    @replace(trainer, "_catalog_shared_params")
    def catalog_shared_params(original, module, memo=None, prefix=""):
        shared = original(module, memo, prefix)
        if memo is not None:  # this is a part of the model; fairseq calls the function for each
            memo.pop(None, None)
        return shared


TOKENISED = (  # the three lines of sacreBLEU's
    "That's 100 lines that end in", "It looks like you forgot to detokenize", "If you insist your data is",
)  # fmt: skip
TOLD = (
    "the text that sacreBLEU scores looks tokenised, so the score is not comparable with others; with --eval-bleu, add"
    " --eval-bleu-detok moses, or --eval-tokenized-bleu if tokenised BLEU is meant"
)


def tokenised_bleu_is_told_once():
    """With --eval-bleu, sacreBLEU warns in three lines for each batch that the text looks tokenised, and names a
    parameter that no flag of fairseq-train sets. The patch says it once, with the flags that there are."""
    times = itertools.count()

    def is_new(record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith(TOKENISED):
            return True
        record.msg, record.args = TOLD, ()
        return next(times) == 0

    logging.getLogger("sacrebleu").addFilter(is_new)
