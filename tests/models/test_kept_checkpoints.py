"""Checkpoints of earlier versions load, and predict the same as then. checkpoints/make.py wrote both."""

import json
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_plugins.models import (  # noqa: F401  (registered)
    active_memory_lm,
    all_attention_lm,
    feedback_lm,
    span_transformer_lm,
    transformer_xl_lm,
)
from fairseq_plugins.tasks import streaming_language_modeling  # noqa: F401

FOLDER = Path(__file__).parent / "checkpoints"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.pt")))
@torch.no_grad()
def test_a_kept_checkpoint_says_what_it_said(name):
    expected = json.loads((FOLDER / f"{name}.json").read_text())
    models, *_ = checkpoint_utils.load_model_ensemble_and_task(
        [str(FOLDER / f"{name}.pt")], arg_overrides={"data": str(FOLDER)}
    )
    model = models[0].eval()
    said = model.get_normalized_probs(model(torch.tensor(expected["tokens"])), log_probs=True)
    assert torch.allclose(said, torch.tensor(expected["log_probs"]), atol=1e-5)
