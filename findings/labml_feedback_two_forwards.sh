#!/usr/bin/env bash
# labml-nn 0.5.1, FeedbackTransformerKV: two forward passes before one backward pass give other gradients, and no error.
#
# Guess: the gradient of the sum of two losses is the sum of their gradients, as with every module of torch, whether the
# two texts pass before one backward pass or each has a backward pass of its own. Seen: the gradients differ in nearly
# all parameters, in some by as much as their size, since both passes use one buffer of keys, values and gradients. So
# training breaks silently where two losses of the model are added: contrastive losses, gradient checks of two texts, or
# accumulation that adds losses first. FeedbackTransformer, the slow version, has the sum.
#
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 pyyaml==6.0.3
"$folder/venv/bin/pip" install --quiet --no-deps labml-nn==0.5.1 labml==0.5.3
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys
from importlib import metadata

import torch
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackTransformer,
    FeedbackTransformerKV,
    FeedbackTransformerLayer,
)

WIDTH, HEADS, LAYERS = 16, 2, 2
torch.set_default_dtype(torch.float64)


def build(fast: bool) -> torch.nn.Module:
    torch.manual_seed(1)
    attention = FeedbackAttention(HEADS, WIDTH, 0.0, is_kv_precomputed=fast)
    feed_forward = FeedForward(WIDTH, 2 * WIDTH, 0.0)
    layer = FeedbackTransformerLayer(d_model=WIDTH, attn=attention, feed_forward=feed_forward, dropout_prob=0.0)
    return FeedbackTransformerKV(layer, LAYERS, WIDTH, HEADS) if fast else FeedbackTransformer(layer, LAYERS)


def gradient(model: torch.nn.Module, *texts: torch.Tensor) -> torch.Tensor:
    """Of the summed losses of texts, each an array of tokens x streams x width."""
    model.zero_grad()
    sum((model(text) @ readout).tanh().sum() for text in texts).backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])


difference = {}
for name, fast in {"FeedbackTransformer": False, "FeedbackTransformerKV": True}.items():
    model = build(fast)
    readout, *texts = torch.randn(WIDTH), torch.randn(6, 3, WIDTH), torch.randn(6, 3, WIDTH)
    apart = sum(gradient(model, text) for text in texts)
    difference[name] = ((gradient(model, *texts) - apart).norm() / apart.norm()).item()
print(f"labml-nn {metadata.version('labml-nn')}, torch {torch.__version__}")
print("the two gradients differ by, as a share of their norm:", {name: f"{d:.1g}" for name, d in difference.items()})
sys.exit(not (difference["FeedbackTransformer"] < 1e-9 and difference["FeedbackTransformerKV"] > 0.01))
PYTHON
