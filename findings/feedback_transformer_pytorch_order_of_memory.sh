#!/usr/bin/env bash
# feedback-transformer-pytorch 0.0.11: with seq_len=1, as in the paper, the model does not see the order of its memory.
#
# Guess: the keys of the memory get a relative position bias by their distance to the token that reads them, so a memory
# in another order gives other predictions. Seen: with seq_len=1 they are the same to the last digits, for the memory
# reversed and for any other order. The bias counts the positions of queries from 0, and those of the memory, too, as if
# the memory began where the block does. So every memory has the distance 0, or one that lies in the future, which is the
# same to a causal bias. With seq_len=2, the default, only the oldest memory has another bias than the rest.
#
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 einops==0.8.2
"$folder/venv/bin/pip" install --quiet --no-deps feedback-transformer-pytorch==0.0.11
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys
from importlib import metadata

import torch
from feedback_transformer_pytorch import FeedbackTransformer

SYMBOLS, MEMORIES = 20, 16
torch.set_default_dtype(torch.float64)
torch.manual_seed(1)


@torch.no_grad()
def change(block: int) -> float:
    """The largest change of a logit when the memory is reversed."""
    sizes = {"dim": 16, "depth": 2, "heads": 2, "dim_head": 8, "mem_len": MEMORIES}
    model = FeedbackTransformer(num_tokens=SYMBOLS, seq_len=block, **sizes).eval()
    text, token = torch.randint(SYMBOLS, (1, MEMORIES)), torch.randint(SYMBOLS, (1, block))
    _, memory = model(text, return_memory=True)
    backwards = type(memory)(memory.keys.flip(1), memory.values.flip(1))
    return (model(token, memory=memory) - model(token, memory=backwards)).abs().max().item()


changes = {f"seq_len={block}": change(block) for block in (1, 2)}
print(f"feedback-transformer-pytorch {metadata.version('feedback-transformer-pytorch')}, torch {torch.__version__}")
print("a reversed memory changes a logit by at most", {name: f"{change:.1g}" for name, change in changes.items()})
sys.exit(not (changes["seq_len=1"] < 1e-12 and changes["seq_len=2"] > 1e-3))
PYTHON
