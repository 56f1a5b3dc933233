"""Cross-entropy of a language model over streams, with the loss of its adaptive spans."""

import math

from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics

from fairseq_plugins.errors import UserError


@register_criterion("streaming_lm", dataclass=FairseqDataclass)
class StreamingLMCriterion(FairseqCriterion):
    """Mean negative log-likelihood of the targets; in training also the model's ``span_loss()``.

    The model is a ``StreamingLanguageModel`` (models/common/base.py). Logged are ``loss`` (the quantity that is
    minimised) and ``nll_loss``, in bits per token, the latter also by the name that says what a token is (``bpc``,
    ``bits_per_word`` or ``bits_per_piece``), ``ppl``, in training the model's ``learned()``, and in validation ``bpb``,
    bits per byte of the raw text, if its size is known and it has no <unk>.
    """

    adds_span_loss = True  # read by the task

    def __init__(self, task):
        super().__init__(task)
        self.bits_name = getattr(task, "bits_name", "bpc")

    @property
    def LOGGED(self) -> tuple[str, ...]:
        """The names of what a validation logs, when its splits are loaded."""
        splits = [split for split in getattr(self.task, "datasets", {}) if split != "train"]
        bpb = ("bpb",) * any(self.task.bytes_per_token(split) for split in splits)
        return "loss", "nll_loss", self.bits_name, "ppl", *bpb

    @classmethod
    def build_criterion(cls, cfg, task):
        """Raises UserError for a task whose models are not language models over streams."""
        if not getattr(task, "keeps_memory", False):
            raise UserError(
                "--criterion streaming_lm is for --task streaming_language_modeling; with another task take --criterion"
                " cross_entropy."
            )
        return super().build_criterion(cfg, task)

    def forward(self, model, sample, reduce=True):
        """The loss in nats, summed over the tokens of the block; the number of these tokens; the values to log."""
        net_output = model(**sample["net_input"])
        target = sample["target"]
        tokens = sample["ntokens"]
        nll = model.token_nll(net_output, target).masked_fill(target.eq(self.padding_idx), 0).sum()
        span_loss = model.span_loss() if model.training else None
        loss = nll if span_loss is None else nll + tokens * span_loss
        logged = {
            "loss": loss.data,
            "nll_loss": nll.data,
            f"bits/{self.bits_name}": nll.data,
            "ntokens": tokens,
            "nsentences": sample["nsentences"],
            "sample_size": tokens,
        }
        if not model.training and (bytes_per_token := self.bytes_per_token(sample)):
            logged["raw_bytes"] = tokens * bytes_per_token
        learned = model.learned() if model.training else {}
        logged.update({f"learned/{name}": value * tokens for name, value in learned.items()})
        return loss, tokens, logged

    def bytes_per_token(self, sample) -> float | None:
        return self.task.bytes_per_token(sample["split"]) if "split" in sample else None

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        def total(key):
            return sum(log.get(key, 0) for log in logging_outputs)

        tokens = total("ntokens")
        metrics.log_scalar("loss", total("loss") / tokens / math.log(2), tokens, round=3)
        bits = total("nll_loss") / math.log(2)
        metrics.log_scalar("nll_loss", bits / tokens, tokens, round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))
        for key in {key for log in logging_outputs for key in log}:
            if key.startswith("bits/"):
                metrics.log_scalar(key.removeprefix("bits/"), bits / tokens, tokens, round=3)
            if key.startswith("learned/"):
                metrics.log_scalar(key.removeprefix("learned/"), total(key) / tokens, tokens, round=4)
        if raw_bytes := total("raw_bytes"):
            metrics.log_scalar("bpb", bits / raw_bytes, raw_bytes, round=3)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
