"""The names that --arch takes, and the models behind them."""

import inspect
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY, register_model_architecture
from omegaconf import DictConfig, OmegaConf


def model_class(name: str) -> type | None:
    """The class of an architecture or a model; None for a name that fairseq does not know, which it reports itself."""
    return ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)


def keeps_memory(name: str) -> bool:
    """Whether a model goes on from block to block of a stream: its forward pass takes a StreamMemory."""
    model = model_class(name)
    return model is None or "memory" in inspect.signature(model.forward).parameters


def register_architecture(model: str, name: str, **defaults: Any) -> None:
    """Give a configuration a name for --arch: what is not set by a flag is as in `defaults`."""

    @register_model_architecture(model, name)
    def architecture(args):
        for option, value in defaults.items():
            setattr(args, option, getattr(args, option, value))


def with_defaults(args, defaults: FairseqDataclass):
    """Options of a checkpoint, with those that did not exist when it was written."""
    if not isinstance(args, DictConfig):
        return args
    return OmegaConf.merge({name: value for name, value in vars(defaults).items() if name not in args}, args)
