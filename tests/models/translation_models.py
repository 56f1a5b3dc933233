"""The translation models that tests build, by a name for each, and batches of sentences."""

import architectures
import torch
from fairseq.data import data_utils
from language_models import VOCABULARY

from fairseq_plugins.modules.active_memory.mixers import MIXERS

DICTIONARY = architectures.Vocabulary(VOCABULARY)
PAD, EOS = DICTIONARY.pad(), DICTIONARY.eos()
SENTENCES = [[5, 6, 7, 8, 9], [10, 11], [12, 13, 14], [4, 5, 6, 7, 8, 9, 10]]
FEEDBACK, ACTIVE_MEMORY = "feedback_transformer_tiny", "active_memory_transformer_tiny"
MODELS = {
    "feedback": (FEEDBACK, {}),
    "feedback-per-layer": (
        FEEDBACK,
        {"feedback_kv": "per-layer", "decoder_normalize_before": True, "encoder_normalize_before": True},
    ),
    "feedback-recurrent": (FEEDBACK, {"feedback_memory": "recurrent", "feedback_kv": "per-layer"}),
    "feedback-top": (FEEDBACK, {"feedback_memory": "top", "feedback_engine": "eager"}),
    **{f"active-memory-{mixer}": (ACTIVE_MEMORY, {"mixer": mixer}) for mixer in MIXERS},
}


def build(arch, **options):
    return architectures.build(arch, VOCABULARY, seed=0, **options).double().eval()


def collate(sentences, left_pad, **options):
    rows = [torch.tensor([*sentence, EOS]) for sentence in sentences]
    return data_utils.collate_tokens(rows, PAD, EOS, left_pad=left_pad, **options)


def source(sentences, left_pad=True):
    return {
        "src_tokens": collate(sentences, left_pad),
        "src_lengths": torch.tensor([len(sentence) + 1 for sentence in sentences]),
    }


def previous(sentences, left_pad=False):
    """The previous output tokens of a batch whose targets are these sentences."""
    return collate(sentences, left_pad, move_eos_to_beginning=True)


def batch(sentences):
    return {**source(sentences), "prev_output_tokens": previous(sentences)}
