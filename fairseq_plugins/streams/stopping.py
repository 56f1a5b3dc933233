"""When a training over streams ends before its last update: its loss diverges, or its perplexity has converged."""

import logging
import math

from fairseq_plugins.compat.ending import train_no_more
from fairseq_plugins.errors import OF_BEFORE, UserError

logger = logging.getLogger(__name__)

WINDOW = 30  # blocks


class LossGuard:
    """Watches the training loss of one rank, and ends the training before it overwrites the last good checkpoint.

    The running mean of the loss (over about 30 blocks) may rise above its lowest value by the margin. The first 30
    blocks do not count, since their loss can be very high.

    Args:
        margin: in nats per token; 0 switches the guard off, also for losses that are not finite
    """

    def __init__(self, margin: float):
        self.margin = margin
        self.blocks, self.mean, self.lowest = 0, 0.0, math.inf

    def check(self, loss: float, update: int, block: int) -> None:
        """Take the loss of a block, in nats per token. Raises UserError if it is not finite, or the running mean has
        risen too far."""
        if not self.margin:
            return
        if not math.isfinite(loss):
            raise diverged(f"the loss is {loss}", update, block)
        self.blocks += 1
        self.mean += (loss - self.mean) / min(self.blocks, WINDOW)
        if self.blocks < WINDOW:
            return
        self.lowest = min(self.lowest, self.mean)
        if self.mean > self.lowest + self.margin:
            rise = f"the loss rose to {self.mean:.3f} nats per token from {self.lowest:.3f}"
            raise diverged(f"{rise} (--max-loss-rise {self.margin})", update, block)

    def state_dict(self) -> dict:
        return {"blocks": self.blocks, "mean": self.mean, "lowest": self.lowest}

    def load_state_dict(self, state: dict) -> None:
        self.blocks, self.mean, self.lowest = state["blocks"], state["mean"], state["lowest"]


def diverged(reason: str, update: int, block: int) -> UserError:
    return UserError(
        f"training diverged at update {update}, block {block} of its epoch: {reason}. {OF_BEFORE}; lower --lr,"
        " lengthen --warmup-updates or lower --clip-norm."
    )


class Convergence:
    """Watches the validation perplexity of one training, and ends the training when it has converged (appendix B.1 of
    the Skip Cross-Head paper). fairseq's --patience counts validations without any improvement instead.

    Args:
        by: the training has converged when its lowest perplexity has fallen by less than this; 0: never
        over: the number of updates over which the fall is measured
    """

    def __init__(self, by: float, over: int):
        self.by, self.over = by, over
        self.lowest: list[tuple[int, float]] = []  # update, lowest perplexity so far
        self.ended: int | None = None  # the update at which convergence was found

    def add(self, update: int, perplexity: float) -> None:
        """Take the perplexity of a validation. If there are several at one update, the first counts."""
        if not self.lowest:
            self.lowest.append((update, perplexity))
        elif update > self.lowest[-1][0]:
            self.lowest.append((update, min(perplexity, self.lowest[-1][1])))

    def reached(self) -> bool:
        if not self.by or not self.lowest:
            return False
        last, lowest = self.lowest[-1]
        before = [perplexity for update, perplexity in self.lowest if update <= last - self.over]
        return bool(before) and before[-1] - lowest < self.by

    def end_if_reached(self, trainer) -> None:
        """End the training if it has converged now."""
        if self.ended is None and self.reached():
            self.ended = trainer.get_num_updates()
            self._end(trainer)

    def end_again(self, trainer) -> None:
        """End a resumed training that had converged before."""
        if self.ended is not None:
            self._end(trainer)

    def _end(self, trainer) -> None:
        """End a training after one more update. That update is needed because fairseq decides whether to stop before it
        validates. Resumed after it, a training ends at once."""
        limits, updates = trainer.cfg.optimization, trainer.get_num_updates()
        if updates > self.ended:
            logger.info(f"{self}; there is nothing left to train")
            train_no_more(trainer)
        elif not 0 < limits.max_update <= updates:
            logger.info(f"{self}; the next update is the last")
            limits.max_update = updates + 1

    def __str__(self):
        return (
            f"converged: the lowest validation perplexity, {self.lowest[-1][1]:.4f}, fell by less than {self.by} over"
            f" {self.over} updates"
        )

    def state_dict(self) -> dict:
        return {"lowest": self.lowest, "ended": self.ended, "by": self.by, "over": self.over}

    def load_state_dict(self, state: dict) -> None:
        """Continue from the state of a checkpoint. A training that converged by other values of ``by`` and ``over`` has
        not converged by these."""
        self.lowest = state["lowest"]
        if (self.by, self.over) == (state.get("by"), state.get("over")):
            self.ended = state["ended"]
