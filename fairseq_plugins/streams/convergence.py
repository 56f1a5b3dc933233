"""When a training has converged (appendix B.1 of the Skip Cross-Head paper)."""


class Convergence:
    """Watches the validation perplexity of one training.

    fairseq's --patience counts validations without any improvement, and forgets its count when the training is resumed.

    Args:
        by: the training has converged once its lowest perplexity has fallen by less; 0: it never does
        over: over so many updates
    """

    def __init__(self, by: float, over: int):
        self.by, self.over = by, over
        self.lowest: list[tuple[int, float]] = []  # update, lowest perplexity up to there
        self.ended: int | None = None  # the update at which the training was told so

    def add(self, update: int, perplexity: float) -> None:
        """Take a validation's perplexity; of several at one update the first counts."""
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

    def __str__(self):
        return (
            f"converged: the lowest validation perplexity, {self.lowest[-1][1]:.4f}, fell by less than {self.by} over"
            f" {self.over} updates"
        )

    def state_dict(self) -> dict:
        return {"lowest": self.lowest, "ended": self.ended, "by": self.by, "over": self.over}

    def load_state_dict(self, state: dict) -> None:
        """Go on as before; a training that ended by other numbers than these has not ended."""
        self.lowest = state["lowest"]
        if (self.by, self.over) == (state.get("by"), state.get("over")):
            self.ended = state["ended"]
