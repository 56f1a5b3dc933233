#!/usr/bin/env bash
# x-transformers 2.31.10: with rotary positions and learned memory keys, a text read in two parts has other predictions.
#
# Guess: a model whose Transformer-XL memory holds all of the first part predicts the second part as if it read the
# whole text, for every kind of relative position, and memory keys (attn_num_mem_kv) change nothing about that. Seen: so
# it is with ALiBi and T5's bias, and with rotary positions alone. With rotary positions and memory keys the logits
# differ: queries are turned by their place, which counts anew when a memory is given, memory keys are not turned, so
# their scores depend on the absolute place. A perplexity then depends on how a text is cut.
#
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 x-transformers==2.31.10
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PYTHON'
import sys
from importlib import metadata

import torch
from x_transformers import Decoder, TransformerWrapper

POSITIONS = {"rotary": "rotary_pos_emb", "ALiBi": "alibi_pos_bias", "T5's": "rel_pos_bias"}
PART = 8


@torch.no_grad()
def change(positions: str, memory_keys: int) -> float:
    """The largest change of the second part's logits when the text is read in two parts."""
    torch.manual_seed(1)
    sizes = dict(dim=64, depth=2, heads=2, attn_dim_head=32)
    layers = Decoder(**sizes, attn_num_mem_kv=memory_keys, **{POSITIONS[positions]: True})
    model = TransformerWrapper(num_tokens=20, max_seq_len=64, max_mem_len=64, use_abs_pos_emb=False, attn_layers=layers)
    model.double().eval()
    text = torch.randint(20, (1, 2 * PART))
    _, memory = model(text[:, :PART], return_mems=True)
    return (model(text[:, PART:], mems=memory) - model(text)[:, PART:]).abs().max().item()


found = {(name, keys): change(name, keys) for name in POSITIONS for keys in (0, 4)}
print(f"x-transformers {metadata.version('x-transformers')}, torch {torch.__version__}")
for (name, keys), difference in found.items():
    print(f"{name} positions, {keys} memory keys: logits change by {difference:.2g}")
different = {case for case, difference in found.items() if difference > 1e-9}
sys.exit(different != {("rotary", 4)})
PYTHON
