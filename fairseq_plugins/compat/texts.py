"""Patches around the dictionaries and codes that belong to data and to checkpoints."""

import argparse
import contextlib
import io
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils, tasks, utils
from fairseq.data import Dictionary, data_utils
from fairseq.data.encoders import subword_nmt_bpe
from fairseq.trainer import Trainer

from fairseq_plugins.compat.checkpoints import is_remote
from fairseq_plugins.compat.patch import replace, temporarily
from fairseq_plugins.errors import UserError
from fairseq_plugins.text.keeping import (
    Record,
    keep_with_checkpoints,
    refuse_other_shards,
    refuse_other_symbols,
    refuse_other_text,
    refuse_other_than,
)

logger = logging.getLogger(__name__)


def checkpoints_keep_their_text():
    """A checkpoint of fairseq cannot be used without the dictionaries and codes of its data folder, and fairseq does
    not notice if it gets others of the same size: it translates by wrong words, and goes on with a training of others.
    The patch copies these files into the folder of the checkpoints, and each checkpoint holds checksums of the
    symbols. A training does not begin in a folder that holds checkpoints of another text, and no checkpoint is loaded
    for data with other symbols than those that it was trained with. If a checkpoint of an earlier version holds no
    checksums, the dictionaries beside it count."""

    # which checkpoints are being read, or None for all; the options of the task; the training's options, if any
    use = argparse.Namespace(paths=set(), options=None, training=None)

    def check(path, state: Mapping[str, Any]) -> None:
        options = use.options if use.options is not None else getattr(state.get("cfg"), "task", None)
        if not (data := first_data_folder(options)):
            return
        tell_of_ends_of_lines(path, state, options)
        if (record := Record.of_checkpoint(path, state)) is None:
            if Path(path).is_file():
                refuse_other_symbols(data, Path(path))
            return
        training = use.training
        labels = not training or not (training.reset_optimizer or str(path) == training.finetune_from_model)
        refuse_other_than(record, Path(path), data, languages_of(options, data), labels)

    @replace(checkpoint_utils, "load_checkpoint_to_cpu")
    def load_checkpoint_to_cpu(original, path, *args, **kwargs):
        state = original(path, *args, **kwargs)
        if use.paths is None or str(path) in use.paths:
            check(path, state)
        return state

    @replace(checkpoint_utils, "load_model_ensemble_and_task")
    def load_model_ensemble_and_task(
        original, filenames, arg_overrides=None, task=None, strict=True, suffix="", num_shards=1, state=None
    ):  # fmt: skip
        # A model may load other checkpoints as parts of itself while it is built: these have texts of their own.
        with temporarily(use, paths=set(map(str, filenames)), options=options_of(task), training=None):
            if state is not None:
                check(filenames[0], state)
            return original(filenames, arg_overrides, task, strict, suffix, num_shards, state)

    @replace(checkpoint_utils, "load_checkpoint")
    def load_checkpoint(original, cfg, trainer, **kwargs):
        if data := data_folder(cfg, trainer):
            refuse_other_text(data, Path(cfg.save_dir))
        trainer.text = record_of_data(trainer)
        with temporarily(use, paths=None, options=options_of(trainer.task, trainer.cfg.task), training=cfg):
            return original(cfg, trainer, **kwargs)

    @replace(checkpoint_utils, "save_checkpoint")
    def save_checkpoint(original, cfg, trainer, epoch_itr, val_loss):
        if (data := data_folder(cfg, trainer)) and trainer.is_data_parallel_master:
            keep_with_checkpoints(
                data, Path(cfg.save_dir), languages_of(options_of(trainer.task, trainer.cfg.task), data)
            )
        return original(cfg, trainer, epoch_itr, val_loss)

    @replace(Trainer, "save_checkpoint")
    def trainer_save_checkpoint(original, self, filename, extra_state):
        record = getattr(self, "text", None) or record_of_data(self)
        return original(self, filename, {**extra_state, "text": record.as_state()} if record else extra_state)


