"""Stop a training that diverges, before it overwrites the last good checkpoint."""

import math

from fairseq_plugins.errors import UserError

WINDOW = 50  # blocks


class LossGuard:
    """Watches the training loss of one worker.

    Args:
        margin: nats per token by which the running mean of the loss (over about 50 blocks) may rise above the lowest
            it has been; 0 switches the guard off, also for losses that are not finite
    """

    def __init__(self, margin: float):
        self.margin = margin
        self.sum = self.weight = 0.0  # of an exponential mean that does not start at zero
        self.lowest = math.inf

    def check(self, loss: float, update: int, block: int) -> None:
        """Take the loss of a block, in nats per token.

        Raises:
            UserError: it is not finite, or the running mean has risen above the lowest by more than the margin
        """
        if not self.margin:
            return
        if not math.isfinite(loss):
            raise UserError(diverged(f"the loss is {loss}", update, block))
        self.sum += (loss - self.sum) / WINDOW
        self.weight += (1 - self.weight) / WINDOW
        mean = self.sum / self.weight
        self.lowest = min(self.lowest, mean)
        if mean > self.lowest + self.margin:
            risen = f"the loss rose to {mean:.3f} nats per token from {self.lowest:.3f} (--max-loss-rise {self.margin})"
            raise UserError(diverged(risen, update, block))

    def state_dict(self) -> dict:
        return {"sum": self.sum, "weight": self.weight, "lowest": self.lowest}

    def load_state_dict(self, state: dict) -> None:
        self.sum, self.weight, self.lowest = state["sum"], state["weight"], state["lowest"]


def diverged(what: str, update: int, block: int) -> str:
    return (
        f"training diverged at update {update}, block {block} of its epoch: {what}. The checkpoints in --save-dir are"
        " from before; lower --lr, lengthen --warmup-updates or lower --clip-norm."
    )
