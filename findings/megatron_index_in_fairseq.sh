#!/usr/bin/env bash
# fairseq-fixed 0.12.3.1 opens the .idx file that megatron-core 0.16.1 writes, and gives words of other sequences.
#
# Guess: the two formats have the same suffix by chance, and fairseq refuses a file of Megatron's. Seen: both begin with
# the magic "MMIDIDX\0\0" and version 1, with the same codes for integers. Megatron's has eight bytes more, a count of
# documents after the count of sequences, which fairseq takes for the first two lengths. So fairseq calls the file
# "mmap" and has the right number of sequences; reading number 0 is an error, number 1 is empty, and number n has the
# first words of Megatron's n - 1, as many as Megatron's n - 2 has.
#
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
export PATH=$folder/venv/bin:$PATH
pip install --quiet torch==2.13.0 numpy==2.4.6 antlr4-python3-runtime==4.9.3 bitarray==3.12.3 cffi==2.1.1 cython==3.3.1 \
    hydra-core==1.3.2 omegaconf==2.3.0 packaging==26.3 regex==2026.11.15 sacrebleu==2.6.0 scikit-learn==1.9.1 tqdm==4.70.1 \
    "setuptools<81" wheel
pip install --quiet --no-deps --no-build-isolation fairseq-fixed==0.12.3.1
pip install --quiet --no-deps megatron-core==0.16.1
python -W ignore - <<'PYTHON' 2>log || { cat log; exit 1; }
import sys
from importlib.metadata import version

import numpy
import torch
from fairseq.data.indexed_dataset import MMapIndexedDataset, infer_dataset_impl
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

written = [torch.arange(100 * number + 10, 100 * number + 15 + number) for number in range(6)]
builder = IndexedDatasetBuilder("data.bin", dtype=numpy.uint16)
for sequence in written:
    builder.add_document(sequence, [len(sequence)])
builder.finalize("data.idx")


def read(dataset, number: int):
    try:
        return list(map(int, dataset[number]))
    except ValueError as error:
        return f"ValueError: {error}"


print(", ".join(f"{name} {version(name)}" for name in ("fairseq-fixed", "megatron-core", "torch")))
print("fairseq takes the file for:", infer_dataset_impl("data"))
megatron, fairseq = IndexedDataset("data"), MMapIndexedDataset("data")
for number in range(6):
    print(number, "megatron", read(megatron, number), "fairseq", read(fairseq, number))
shifted = [read(fairseq, number) == written[number - 1][: 3 + number].tolist() for number in range(2, 6)]
right = [read(megatron, number) == written[number].tolist() for number in range(6)]
sys.exit(not (len(fairseq) == 6 and all(right) and all(shifted) and isinstance(read(fairseq, 0), str)))
PYTHON
