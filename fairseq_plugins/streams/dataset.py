"""A split as parallel streams of tokens, cut into blocks.

N tokens of the split, S streams over all ranks, B of them on each rank (S = B * world size), M block length in tokens.
"""

import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.data import FairseqDataset, indexed_dataset


class Block(NamedTuple):
    """Where to find the tokens that a rank reads in one step. A block is described completely, so the processes that
    load data need not know the epoch."""

    number: int  # in its epoch, from 0
    start: int  # tokens of each stream before this block
    length: int  # M; fewer at the end of the streams
    first: int  # the rank's streams are first..last - 1
    last: int
    streams: int  # S
    shift: int  # the token of the split that the first stream starts with; after the last token comes token 0


class StreamDataset(FairseqDataset):
    """All tokens of a split. Each is a target exactly once, for any S, M and world size.

    The tokens are rotated by a shift and cut into S contiguous streams whose lengths differ by at most one. The input
    of a target is the token before it in the split; for the first token of the split it is ``first_input``.

    Args:
        tokens: [N], an integer array, which may be mapped from a file
        split: its name, which is put into every sample
        pad: index in the dictionary
        first_input: index of the token that the first is predicted after, such as end-of-sentence
    """

    def __init__(self, tokens: np.ndarray, split: str, pad: int, first_input: int):
        super().__init__()
        self.tokens, self.split, self.pad, self.first_input = tokens, split, pad, first_input

    def __len__(self):
        return len(self.tokens)

    @cached_property
    def checksum(self) -> int:
        return zlib.crc32(np.ascontiguousarray(self.tokens).data)

    def blocks(self, batch: int, world_size: int, cuts: list[tuple[int, int]], shift: int = 0) -> list[list[Block]]:
        """The batches of an epoch, of one block each. fairseq gives them to the ranks in turn, so the order is: block 0
        of each rank, block 1 of each rank...

        Args:
            batch: B
            cuts: (start, length) of every block
        """
        streams = batch * world_size
        firsts = range(0, streams, batch)
        return [
            [Block(number, start, length, first, first + batch, streams, shift)]
            for number, (start, length) in enumerate(cuts)
            for first in firsts
        ]

    @property
    def facts(self) -> dict[str, Any]:
        """Properties of the tokens, in words for ``check_facts``."""
        return {
            "a number of tokens (--no-end-of-line counts) of": len(self),
            "a training split whose checksum is": self.checksum,
        }

    def longest(self, streams: int) -> int:
        """Length of the longest of S streams."""
        return -(-len(self.tokens) // streams)

    def __getitem__(self, block: Block) -> dict:
        """The sample of a block: source and target [B, M], padded where a stream is a token shorter than the others."""
        positions = self.positions(block)
        shape = (len(positions), block.length)
        source, target = np.full(shape, self.pad, dtype=np.int64), np.full(shape, self.pad, dtype=np.int64)
        for row, places in enumerate(positions):
            source[row, : len(places)], target[row, : len(places)] = self.read(places)
        lengths = [len(places) for places in positions]
        return {
            "id": torch.arange(block.first, block.last),
            "net_input": {"src_tokens": torch.from_numpy(source), "src_lengths": torch.tensor(lengths)},
            "target": torch.from_numpy(target),
            "lengths": lengths,
            "ntokens": sum(lengths),
            "nsentences": shape[0],
            "split": self.split,
            "block": block.number,
            "start": block.start,
        }

    def positions(self, block: Block) -> list[np.ndarray]:
        """For each stream of a block, the positions of its tokens in the split."""
        places = []
        for stream in range(block.first, block.last):
            begin, end = self._bounds(stream, block.streams)
            start = begin + block.start
            places.append((np.arange(start, min(start + block.length, end)) + block.shift) % len(self.tokens))
        return places

    def read(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets at these positions of the split."""
        return np.where(positions == 0, self.first_input, self.tokens[positions - 1]), self.tokens[positions]

    def _bounds(self, stream: int, streams: int) -> tuple[int, int]:
        """The begin and the end of a stream in the rotated split."""
        length, longer = divmod(len(self.tokens), streams)
        begin = stream * length + min(stream, longer)
        return begin, begin + length + (stream < longer)

    def collater(self, samples: list[dict]) -> dict:
        """A batch is one block, and a block is already a whole sample."""
        (sample,) = samples
        return sample


def flat_tokens(dataset) -> np.ndarray:
    """All tokens that fairseq-preprocess wrote, end-of-line tokens included, in one array. It is mapped into memory
    where the file format allows it."""
    parts = getattr(dataset, "datasets", [dataset])
    arrays = [_flat_part(part) for part in parts]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _flat_part(part) -> np.ndarray:
    if isinstance(part, indexed_dataset.MMapIndexedDataset):  # our own mapping, as the dataset's ends with the dataset
        return np.memmap(indexed_dataset.data_file_path(part._path), dtype=part._index.dtype, mode="r")
    return np.concatenate([np.zeros(0, dtype=np.int64), *(part[line].numpy() for line in range(len(part)))])


@dataclass
class BlockSchedule:
    """The lengths of blocks: ``warm_length`` tokens in the first ``warm_updates`` updates of the training, ``length``
    tokens afterwards. The blocks of an epoch follow from its number, so a resumed training has the same blocks.

    Attributes:
        update_freq: the number of blocks in an update, for each epoch; the last number is for all later epochs too
        first_update: the number of updates before epoch 1, by a training whose epochs are not counted
    """

    length: int
    warm_length: int = 0
    warm_updates: int = 0
    update_freq: tuple[int, ...] = (1,)
    first_update: int = 0

    def cuts(self, longest: int, epoch: int) -> list[tuple[int, int]]:
        """(start, length) of every block of an epoch, for streams of at most ``longest`` tokens."""
        updates = self.warm_updates - self.first_update
        for earlier in range(1, epoch):
            if updates <= 0:
                break
            blocks = len(self._cuts(longest, updates * self._freq(earlier)))
            updates -= -(-blocks // self._freq(earlier))
        return self._cuts(longest, max(0, updates) * self._freq(epoch))

    def _freq(self, epoch: int) -> int:
        return self.update_freq[min(epoch, len(self.update_freq)) - 1]

    def _cuts(self, longest: int, warm_blocks: int) -> list[tuple[int, int]]:
        """Up to ``warm_blocks`` short blocks, then blocks of full length."""
        change = min(warm_blocks * self.warm_length, longest)
        starts = [*range(0, change, self.warm_length or 1), *range(change, longest, self.length)]
        return [(start, end - start) for start, end in zip(starts, [*starts[1:], longest])]
