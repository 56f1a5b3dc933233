"""Patches of fairseq's data: batches, binarised files, readers, and numpy 2."""

import argparse
import atexit
import contextlib
import multiprocessing
import queue
import signal
import struct
import threading
import time
import types
from functools import partial
from pathlib import Path

import fairseq.data.dictionary
import numpy as np
from fairseq import binarizer
from fairseq.data import ConcatDataset, data_utils, indexed_dataset, iterators
from fairseq.tasks import FairseqTask

from fairseq_plugins.compat.distributed import launched_processes
from fairseq_plugins.compat.patch import after_parsing, replace
from fairseq_plugins.errors import UserError
from fairseq_plugins.files import megatron
from fairseq_plugins.options import combinations


def keep_last_batch():
    """fairseq silently drops the last batch unless its size is a multiple of --required-batch-size-multiple, by default
    8: of 60 sentences it translates 56; of 5 sentences it translates none, and divides by zero. The patch keeps the
    last batch."""

    @replace(data_utils, "batch_by_size")
    def batch_by_size(original, indices, *args, fixed_shapes=None, **kwargs):
        if fixed_shapes is not None:  # for a TPU, where no batch may have another shape
            return original(indices, *args, fixed_shapes=fixed_shapes, **kwargs)
        if not isinstance(indices, np.ndarray):
            indices = np.fromiter(indices, dtype=np.int64)
        if not len(indices):
            return []
        batches = list(original(indices, *args, **kwargs))
        # Batches are consecutive pieces of the indices, so the rest is the dropped batch.
        rest = indices[sum(map(len, batches)) :]
        return [*batches, rest] if len(rest) else batches


def restore_np_compat():
    """fairseq uses ``np.compat`` (in fairseq-interactive with a language model, --sample-break-mode eos and
    --num-batch-buckets), which numpy 2 does not have. The patch defines it."""
    if not hasattr(np, "compat"):
        vars(np)["compat"] = types.SimpleNamespace(long=np.int64)


def restore_percentile():
    """fairseq's --num-batch-buckets uses the argument ``interpolation`` of ``np.percentile``, which numpy 2.4 calls
    ``method``. The patch accepts the old name."""
    try:
        np.percentile([0], 50, interpolation="lower")  # type: ignore[call-overload]
    except TypeError:

        @replace(np, "percentile")
        def percentile(original, *args, interpolation=None, **kwargs):
            return original(*args, **kwargs, **({"method": interpolation} if interpolation else {}))


def refuse_damaged_data():
    """fairseq does not check binarised files: a truncated file fails in the middle of a training, and a token outside
    the dictionary is read from beyond the embedding table. Megatron's index has the same first 17 bytes as fairseq's,
    which reads it all the same, and gives each sequence the place of another one. The patch checks the sizes, the
    pointers and the tokens of each file, and knows Megatron's."""

    @replace(indexed_dataset.MMapIndexedDataset, "_do_init")
    def map_files(original, self, path):
        data, index = files_of(path)
        if megatron.read_index(path):
            raise UserError(
                f"{index} is an index of Megatron's, which fairseq would misread: convert it to fairseq's data, as"
                ' docs/your_own_text.md shows under "Text that Megatron has binarised".'
            )
        if not data.stat().st_size and index.stat().st_size == HEADER and index.read_bytes().endswith(bytes(8)):
            raise UserError(f"{data} holds no sentence: give fairseq-preprocess a text that is not empty.")
        try:
            original(self, path)
        except (AssertionError, KeyError, struct.error, ValueError) as error:
            raise UserError(
                f"{data if not data.stat().st_size else index} is damaged or truncated; {AGAIN}."
            ) from error
        promised = megatron.end_of(self.sizes, self._index._pointers, np.dtype(self._index.dtype).itemsize)
        if promised is None or index.stat().st_size != HEADER + 12 * len(self):
            raise UserError(f"{index} is damaged or from another program; {AGAIN}.")
        if promised != data.stat().st_size:
            raise UserError(
                f"{data} has {data.stat().st_size} bytes where {index.name} says {promised}: one of them is damaged,"
                f" truncated or from another run; {AGAIN}."
            )

    @replace(data_utils, "load_indexed_dataset")
    def load_indexed_dataset(original, path, dictionary=None, *args, **kwargs):
        data, index = files_of(path)
        if data.exists() != index.exists():
            missing, other = (index, data) if data.exists() else (data, index)
            raise UserError(f"{missing} is missing beside {other.name}; {AGAIN}.")
        if index.exists() and indexed_dataset.infer_dataset_impl(path) is None:
            raise UserError(f"{index} is damaged or truncated; {AGAIN}.")
        dataset = original(path, dictionary, *args, **kwargs)
        for part in getattr(dataset, "datasets", [dataset]):
            if dictionary is not None and isinstance(part, indexed_dataset.MMapIndexedDataset) and len(part):
                largest = int(np.frombuffer(part._bin_buffer, dtype=part._index.dtype).max())
                if largest >= len(dictionary):
                    raise UserError(
                        f"{part._path}.bin holds token {largest} but the dictionary has {len(dictionary)} entries:"
                        f" it was binarised with another dictionary; {AGAIN} and this dictionary (--srcdict,"
                        " --tgtdict)."
                    )
        return dataset

    for half_open in (indexed_dataset.MMapIndexedDataset, indexed_dataset.MMapIndexedDataset.Index):

        @replace(half_open, "__del__")
        def close(original, self):
            with contextlib.suppress(AttributeError):  # if it was never opened; Python would print a traceback
                original(self)