def tell_of_ends_of_lines(path, state: Mapping[str, Any], options) -> None:
    """Whether they are tokens belongs to a model as its symbols do, but only flags tell."""
    known, now = (getattr(each, "no_end_of_line", None) for each in (getattr(state.get("cfg"), "task", None), options))
    if known and now is False:
        logger.warning(f"{path} has never seen an end of line: give --no-end-of-line, as its training had it")
    elif now and known is False:
        logger.warning(f"{path} knows ends of lines: leave out --no-end-of-line, as its training did")


def options_of(task, otherwise=None):
    """The options of a task, which knows more of them than its command line."""
    return getattr(task, "cfg", None) or getattr(task, "args", None) or otherwise


def first_data_folder(options) -> Path | None:
    data = utils.split_paths(str(getattr(options, "data", None) or ""))[0]
    return Path(data) if data else None


def data_folder(cfg, trainer) -> Path | None:
    """The first data folder, if this training saves checkpoints in a folder on this machine."""
    return None if cfg.no_save or is_remote(cfg.save_dir) else first_data_folder(trainer.cfg.task)


def languages_of(options, data: Path) -> tuple[str, str] | None:
    """Of a translation. Where they are not given, fairseq takes those of the files in the data folder."""
    if not hasattr(options, "source_lang") or not hasattr(options, "target_lang"):
        return None
    found = options.source_lang, options.target_lang
    if not all(found) and data.is_dir():
        inferred = data_utils.infer_language_pair(str(data))
        found = tuple(given or other for given, other in zip(found, inferred))
    return found if all(isinstance(each, str) and each for each in found) else None


def record_of_data(trainer) -> Record | None:
    """The record of a training's text that its checkpoints hold."""
    options = options_of(trainer.task, trainer.cfg.task)
    data = first_data_folder(options)
    if not data or not data.is_dir():
        return None
    record = Record.of_data(data, languages_of(options, data))
    return record if record.symbols else None


def shards_share_their_dictionaries():
    """fairseq reads the dictionaries of the first data folder only: with data/a:data/b whose dictionaries differ, it
    trains on wrong words. The patch compares those of all folders, and how their text was prepared."""

    @replace(tasks, "setup_task")
    def setup_task(original, cfg, **kwargs):
        folders = utils.split_paths(str(getattr(cfg, "data", None) or ""))
        if len(folders) > 1:
            refuse_other_shards(list(map(Path, folders)))
        return original(cfg, **kwargs)


def damaged_dictionaries_are_named():
    """fairseq's error for a damaged dictionary does not name the file. The patch names it in a sentence."""

    @replace(Dictionary, "add_from_file")
    def add_from_file(original, self, f):
        try:
            return original(self, f)
        except OSError:
            raise
        except Exception as error:  # fairseq raises a plain Exception where the file is not UTF-8
            if not isinstance(f, str):
                raise
            raise UserError(f"{wrong(f, error)}; copy it again from the original data folder.") from error


def wrong(dictionary: str, error: Exception) -> str:
    """The fault of a dictionary, by fairseq's error."""
    if isinstance(error.__context__, UnicodeError):
        return f"{dictionary} is not UTF-8"
    if line := re.match(r"Incorrect dictionary format, expected '(.*?)': \"(.*?)\"?$", str(error), re.DOTALL):
        return f"the dictionary {dictionary} has the line {line[2].rstrip()!r} instead of {line[1]}"
    if word := re.match(r"Duplicate word found when loading Dictionary: ('.*?')\.", str(error)):
        return f"the dictionary {dictionary} has {word[1]} twice"
    return f"the dictionary {dictionary} is damaged ({str(error).partition(chr(10))[0]})"


def damaged_codes_do_not_exit():
    """With damaged codes, fairseq's --bpe subword_nmt ends the process, also a program that calls from_pretrained,
    since subword-nmt (0.3.8) calls sys.exit. The patch raises an error that names the file."""

    @replace(subword_nmt_bpe.SubwordNMTBPE, "__init__")
    def init(original, self, cfg):
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                return original(self, cfg)
        except (SystemExit, UnicodeError, ValueError, IndexError) as error:
            if not cfg.bpe_codes or not os.path.isfile(cfg.bpe_codes):
                raise
            reason = said.getvalue().strip().partition("\n")[0].removeprefix("Error: ") or error
            raise UserError(f"--bpe-codes {cfg.bpe_codes} is damaged ({reason}); copy it again.") from error
