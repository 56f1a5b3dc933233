#!/usr/bin/env bash
# memorizing-transformers-pytorch 0.4.1, KNNMemory: once it has been full, it returns other memories than those it finds.
#
# Guess: the README says that a memory that overfills throws out its oldest entries, or all for now; either way a key that
# was just added finds itself, with its value. Seen: so it is until the memory is full. Then it forgets all, also what was
# just added, and from the next segment on a key gives the key and the value of another place, often of a segment that was
# thrown out. faiss numbers its keys from 0 again, while the table of keys and values goes on where it was. Both are in step
# again only if the segments fill the table exactly. With the README's 64,000 memories and segments of 1,024 tokens, it goes
# wrong with the 63rd segment. Attention then reads memories that it did not look up, and nothing tells of it.
#
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6 einops==0.8.2 einops-exts==0.0.4 faiss-cpu==1.15.1 joblib==1.6.0 \
    filelock==4.3.1
venv/bin/pip install --quiet --no-deps memorizing-transformers-pytorch==0.4.1
OMP_NUM_THREADS=1 venv/bin/python -W ignore - <<'PYTHON'
import sys
from importlib import metadata

import torch
from memorizing_transformers_pytorch import KNNMemory

SEGMENT, SEGMENTS, SIZE = 8, 8, 16


def kept(memories: int) -> list[str]:
    """For each segment that is added, how many of its keys find something/themselves and their value."""
    torch.manual_seed(1)
    memory, counts = KNNMemory(dim=SIZE, max_memories=memories, num_indices=1, multiprocessing=False), []
    for _ in range(SEGMENTS):
        segment = torch.nn.functional.normalize(torch.randn(1, SEGMENT, 2, SIZE), dim=-1)
        memory.add(segment)
        found, mask = memory.search(segment[:, :, 0].contiguous(), topk=1)
        right = (found[:, :, 0] - segment).abs().amax((-1, -2)) < 1e-6
        counts.append(f"{mask.sum().item()}/{(right & mask[..., 0]).sum().item()}")
    return counts


found = {memories: kept(memories) for memories in (1000, 24, 20)}
packages = ("memorizing-transformers-pytorch", "faiss-cpu", "torch")
print(", ".join(f"{name} {metadata.version(name)}" for name in packages))
print(f"of the {SEGMENT} keys of the segment that was just added, this many find something/themselves:")
print(*(f"max_memories={memories}: {' '.join(counts)}" for memories, counts in found.items()), sep="\n")
as_guessed = all(count in ("8/8", "0/0") for memories in (1000, 24) for count in found[memories])
sys.exit(not (as_guessed and found[20][:4] == ["8/8", "8/8", "0/0", "8/0"]))
PYTHON
