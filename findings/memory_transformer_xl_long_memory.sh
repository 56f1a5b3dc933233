#!/usr/bin/env bash
# memory-transformer-xl 0.1.0: a memory that is longer than a block (mem_len > seq_len) stays empty.
#
# Guess: with mem_len=16 and blocks of 8 tokens the short memory holds 8 tokens after the first block and 16 after the
# second, and the long memory is written from the first block on. Seen: both have length 0 after any number of full
# blocks, and the predictions of a block do not depend on the blocks before it. A comment in the code says that memory is
# written if the block has its full length, and the code asks whether it is as long as the memory. With mem_len=8, the
# default here, both memories are written.
#
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 einops==0.8.2
"$folder/venv/bin/pip" install --quiet --no-deps memory-transformer-xl==0.1.0 mogrifier==0.0.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys
from importlib import metadata

import torch
from memory_transformer_xl import MemoryTransformerXL

BLOCK, SYMBOLS = 8, 20
torch.manual_seed(1)


@torch.no_grad()
def after_three_blocks(mem_len: int) -> tuple[list[int], bool]:
    """The lengths of both memories, and whether a fourth block has other logits with them than without."""
    model = MemoryTransformerXL(num_tokens=SYMBOLS, dim=16, depth=2, seq_len=BLOCK, mem_len=mem_len, heads=2).eval()
    memory = None
    for _ in range(3):
        _, memory = model(torch.randint(SYMBOLS, (1, BLOCK)), memories=memory)
    text = torch.randint(SYMBOLS, (1, BLOCK))
    lengths = [memory.short.shape[2], memory.long.shape[1]]
    return lengths, not torch.equal(model(text, memories=memory)[0], model(text)[0])


found = {mem_len: after_three_blocks(mem_len) for mem_len in (BLOCK, 2 * BLOCK)}
print(f"memory-transformer-xl {metadata.version('memory-transformer-xl')}, torch {torch.__version__}")
for mem_len, (lengths, read) in found.items():
    print(f"mem_len={mem_len}: lengths of the memories {lengths}, a block depends on those before it: {read}")
sys.exit(found != {BLOCK: ([8, 8], True), 2 * BLOCK: ([0, 0], False)})
PYTHON