HEADER = 26  # bytes of an index before the sizes; the last 8 are their number
AGAIN = "make both of its files again with fairseq-preprocess"


def files_of(path) -> tuple[Path, Path]:
    return Path(indexed_dataset.data_file_path(str(path))), Path(indexed_dataset.index_file_path(str(path)))


def combined_sets_are_read_once():
    """fairseq takes its default of --upsample-primary, -1, for a number of copies: a training on a folder with
    ``train`` and ``train1``, or with --combine-val, ends in "negative dimensions are not allowed". The patch reads each
    set once then."""

    @replace(ConcatDataset, "__init__")
    def init(original, self, datasets, sample_ratios=1):
        if not isinstance(sample_ratios, int):
            sample_ratios = [1 if ratio < 0 else ratio for ratio in sample_ratios]
        original(self, datasets, sample_ratios)


def pointers_do_not_overflow():
    """Where fairseq-preprocess --workers joins parts of more than 2 GB, it counts bytes in 32 bits with numpy 2: the
    index points to wrong places, or an OverflowError ends it. The patch makes the sizes numbers of Python's, which have
    no limit."""

    @replace(indexed_dataset.MMapIndexedDatasetBuilder, "merge_file_")
    def merge_file(original, self, another_file):
        original(self, another_file)
        self._sizes = [int(size) for size in self._sizes]


def shards_share_the_work():
    """fairseq-generate ignores --num-shards and --shard-id, and takes the number of its processes, one, instead: every
    shard translates everything, and so does every process under torchrun. The patch uses the flags, and refuses several
    processes without them. It also makes batches smaller where there would be fewer batches than shards."""

    asked = argparse.Namespace(shards=1)

    @after_parsing
    def take(settings):
        if combinations.command_of(settings) == "generate":
            asked.shards, processes = settings.num_shards, launched_processes()
            if processes > 1 and asked.shards == 1:
                raise UserError(
                    f"each of {processes} processes would translate everything: start fairseq-generate without"
                    " torchrun, or several times with --num-shards and --shard-id."
                )
            if asked.shards > 1:
                settings.distributed_world_size, settings.distributed_rank = settings.num_shards, settings.shard_id

    @replace(FairseqTask, "get_batch_iterator")
    def get_batch_iterator(original, self, dataset, max_tokens=None, max_sentences=None, **kwargs):
        if asked.shards > 1:
            if len(dataset) < asked.shards:
                raise UserError(
                    f"--num-shards {asked.shards} is more than there are sentences ({len(dataset)}); lower it."
                )
            largest = len(dataset) // asked.shards
            max_sentences = min(max_sentences or largest, largest)
        return original(self, dataset, max_tokens, max_sentences, **kwargs)


def look_for_splits_in_folders():
    """Before a training, fairseq looks in the data folder for validation sets that would be ignored. It fails for a
    task that draws its data and has no such folder. The patch skips the search then."""

    @replace(data_utils, "raise_if_valid_subsets_unintentionally_ignored")
    def raise_if_ignored(original, cfg):
        if getattr(cfg.task, "data", None):
            original(cfg)


def workers_leave_interrupts_alone():
    """When the user interrupts fairseq-preprocess --workers, each of its processes prints a traceback. The patch leaves
    interrupts to the first process, which ends the others."""
    for module in (binarizer, fairseq.data.dictionary):
        module.Pool = partial(multiprocessing.Pool, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN))


def stop_reading_at_exit():
    """fairseq never stops the thread that prepares batches. If Python shuts down while the thread is inside torch, at
    the end of a training within an epoch or after an error, the process dies of SIGABRT. The patch stops the thread
    first."""

    atexit.register(stop_readers)


def stop_readers() -> None:
    readers = [thread for thread in threading.enumerate() if isinstance(thread, iterators.BackgroundConsumer)]
    deadline = time.monotonic() + 10  # do not wait for ever if its source hangs
    for reader in readers:
        reader._max_len = 0  # the thread ends after its current batch
        while reader.is_alive() and time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                while True:  # make room for that batch
                    reader._queue.get_nowait()
            reader.join(0.05)
