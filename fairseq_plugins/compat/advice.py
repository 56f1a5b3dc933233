"""Patches of advice of fairseq's that changes nothing."""

import argparse

import numpy as np
from fairseq.data import data_utils, indexed_dataset
from fairseq.tasks import FairseqTask

from fairseq_plugins.compat.patch import after_parsing, replace
from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.options import combinations

ASKED = argparse.Namespace(command=None)  # the command; None from Python


def too_long_says_what_to_raise():
    """Of a sentence that is too long, fairseq says the limit, and only how to leave it out. The limit is that of the
    task and of the model: with a trained model --max-source-positions changes the task's alone. The patch says the
    flags and the numbers that make it pass, in a training and with a checkpoint."""

    @after_parsing
    def remember(settings):
        ASKED.command = combinations.command_of(settings)

    @replace(FairseqTask, "filter_indices_by_size")
    def filter_indices_by_size(original, self, indices, dataset, max_positions=None, ignore_invalid_inputs=False):
        try:
            return original(self, indices, dataset, max_positions, ignore_invalid_inputs)
        except Exception as error:
            if not str(error).startswith("Size of sample"):
                raise
            _, ignored = dataset.filter_indices_by_size(indices, max_positions)
            if isinstance(max_positions, dict) or not ignored:  # several languages, each with its limits
                raise UserError(
                    f"{error}; a sentence is longer than the model takes: shorten it, or leave such sentences out with"
                    " --skip-invalid-size-inputs-valid-test."
                ) from error
            longest = np.max([dataset.size(number) for number in ignored], axis=0).reshape(-1).tolist()
            names = position_options(self.cfg, len(longest))
            limits = max_positions if isinstance(max_positions, tuple | list) else [max_positions]
            needed = {name: max(size, limit) for name, size, limit in zip(names, longest, limits, strict=True)}
            raise UserError(
                f"sentence {min(ignored)} (counted from 0) is longer than the {max_positions} tokens that the model"
                f" takes; {how_to_raise(ASKED.command, needed)}, or leave such sentences out with"
                " --skip-invalid-size-inputs-valid-test."
            ) from None


def position_options(cfg, sides: int) -> list[str]:
    """The options for the longest sentence: of source and target, or of a task with one text."""
    if sides == 2:
        return ["max_source_positions", "max_target_positions"]
    known = ["max_positions", "max_target_positions", "tokens_per_sample"]
    return [next((name for name in known if hasattr(cfg, name)), known[1])]


def how_to_raise(command: str | None, needed: dict[str, int]) -> str:
    flags = " ".join(f"{flag(name)} {size}" for name, size in needed.items())
    if command == "train":
        return f"give {flags}"
    if command is None:
        return f"load the model with {', '.join(f'{name}={size}' for name, size in needed.items())}"
    return f'give {flags} --model-overrides "{needed}"'


def data_are_of_the_form_asked():
    """With another --dataset-impl than the data have, fairseq says that the split is missing, or fails in a traceback.
    The patch names the flag."""

    @replace(indexed_dataset, "dataset_exists")
    def dataset_exists(original, path, impl):
        check_form(path, impl)
        return original(path, impl)

    @replace(data_utils, "load_indexed_dataset")
    def load_indexed_dataset(original, path, dictionary=None, dataset_impl=None, *args, **kwargs):
        if dataset_impl is not None:
            check_form(path, dataset_impl)
        return original(path, dictionary, dataset_impl, *args, **kwargs)


def check_form(path: str, asked: str | None) -> None:
    """Raises UserError if there are data in ``path``, but not of the form that --dataset-impl asks for."""
    found, asked = indexed_dataset.infer_dataset_impl(path), asked and str(asked)
    if found == "raw" and asked != "raw" and not indexed_dataset.IndexedDataset.exists(path):
        raise UserError(f"{path} is text that was not binarised: give --dataset-impl raw.")
    if found not in (None, "raw", asked) and asked and {found, asked} != {"cached", "lazy"}:
        raise UserError(f"{path} holds data of the form {found}, not {asked}: leave --dataset-impl out.")


def raw_text_is_found():
    """With --only-source, fairseq-preprocess --dataset-impl raw names files such as train.None-None, which no command
    finds. The patch takes them where train is missing."""
    raw = indexed_dataset.IndexedRawTextDataset

    @replace(raw, "exists")
    def exists(original, path):
        return original(raw_text(original, path))

    @replace(raw, "read_data")
    def read_data(original, self, path, dictionary):
        return original(self, raw_text(exists_in_fairseq, path), dictionary)

    exists_in_fairseq = raw.exists.__wrapped__


def raw_text(exists, path: str) -> str:
    return f"{path}.None-None" if not exists(path) and exists(f"{path}.None-None") else path
