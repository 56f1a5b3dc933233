"""The Feedback Transformer as a language model over streams (Fan et al., 2020, sections 4.3.2, 4.3.3 and 7.6)."""

from dataclasses import dataclass
from typing import Optional

from fairseq.models import register_model

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.common.architectures import register_architecture, sizes
from fairseq_plugins.models.common.feedback import TABLE_9, FeedbackConfig, KeysAndValues, feedback_body, kv_option
from fairseq_plugins.models.common.span import PRE_NORM, SpanLanguageModel, SpanLanguageModelConfig, span
from fairseq_plugins.modules.feedback.engine.chunks import Chunks
from fairseq_plugins.modules.feedback.memory import WeightedMemory
from fairseq_plugins.options.fields import option


@dataclass
class FeedbackLanguageModelConfig(FeedbackConfig, SpanLanguageModelConfig):
    decoder_ffn_embed_dim: int = option(2048, "width of feed-forward layers")
    feedback_kv: KeysAndValues = kv_option("per-layer")
    normalise_memory_twice: bool = option(
        False,
        "memories of earlier blocks are normalised once more, by the lowest layer, as the paper's code does with"
        " --decoder-normalize-before: for its checkpoints",
    )
    feedback_chunk: int = option(
        1,
        "in training, so many tokens of a stream go through all layers together: an approximation, projected to be"
        " faster on a GPU; evaluation is exact. 1: training is exact, too",
    )
    feedback_passes: Optional[int] = option(
        None,
        "passes over each chunk; as many as it has tokens make it exact (default: 3, or 2 and 1 for chunks of 3 and 2)",
    )


@register_model("feedback_lm", dataclass=FeedbackLanguageModelConfig)
class FeedbackLanguageModel(SpanLanguageModel):
    """Every layer attends to the memories of earlier tokens. The memory of a token is a mixture of all its layers."""

    @classmethod
    def check_options(cls, config):
        super().check_options(config)
        if config.normalise_memory_twice and not config.decoder_normalize_before:
            raise UserError("--normalise-memory-twice needs --decoder-normalize-before; add it, or leave it out.")
        chunk, passes = config.feedback_chunk, config.feedback_passes
        if passes and chunk == 1:
            raise UserError(
                "--feedback-passes needs a --feedback-chunk of 2 or more; add it, or leave out --feedback-passes"
                " (in --model-overrides it is None then)."
            )
        if passes and passes > chunk:
            raise UserError(f"--feedback-passes {passes} is more than --feedback-chunk {chunk}; lower it.")
        if chunk > 1 and config.adaptive_span:
            raise UserError(
                "--feedback-chunk does not train adaptive spans, which --adaptive-span or the architecture asks for;"
                " leave out --feedback-chunk, or take --arch feedback_lm with sizes of your choice."
            )

    @classmethod
    def build_body(cls, config):
        ramp = config.span_ramp if config.adaptive_span else None
        pre_norm, twice = config.decoder_normalize_before, config.normalise_memory_twice
        adaptive = {"ramp": ramp, "initial": config.span_init}
        return feedback_body(config, pre_norm, config.dropout, twice, chunks(config), **adaptive)

    def training_settings(self, block):
        trained = self.decoder.body.stack.chunks
        if trained is None:
            return ""
        tokens, passes = min(trained.tokens, block), min(trained.passes, block)
        exact = "an approximation" if passes < tokens else "exactly"
        return f"in chunks of {tokens} tokens, passes over each: {passes}, {exact}"

    def evaluation_settings(self, block):
        twice = self.decoder.body.stack.normalise_twice
        return f"block {block}, memories normalised twice; the figures depend on the block length" if twice else ""

    def learned(self):
        """The spans; with --log-learned also the memory's weights of the layers, softmax(w) of equation 1."""
        learned = super().learned()
        memory = self.decoder.body.stack.memory
        if self.config.log_learned and isinstance(memory, WeightedMemory):
            learned.update({f"memory_{layer}": weight for layer, weight in enumerate(memory.mixing()[0].detach())})
        return learned


def chunks(config: FeedbackLanguageModelConfig) -> Chunks | None:
    """In which it is trained; None: exactly."""
    chunk = config.feedback_chunk
    return Chunks(chunk, config.feedback_passes or min(3, chunk - 1)) if chunk > 1 else None


ARCHITECTURES = {
    "tiny": {**sizes(2, 64, 128, heads=2), **span(32), **PRE_NORM},  # for tests; not from a paper
    **TABLE_9,
    # 126M parameters in Table 3, with one key and one value matrix for all layers; with one per layer, 139M in Table 9
    "wikitext103_large": {**TABLE_9["wikitext103_large"], "feedback_kv": "shared"},
}
for name, defaults in ARCHITECTURES.items():
    register_architecture("feedback_lm", f"feedback_lm_{name}", **defaults)
