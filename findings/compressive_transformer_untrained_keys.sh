#!/usr/bin/env bash
# compressive-transformer-pytorch 0.4.0: keys and values stop learning at the first update in which a memory is compressed.
#
# Guess: every weight that the output depends on learns until the end of the training. Seen: in the second of six updates,
# the first that compresses a memory, the projection to keys and values of each layer loses its requires_grad, and it has
# the same weights ever after. The loss of reconstruction is meant not to train it, so the forward pass calls detach_() on
# the weight itself, which is for good. Nothing tells of it.
#
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 einops==0.8.2
"$folder/venv/bin/pip" install --quiet --no-deps compressive-transformer-pytorch==0.4.0 mogrifier==0.0.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys
from importlib import metadata

import torch
from compressive_transformer_pytorch import CompressiveTransformer

BLOCK, SYMBOLS, UPDATES = 8, 20, 6
torch.manual_seed(1)
model = CompressiveTransformer(num_tokens=SYMBOLS, dim=16, depth=2, seq_len=BLOCK, heads=2)
optimizer = torch.optim.Adam(model.parameters())
memory, moved = None, {name: [] for name, _ in model.named_parameters() if name.endswith("to_kv.weight")}
for _ in range(UPDATES):
    before = {name: model.get_parameter(name).detach().clone() for name in moved}
    text = torch.randint(SYMBOLS, (4, BLOCK + 1))
    logits, memory, reconstruction = model(text[:, :-1], memories=memory)
    loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), text[:, 1:]) + reconstruction
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for name, updates in moved.items():
        updates.append(not torch.equal(model.get_parameter(name), before[name]))
frozen = [name for name, weight in model.named_parameters() if not weight.requires_grad]
print(f"compressive-transformer-pytorch {metadata.version('compressive-transformer-pytorch')}, torch {torch.__version__}")
for name, updates in moved.items():
    print(f"{name} changed in the updates {[number for number, yes in enumerate(updates, 1) if yes]} of {UPDATES}")
print("without requires_grad now:", *frozen)
sys.exit(not (set(frozen) == set(moved) and not any(any(updates[2:]) for updates in moved.values())))
PYTHON
