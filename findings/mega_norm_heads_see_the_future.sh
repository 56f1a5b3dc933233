#!/usr/bin/env bash
# mega-pytorch 0.1.0: with norm_mhesa_heads=True a causal language model sees the tokens that it has to predict.
#
# Guess: the option normalises each head of the moving average at each place by itself, as the paper that the code names
# does with its sub-LayerNorm. The layer is causal by default, so later tokens change no earlier logits. Seen: without the
# option they do not, and with it they do. The GroupNorm gets a tensor of (channels, places), and takes mean and variance
# over all places of the text, those to come, too. So the loss of a language model is measured with knowledge of the rest
# of the text, and the same token has other logits while a text is generated than when it is scored.
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
from mega_pytorch import Mega

SYMBOLS, LENGTH = 20, 32
torch.set_default_dtype(torch.float64)


@torch.no_grad()
def changes(option: bool) -> tuple[float, float]:
    """The largest change of a logit of the first half of a text: by another second half, and by none."""
    torch.manual_seed(1)
    sizes = {"dim": 16, "depth": 2, "ema_heads": 4, "attn_dim_qk": 8, "attn_dim_value": 16}
    model = Mega(num_tokens=SYMBOLS, norm_mhesa_heads=option, **sizes).eval()
    text = torch.randint(SYMBOLS, (1, LENGTH))
    other = torch.cat((text[:, : LENGTH // 2], torch.randint(SYMBOLS, (1, LENGTH // 2))), dim=1)
    logits = model(text)[:, : LENGTH // 2]
    ends = model(text[:, : LENGTH // 2])
    return tuple((logits - others[:, : LENGTH // 2]).abs().max().item() for others in (model(other), ends))


found = {option: changes(option) for option in (False, True)}
print(f"mega-pytorch {metadata.version('mega-pytorch')}, torch {torch.__version__}")
for option, (other, ends) in found.items():
    print(f"norm_mhesa_heads={option}: another second half changes the first by up to {other:.1g}, none by {ends:.1g}")
sys.exit(not (max(found[False]) < 1e-9 and min(found[True]) > 1e-2))
PYTHON
