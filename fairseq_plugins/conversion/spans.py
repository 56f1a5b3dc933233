"""Fixed and adaptive spans, as adaptive-span and transformer-sequential save them."""

from typing import Any

import torch
from torch import Tensor

from fairseq_plugins.conversion.weights import Weights
from fairseq_plugins.errors import UserError

RAMP = 32  # the default of both repositories


def heads(query: Tensor, position: Tensor) -> int:
    """The number of heads.

    Args:
        query: weights of the query projection, [H D, C]: heads, width of a head, width
        position: [D, S], where S is the maximum span
    """
    return query.unflatten(0, (-1, len(position))).size(0)


def take_span(
    weights: Weights, position: Tensor, adaptive: bool, ramp: int | None, their_flag: str
) -> tuple[dict[str, Any], list[str]]:
    """The options of a span, and sentences for the user.

    Args:
        position: [D, S], width of a head, maximum span
        ramp: of --span-ramp
        their_flag: the repository's flag for it

    Raises:
        UserError: there is a ramp for a fixed span, or a constant of the spans has another value
    """
    length = position.size(1)
    if not adaptive:
        if ramp:
            raise UserError(f"--span-ramp {ramp} is for adaptive spans, and this model has fixed ones; leave it out.")
        return {"attention_span": length}, []
    weights.drop("mask.mask_template", torch.arange(1.0 - length, 1))
    note = (
        f"span ramp {RAMP}, the default of {weights.repository}: the file does not hold it. If the training had another"
        f" {their_flag}, convert again with --span-ramp"
    )
    return {"attention_span": length, "adaptive_span": True, "span_ramp": ramp or RAMP}, [] if ramp else [note]
