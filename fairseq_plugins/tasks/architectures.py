"""The models behind the names that --arch takes, for tasks that need models of a kind."""

import inspect

from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY


def model_class(name: str) -> type | None:
    """The class of an architecture or a model; None for a name that fairseq does not know, which it reports itself."""
    return ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)


def keeps_memory(name: str) -> bool:
    """Whether a model goes on from block to block of a stream: its forward pass takes a StreamMemory."""
    model = model_class(name)
    return model is None or "memory" in inspect.signature(model.forward).parameters
