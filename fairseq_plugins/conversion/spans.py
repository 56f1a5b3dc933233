"""What the checkpoints of adaptive-span and transformer-sequential have in common.

D width of a head, S maximum span.
"""

from typing import Any

import torch
from torch import Tensor

from fairseq_plugins.errors import UserError

RAMP = 32  # the default of both repositories


def distances(position: Tensor) -> Tensor:
    """The constant that is saved beside each adaptive span [S]."""
    return torch.arange(1 - position.size(1), 1, dtype=torch.float32)


def heads(width: int, position: Tensor) -> int:
    """How many heads make up a width, by the positions [D, S] of one head."""
    if not len(position) or width % len(position):
        raise UserError(
            f"the checkpoint has heads of width {len(position)}, which do not make up {width}; check --from, or get it"
            " again."
        )
    return width // len(position)


def span_options(position: Tensor, adaptive: bool, ramp: int | None) -> dict[str, Any]:
    """The options of a span as long as the positions [D, S].

    Raises:
        UserError: there is a ramp for a fixed span
    """
    fixed = {"attention_span": position.size(1)}
    if adaptive:
        return {**fixed, "adaptive_span": True, "span_ramp": ramp or RAMP}
    if ramp:
        raise UserError(f"--span-ramp {ramp} is for adaptive spans, and this model has fixed ones; leave it out.")
    return fixed


def ramp_note(ramp: int | None, repository: str, their_flag: str) -> list[str]:
    """What to say of a ramp that was not given."""
    if ramp:
        return []
    return [
        f"span ramp {RAMP}, the default of {repository}: the file does not say it. If the training had another"
        f" {their_flag}, convert again with --span-ramp"
    ]
