"""The Feedback Transformer as a language model over streams (Fan et al., 2020, sections 4.3.2, 4.3.3 and 7.6)."""

from dataclasses import dataclass

from fairseq.models import register_model

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.common.architectures import register_architecture, sizes
from fairseq_plugins.models.common.feedback import TABLE_9, FeedbackConfig, KeysAndValues, feedback_body, kv_option
from fairseq_plugins.models.common.span import PRE_NORM, SpanLanguageModel, SpanLanguageModelConfig, span
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


@register_model("feedback_lm", dataclass=FeedbackLanguageModelConfig)
class FeedbackLanguageModel(SpanLanguageModel):
    """Every layer attends to the memories of earlier tokens. The memory of a token is a mixture of all its layers."""

    @classmethod
    def check_options(cls, config):
        super().check_options(config)
        if config.normalise_memory_twice and not config.decoder_normalize_before:
            raise UserError("--normalise-memory-twice needs --decoder-normalize-before; add it, or leave it out.")

    @classmethod
    def build_body(cls, config):
        ramp = config.span_ramp if config.adaptive_span else None
        pre_norm, twice = config.decoder_normalize_before, config.normalise_memory_twice
        return feedback_body(config, pre_norm, config.dropout, twice, ramp=ramp, initial=config.span_init)

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


ARCHITECTURES = {
    "tiny": {**sizes(2, 64, 128, heads=2), **span(32), **PRE_NORM},  # for tests; not from a paper
    **TABLE_9,
    # 126M parameters in Table 3, with one key and one value matrix for all layers; with one per layer, 139M in Table 9
    "wikitext103_large": {**TABLE_9["wikitext103_large"], "feedback_kv": "shared"},
}
for name, defaults in ARCHITECTURES.items():
    register_architecture("feedback_lm", f"feedback_lm_{name}", **defaults)
