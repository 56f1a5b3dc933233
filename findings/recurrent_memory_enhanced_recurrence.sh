#!/usr/bin/env bash
# recurrent-memory-transformer-pytorch 0.7.0: enhanced_xl_recurrence=True changes nothing.
#
# Guess: the option gives each layer the cached keys and values of the layer above it, as in ERNIE-Doc, so the second
# segment of a text has other predictions than without it. Seen: they are equal in every bit, with the same weights. The
# forward pass makes the iterator over the layers' caches first and shifts the list afterwards, so the layers read the
# list as it was. Who shifts the list by hand and passes it in does get other predictions. An ablation of this option
# compares a model with itself.
#
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 einops==0.8.2 packaging==26.3
"$folder/venv/bin/pip" install --quiet --no-deps recurrent-memory-transformer-pytorch==0.7.0 hyper-connections==0.4.9 \
    torch-einops-utils==0.2.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys
from importlib import metadata

import torch
from recurrent_memory_transformer_pytorch import RecurrentMemoryTransformer

SEGMENT, SYMBOLS = 8, 20
torch.set_default_dtype(torch.float64)


@torch.no_grad()
def second_segment(enhanced: bool, by_hand: bool = False) -> torch.Tensor:
    """The logits of a text's second segment."""
    torch.manual_seed(1)
    sizes = {"dim": 16, "depth": 3, "heads": 2, "dim_head": 8, "num_memory_tokens": 3, "seq_len": SEGMENT}
    model = RecurrentMemoryTransformer(num_tokens=SYMBOLS, enhanced_xl_recurrence=enhanced, **sizes).eval()
    first, second = torch.randint(SYMBOLS, (2, 1, SEGMENT))
    _, memory, caches = model(first)
    return model(second, memory, xl_memories=[*caches[1:], caches[0]] if by_hand else caches)[0]


plain = second_segment(enhanced=False)
option = (second_segment(enhanced=True) - plain).abs().max().item()
shifted = (second_segment(enhanced=False, by_hand=True) - plain).abs().max().item()
name = "recurrent-memory-transformer-pytorch"
print(f"{name} {metadata.version(name)}, torch {torch.__version__}")
print(f"largest change of a logit: by the option {option:.1g}, by a list that is shifted by hand {shifted:.1g}")
sys.exit(not (option == 0 and shifted > 1e-3))
PYTHON
