"""The first update of an architecture, at its first weights, in a precision: that nothing overflows."""

from fnmatch import fnmatchcase

import torch
from architectures import CLASSES, build
from torch import Tensor
from torch.nn.functional import log_softmax

from fairseq_plugins.agents.rollout import Rollout, Steps

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
HALF = ("feedback_transformer*", "roberta_*")  # recipes train these in fp16 (tests/recipes/test_paper_settings.py)
SCALE = 128  # of the loss in float16, fairseq's first one


def precision_of(arch: str) -> str:
    """That of the recipes which train the architecture."""
    return "fp16" if any(fnmatchcase(arch, pattern) for pattern in HALF) else "fp32"


def first_update(arch: str, precision: str, device: str, words: int, batch=2, length=32, **options) -> float:
    """Forward and backward as fairseq computes them: parameters of the precision, the loss scaled in float16.

    Args:
        words: size of the vocabulary
        batch, length: of the tokens, which are random
        options: in place of the architecture's

    Returns:
        the mean loss in nats

    Raises:
        ValueError: the loss or a gradient is not finite
    """
    model = build(arch, words, **options).to(device, DTYPES[precision]).train()
    tokens, targets = torch.randint(4, words, (2, batch, length)).to(device)
    loss = nll(model, tokens, targets).float().mean()
    (loss * (SCALE if precision == "fp16" else 1)).backward()
    gradients = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    wrong = [name for name, gradient in gradients.items() if not gradient.isfinite().all()]
    if wrong or not gradients or not loss.isfinite():
        raise ValueError(f"{arch} in {precision}: the loss is {loss}, not finite are the gradients of {wrong[:3]}")
    return loss.item()


def nll(model: torch.nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    """As the criterions compute it, for each token, sentence or action."""
    if hasattr(model, "policy"):
        actions = targets % model.policy.out_features
        logits, _, _ = model(rollout(tokens, actions))
        return picked(log_softmax(logits.float(), -1), actions)
    if hasattr(model, "classification_heads"):
        logits, _ = model(tokens, features_only=True, classification_head_name="sentence")
        return picked(log_softmax(logits.float(), -1), targets[:, 0] % CLASSES)
    if hasattr(model, "encoder"):
        lengths = torch.full((len(tokens),), tokens.size(1), device=tokens.device)
        output = model(tokens, lengths, targets.roll(1, dims=1))
    else:
        output = model(tokens)
    if hasattr(model, "token_nll"):
        return model.token_nll(output, targets)
    return picked(model.get_normalized_probs(output, log_probs=True), targets)


def picked(log_probs: Tensor, targets: Tensor) -> Tensor:
    return -log_probs.gather(-1, targets[..., None])


def rollout(tokens: Tensor, actions: Tensor) -> Rollout:
    """A block of one episode that begins with it, as architectures.build has the observations."""
    whole, numbers = torch.stack([tokens % 5, tokens % 4], -1), torch.rand(*tokens.shape, 3, device=tokens.device)
    begins = torch.zeros_like(tokens, dtype=torch.bool)
    begins[:, 0] = True
    previous = (actions + 1).roll(1, dims=1).masked_fill(begins, 0)
    return Rollout(Steps(whole, numbers, previous, begins), actions, actions, begins, memory=None, recorded=None)
