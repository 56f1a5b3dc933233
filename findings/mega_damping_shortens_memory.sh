#!/usr/bin/env bash
# mega-pytorch 0.1.0: the damping of the moving average works the wrong way round: it shortens the memory.
#
# Guess: y_t = a x_t + (1 - a d) y_{t-1}, as in the paper, with a learned damping d in (0, 1): a smaller d keeps the past
# for longer, and with d near 0 nothing is forgotten. Seen: the code has (1 - a) d in the place of 1 - a d. So the past
# never has more weight than in a plain moving average, whatever d is learned, and with d near 0 only the newest token is
# left. With a = d = 0.5, about where a training starts, the weight of a token is halved every 0.5 tokens; the paper's every
# 2.4. A comparison with Mega's long memory is one with a layer that cannot have it.
#
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 einops==0.8.2 scipy==1.17.1
"$folder/venv/bin/pip" install --quiet --no-deps mega-pytorch==0.1.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys
from importlib import metadata

import torch
from mega_pytorch.mega_pytorch import MultiHeadedEMA

LENGTH = 6
torch.set_default_dtype(torch.float64)
layer = MultiHeadedEMA(dim=1, heads=1)


@torch.no_grad()
def response(damping: float) -> list[float]:
    """What is left of a single 1 after 0, 1, 2 ... tokens, with a = 0.5."""
    for weight in (layer.expansion, layer.reduction):
        weight.fill_(1)
    layer.alphas.fill_(0)
    layer.dampen_factors.fill_(torch.logit(torch.tensor(damping)).item())
    return layer(torch.eye(LENGTH)[None, :, :1])[0, :, 0].tolist()


print(f"mega-pytorch {metadata.version('mega-pytorch')}, torch {torch.__version__}; what is left of a 1, with a = 0.5:")
as_seen = True
for damping in (0.999, 0.5, 0.001):
    seen = response(damping)
    paper = [0.5 * (1 - 0.5 * damping) ** step for step in range(LENGTH)]
    code = [0.5 * (0.5 * damping) ** step for step in range(LENGTH)]
    as_seen &= all(abs(one - other) < 1e-6 for one, other in zip(seen, code))
    for name, row in (("seen", seen), ("paper", paper)):
        print(f"d = {damping}, {name}:", " ".join(f"{weight:.3f}" for weight in row))
sys.exit(not as_seen)
PYTHON
