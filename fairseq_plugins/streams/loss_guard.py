"""Stop a training that diverges, before it overwrites the last good checkpoint."""

import math

from fairseq_plugins.errors import OF_BEFORE, UserError

WINDOW = 30  # blocks


class LossGuard:
    """Watches the training loss of one rank.

    The running mean of the loss (over about 30 blocks) may rise above its lowest value by the margin. The first 30
    blocks do not count, since their loss can be very high.

    Args:
        margin: in nats per token; 0 switches the guard off, also for losses that are not finite
    """

    def __init__(self, margin: float):
        self.margin = margin
        self.blocks, self.mean, self.lowest = 0, 0.0, math.inf

    def check(self, loss: float, update: int, block: int) -> None:
        """Take the loss of a block, in nats per token.

        Raises:
            UserError: the loss is not finite, or the running mean has risen above its lowest value by more than the
                margin
        """
        if not self.margin:
            return
        if not math.isfinite(loss):
            raise UserError(diverged(f"the loss is {loss}", update, block))
        self.blocks += 1
        self.mean += (loss - self.mean) / min(self.blocks, WINDOW)
        if self.blocks < WINDOW:
            return
        self.lowest = min(self.lowest, self.mean)
        if self.mean > self.lowest + self.margin:
            rise = f"the loss rose to {self.mean:.3f} nats per token from {self.lowest:.3f}"
            raise UserError(diverged(f"{rise} (--max-loss-rise {self.margin})", update, block))

    def state_dict(self) -> dict:
        return {"blocks": self.blocks, "mean": self.mean, "lowest": self.lowest}

    def load_state_dict(self, state: dict) -> None:
        self.blocks, self.mean, self.lowest = state["blocks"], state["mean"], state["lowest"]


def diverged(reason: str, update: int, block: int) -> str:
    return (
        f"training diverged at update {update}, block {block} of its epoch: {reason}. {OF_BEFORE}; lower --lr,"
        " lengthen --warmup-updates or lower --clip-norm."
    )
