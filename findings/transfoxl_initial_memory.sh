#!/usr/bin/env bash
# transformers 4.35.2, TransfoXL: without any memory (mems=None), the first token of a text attends to `mem_len` zeros.
#
# Guess: what nothing precedes has the same prediction for every mem_len, as in the authors' PyTorch code, whose memory
# starts empty. Seen: the logits of the first token change by several units with mem_len, and mem_len 0 alone gives
# those of an empty memory. So a loss depends on mem_len from the first token on, and a text that is scored alone is
# scored as if zeros stood before it.
#
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 transformers==4.35.2
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import torch
import transformers
from transformers import TransfoXLConfig, TransfoXLLMHeadModel

torch.manual_seed(1)
sizes = dict(d_model=16, d_embed=16, n_head=2, d_head=8, d_inner=32, n_layer=2)
model = TransfoXLLMHeadModel(TransfoXLConfig(vocab_size=20, cutoffs=[8], div_val=1, **sizes)).eval()
for part in model.modules():
    if isinstance(part, torch.nn.Linear):
        torch.nn.init.normal_(part.weight, std=0.5)


def first_token(mem_len: int) -> torch.Tensor:
    """Logits after the first of three tokens, with nothing before it."""
    model.reset_memory_length(mem_len)
    with torch.no_grad():
        return model(torch.tensor([[3, 5, 7]]), mems=None).logits[0, 0]


change = {mem_len: (first_token(mem_len) - first_token(0)).abs().max().item() for mem_len in (0, 8, 32)}
print(f"transformers {transformers.__version__}, torch {torch.__version__}")
print("largest change of the first token's logits, by mem_len:", {n: round(x, 3) for n, x in change.items()})
sys.exit(not (change[0] == 0 and change[8] > 0.1 and change[32] > 0.1))
PYTHON
