"""Every published architecture begins as the code of its paper does, or as recipes/PAPER/paper.json declares: first
weights and first loss.

Sizes are small; ties, clusters of words and norms are those of the architecture, which recipes do not change.
"""

import json
from fnmatch import fnmatchcase
from pathlib import Path

import architectures
import pytest
import torch
from architectures import LAYERS, PUBLISHED, form, published, small
from first_update import nll
from initial_weights import FIRST_LOSS, RULES, misfits

from fairseq_plugins.models.all_attention_lm import INTEGRATIONS
from fairseq_plugins.modules.active_memory.mixers import MIXERS
from fairseq_plugins.modules.feedback.stack import KEYS_AND_VALUES

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
DECLARED = [
    (code, source, pattern)
    for file in sorted(RECIPES.glob("*/paper.json"))
    for code, sources in json.loads(file.read_text(encoding="utf-8"))["initial weights"].items()
    for source, patterns in sources.items()
    for pattern in patterns
]
WORDS = 204


def build(arch, seed, **others):
    """An architecture in small."""
    return architectures.build(arch, WORDS, seed, **{**small(arch), **others}).eval()


def codes(arch):
    """The codes that are declared for an architecture; one, if all is well."""
    return [code for code, _, pattern in DECLARED if fnmatchcase(arch, pattern)]


def test_each_declared_code_has_rules_and_each_pattern_an_architecture():
    for code, _, pattern in DECLARED:
        assert code in RULES
        assert any(fnmatchcase(arch, pattern) for arch in PUBLISHED), pattern
    assert {code for code, _, _ in DECLARED} == {*RULES}


PRE_NORM = {"decoder_normalize_before": True}
VARIANTS = [(arch, {}) for arch in PUBLISHED] + [
    *((arch, {"mixer": mixer}) for arch in ("active_memory_lm", "active_memory_algorithmic") for mixer in MIXERS),
    *(("all_attention_lm_text8_large", {"persistent_integration": name}) for name in INTEGRATIONS),
    *(("feedback_lm_char_ptb", {"feedback_memory": name}) for name in ("top", "recurrent", "layer-1")),
    *((arch, {"feedback_kv": kv}) for arch in ("feedback_lm_enwik8", "feedback_agent_maze") for kv in KEYS_AND_VALUES),
    *((arch, PRE_NORM) for arch in ("feedback_lm", "span_transformer_lm")),
    ("transformer_xl_lm_wikitext103", {"decoder_input_dim": 48}),
]


@pytest.mark.parametrize("arch, options", VARIANTS, ids=str)
def test_first_weights_are_those_of_the_declared_code(arch, options):
    (code,) = codes(arch)
    pre_norm = "agent" in arch or {**vars(published(arch)), **options}.get("decoder_normalize_before")
    found = misfits(build(arch, seed=1, **options), code, 2 * LAYERS if pre_norm else 1)
    assert not found, "\n".join(found)


@torch.no_grad()
def first_loss(model):
    """Mean loss in nats of random words after random words, and of classes of random sentences."""
    return nll(model, *torch.randint(4, WORDS, (2, 32, 32))).mean().item()


@pytest.mark.parametrize("arch", [arch for arch in PUBLISHED if "_agent" not in arch])  # an agent's scores are zeros
def test_first_loss_is_that_of_the_declared_code(arch):
    (code,) = codes(arch)
    losses = [first_loss(build(arch, seed)) for seed in range(1, 5)]
    assert sum(losses) / 4 == pytest.approx(FIRST_LOSS[code, form(arch)], rel=0.1 if form(arch) == "clusters" else 0.03)
