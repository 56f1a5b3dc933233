"""May a training be resumed in the middle of an epoch with these settings?"""

from typing import Any

from fairseq_plugins.errors import UserError


def check_facts(before: dict[str, Any], now: dict[str, Any], reset: str) -> None:
    """
    Args:
        before: the settings that decided the batches of the epoch, by the flag that sets them
        now: the same settings of this training
        reset: what --reset-dataloader does here

    Raises:
        UserError: the settings differ
    """
    for name, value in before.items():
        if now.get(name) != value:
            raise UserError(
                f"the checkpoint is from the middle of an epoch with {name} {value}, where this training has"
                f" {now.get(name)}: give the same settings, or {reset} with --reset-dataloader."
            )
