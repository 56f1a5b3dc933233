"""Checks of options that models share."""

from collections.abc import Iterable

from fairseq_plugins.errors import UserError, flag


def check_sizes(args, names: Iterable[str]) -> None:
    """Raises UserError for a size below 1."""
    for name in names:
        if getattr(args, name) < 1:
            raise UserError(f"{flag(name)} {getattr(args, name)} is too small; choose at least 1.")


def check_rates(args, names: Iterable[str]) -> None:
    """Raises UserError for a probability that is none."""
    for name in names:
        if not 0 <= getattr(args, name) <= 1:
            raise UserError(f"{flag(name)} {getattr(args, name)} is out of range; choose a number from 0 to 1.")


def check_heads(args, side: str = "decoder") -> None:
    """Raises UserError for a width that the heads cannot share, unless theirs is given."""
    head_dim = getattr(args, f"{side}_head_dim", None)
    if head_dim is not None:
        return check_sizes(args, [f"{side}_head_dim"])
    width, heads = (getattr(args, f"{side}_{name}") for name in ("embed_dim", "attention_heads"))
    if width % heads:
        or_this = f", or give --{side}-head-dim" if hasattr(args, f"{side}_head_dim") else ""
        raise UserError(
            f"--{side}-embed-dim {width} is not divisible by --{side}-attention-heads {heads}. Choose a multiple of"
            f" {heads}, for example {-(-width // heads) * heads}{or_this}."
        )
