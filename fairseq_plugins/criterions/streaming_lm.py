"""Cross-entropy of a language model, with the loss of its adaptive spans."""

import math

from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor


@register_criterion("streaming_lm", dataclass=FairseqDataclass)
class StreamingLMCriterion(FairseqCriterion):
    """Mean negative log-likelihood of the targets, plus the model's ``span_loss()`` in training.

    Logged: ``loss`` (what is minimised), ``nll_loss`` and ``bpc``, all in bits per token, ``ppl``, and what the model's
    ``learned()`` says.
    """

    adds_span_loss = True  # by which the task knows

    def forward(self, model, sample, reduce=True):
        """The sum over the block's tokens in nats, its number of tokens, and what to log."""
        net_output = model(**sample["net_input"])
        target = sample["target"]
        tokens = sample["ntokens"]
        nll = token_nll(model, net_output, target)[target.ne(self.padding_idx)].sum()
        span_loss = model.span_loss() if model.training and hasattr(model, "span_loss") else None
        loss = nll if span_loss is None else nll + tokens * span_loss
        logged = {
            "loss": loss.data,
            "nll_loss": nll.data,
            "ntokens": tokens,
            "nsentences": sample["nsentences"],
            "sample_size": tokens,
        }
        learned = model.learned() if model.training and hasattr(model, "learned") else {}
        logged.update({f"learned/{name}": float(value) * tokens for name, value in learned.items()})
        return loss, tokens, logged

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        def total(key):
            return sum(log.get(key, 0) for log in logging_outputs)

        tokens = total("ntokens")
        metrics.log_scalar("loss", total("loss") / tokens / math.log(2), tokens, round=3)
        for name in ("nll_loss", "bpc"):
            metrics.log_scalar(name, total("nll_loss") / tokens / math.log(2), tokens, round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))
        for key in {key for log in logging_outputs for key in log if key.startswith("learned/")}:
            metrics.log_scalar(key.removeprefix("learned/"), total(key) / tokens, tokens, round=4)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def token_nll(model, net_output, target: Tensor) -> Tensor:
    """Negative log-likelihood of every target, [B, M] in nats; without a full softmax where the model can."""
    if hasattr(model, "token_nll"):
        return model.token_nll(net_output, target)
    log_probs = model.get_normalized_probs(net_output, log_probs=True)
    return -log_probs.gather(-1, target.unsqueeze(-1)).squeeze(-1)
