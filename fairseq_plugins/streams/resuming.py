"""Whether a training goes on in the middle of an epoch as it began it."""

from typing import Any

from fairseq_plugins.errors import UserError


def check_facts(before: dict[str, Any], now: dict[str, Any], anew: str) -> None:
    """
    Args:
        before, now: what decides on the batches of an epoch, by the flag it is given with
        anew: what --reset-dataloader does here

    Raises:
        UserError: they differ
    """
    for name, value in before.items():
        if now.get(name) != value:
            raise UserError(
                f"the checkpoint is of the middle of an epoch with {name} {value}, where this training has"
                f" {now.get(name)}: go on as before, or {anew} with --reset-dataloader."
            )
