"""The language models that tests build, by a name for each: architecture and options. A new family adds its lines."""

import architectures
import torch

from fairseq_plugins.modules.active_memory.mixers import MIXERS

VOCABULARY = 24
ADAPTIVE_IO = {
    "adaptive_input": True,
    "adaptive_input_cutoff": "8,16",
    "adaptive_softmax_cutoff": "8,16",
    "tie_adaptive_weights": True,
    "tie_adaptive_proj": True,
}
ADAPTIVE_SPAN = {"adaptive_span": True, "span_init": 0.3, "span_ramp": 2, "attention_span": 9}
POST_NORM = {"decoder_normalize_before": False}
PRE_NORM = {"decoder_normalize_before": True}
SAME_LENGTH = {"mem_len": 5, "same_length": True}
UNSHARED = {"share_decoder_input_output_embed": False}
MODELS = {
    "transformer": ("span_transformer_lm_tiny", {}),
    "transformer-words": ("span_transformer_lm_tiny", {**PRE_NORM, "attention_span": 5, **ADAPTIVE_IO}),
    "transformer-spans": ("span_transformer_lm_tiny", ADAPTIVE_SPAN),
    "all-attention": ("all_attention_lm_tiny", {"attention_span": 5}),
    "all-attention-spans-words": ("all_attention_lm_tiny", {**ADAPTIVE_SPAN, **ADAPTIVE_IO}),
    "all-attention-split": ("all_attention_lm_tiny", {"persistent_integration": "head-split", "value_positions": True}),
    "feedback": ("feedback_lm_tiny", {"attention_span": 5}),
    "feedback-shared-spans": ("feedback_lm_tiny", {"feedback_kv": "shared", **POST_NORM, **ADAPTIVE_SPAN}),
    "feedback-spans-words": ("feedback_lm_tiny", {**ADAPTIVE_SPAN, **ADAPTIVE_IO}),
    "feedback-recurrent": (
        "feedback_lm_tiny",
        {"feedback_memory": "recurrent", "attention_span": 5, "decoder_head_dim": 7},
    ),
    "lstm": ("lstm_stream_lm_tiny", {"decoder_layers": 3}),
    "lstm-words": ("lstm_stream_lm_tiny", ADAPTIVE_IO),
    "xl": ("transformer_xl_lm_tiny", {**SAME_LENGTH, "untie_biases": True}),
    "xl-zeros": ("transformer_xl_lm_tiny", {**PRE_NORM, **SAME_LENGTH, "clamp_len": 3, "initial_memory": "zeros"}),
    "xl-factorized": (
        "transformer_xl_lm_tiny",
        {"mem_len": 20, "factorized_embedding": 6, "activation_fn": "gelu", "learn_bias_scales": True, **UNSHARED},
    ),
    "xl-words": ("transformer_xl_lm_tiny", {"mem_len": 20, "decoder_head_dim": 7, **ADAPTIVE_IO, **UNSHARED}),
}
FAMILIES = sorted({arch for arch, _ in MODELS.values()})
LINE_MODELS = {  # which have no memory
    f"active-memory-{mixer}": ("active_memory_lm_tiny", {"mixer": mixer}) for mixer in MIXERS
}


def build(arch, options={}, vocabulary=VOCABULARY, keeps_memory=True):
    return architectures.build(arch, vocabulary, seed=0, keeps_memory=keeps_memory, **options)


def tokens(batch=3, length=20):
    torch.manual_seed(1)
    return torch.randint(4, VOCABULARY, (batch, length))


def make(arch, options={}):
    """The same in float64, for evaluation."""
    return build(arch, options).double().eval()
