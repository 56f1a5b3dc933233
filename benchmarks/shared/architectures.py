"""Models built as fairseq-train builds them, and the published architectures in small."""

from argparse import Namespace
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from omegaconf import OmegaConf

import fairseq_plugins  # noqa: F401  (registers every architecture)
from fairseq_plugins.agents.distributions import Categorical

PUBLISHED = sorted(
    name
    for name, model in ARCH_MODEL_REGISTRY.items()
    if model.__module__.startswith("fairseq_plugins.") and not name.endswith("_tiny")
)
CLASSES = 3  # of sentences
LAYERS = 2
SIZES = {"embed_dim": 64, "ffn_embed_dim": 128, "attention_heads": 2, "layers": LAYERS}
SMALL = {
    **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in SIZES.items()},
    "decoder_head_dim": None,
    "attention_span": 32,
    "mem_len": 32,
    "persistent_vectors": 16,
}
CLUSTERS = {"adaptive_input_cutoff": "20,60", "adaptive_softmax_cutoff": "20,60"}


def published(arch: str) -> Namespace:
    """The options that an architecture sets."""
    options = Namespace()
    ARCH_CONFIG_REGISTRY[arch](options)
    return options


def form(arch: str) -> str:
    """The kind of the embeddings of input and output."""
    options = published(arch)
    if getattr(options, "adaptive_input", False):
        return "clusters"
    shared = ("share_decoder_input_output_embed", "share_all_embeddings")
    return "tied" if any(getattr(options, name, False) for name in shared) else "plain"


def small(arch: str) -> dict:
    """Options of small sizes, but for the vocabulary; clusters of words have few words."""
    return SMALL | (CLUSTERS if form(arch) == "clusters" else {})


class Vocabulary(Dictionary):
    """A dictionary of some size; nobody asks for its words."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def __len__(self):
        return self.size


def build(arch: str, words: int, seed: int = 1, keeps_memory: bool = True, **others) -> torch.nn.Module:
    """A model as fairseq-train builds it: options without a flag are the architecture's, then the model's.

    Args:
        words: size of the vocabulary
        keeps_memory: the task is streaming_language_modeling
        others: options; those of ``SMALL`` need not be the architecture's
    """
    torch.manual_seed(seed)
    vocabulary = Vocabulary(words)
    options = Namespace(arch=arch, **{"max_target_positions": None, "seed": 1, **others})
    ARCH_CONFIG_REGISTRY[arch](options)
    task = SimpleNamespace(
        source_dictionary=vocabulary,
        target_dictionary=vocabulary,
        keeps_memory=keeps_memory,
        agent_sizes=lambda: ([5, 4], 3, Categorical(4)),
    )
    if "roberta" in arch:
        config = SentencePredictionConfig(num_classes=CLASSES, max_positions=512)
        task = SentencePredictionTask(config, vocabulary, vocabulary)
    if defaults := MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY[arch]):
        defaults = OmegaConf.structured(defaults())
        assert {*others} <= {*defaults, *SMALL}
        given = {name: value for name, value in vars(options).items() if name in defaults}
        options = OmegaConf.merge(defaults, {"_name": arch, **given})
    model = ARCH_MODEL_REGISTRY[arch].build_model(options, task)
    if "roberta" in arch:
        model.register_classification_head("sentence", num_classes=CLASSES)
    return model
