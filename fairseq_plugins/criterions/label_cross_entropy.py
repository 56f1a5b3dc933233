"""Cross-entropy and accuracy of labels that belong to the input tokens."""

import math

from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor
from torch.nn import functional as F


def label_scores(model, sample) -> Tensor:
    """[B, M, V]: logits of the labels, or log-probabilities, if an adaptive softmax makes them from features."""
    net_output = model(**sample["net_input"])
    scores, extra = net_output
    if extra and extra.get("features"):
        return model.get_normalized_probs(net_output, log_probs=True)
    return scores


@register_criterion("label_cross_entropy", dataclass=FairseqDataclass)
class LabelCrossEntropyCriterion(FairseqCriterion):
    """Mean negative log-likelihood of the labels; in training also the model's ``span_loss()``. A target that is
    padding is no label and has no loss.

    The model returns logits first, or features for an adaptive softmax, and has a method ``span_loss``, both as in
    ``StreamingLanguageModel`` (models/common/base.py). Logged are ``loss`` (the quantity that is minimised) and
    ``nll_loss`` in bits per label, ``accuracy`` in percent of the labels, and ``wrong``, the number of wrong labels.
    """

    adds_span_loss = True  # read by the task
    LOGGED = ("loss", "nll_loss", "accuracy", "wrong")  # by a validation

    def forward(self, model, sample, reduce=True):
        """The loss in nats, summed over the labels of the batch; the number of labels; the values to log."""
        scores, target = label_scores(model, sample), sample["target"]
        labelled = target.ne(self.padding_idx)
        labels = int(labelled.sum())
        nll = F.cross_entropy(
            scores.flatten(0, 1).float(), target.flatten(), ignore_index=self.padding_idx, reduction="sum"
        )
        span_loss = model.span_loss() if model.training else None
        loss = nll if span_loss is None else nll + labels * span_loss
        logged = {
            "loss": loss.data,
            "nll_loss": nll.data,
            "wrong": (scores.argmax(-1).ne(target) & labelled).sum(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "sample_size": labels,
        }
        return loss, labels, logged

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        def total(key):
            return sum(log.get(key, 0) for log in logging_outputs)

        labels = total("sample_size")

        def share(name):
            return total(name) / labels if labels else math.nan  # not a number, which has no weight in a mean

        for name in ("loss", "nll_loss"):
            metrics.log_scalar(name, share(name) / math.log(2), labels, round=4)
        metrics.log_scalar("accuracy", 100 * (1 - share("wrong")), labels, round=3)
        metrics.log_scalar_sum("wrong", int(total("wrong")))

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
