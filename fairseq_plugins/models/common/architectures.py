"""The names that --arch takes, and the models behind them."""

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY, register_model_architecture
from omegaconf import DictConfig, OmegaConf

from fairseq_plugins.options.checks import check_fields


def model_class(name: str) -> type | None:
    """The class of an architecture or a model; None for a name that fairseq does not know."""
    return ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)


def register_architecture(
    model: str, name: str, complete: Callable[[Namespace], None] | None = None, **defaults: Any
) -> None:
    """Give a configuration a name for --arch: an option without a flag has its value in ``defaults``, or the value that
    ``complete`` sets."""

    @register_model_architecture(model, name)
    def architecture(args):
        set_defaults(args, **defaults)
        if complete:
            complete(args)


def set_defaults(args: Namespace, **defaults: Any) -> None:
    for option, value in defaults.items():
        setattr(args, option, getattr(args, option, value))


def sizes(layers: int, width: int, ffn: int, heads: int = 8, head_dim: int | None = None) -> dict[str, Any]:
    """The defaults of a language model of these sizes."""
    return {
        "decoder_layers": layers,
        "decoder_embed_dim": width,
        "decoder_ffn_embed_dim": ffn,
        "decoder_attention_heads": heads,
        "decoder_head_dim": head_dim,
    }


def attention_sizes(config) -> dict[str, Any]:
    """The options of ``sizes`` that every layer with attention takes, by the names that modules give them."""
    return {
        "embed_dim": config.decoder_embed_dim,
        "heads": config.decoder_attention_heads,
        "head_dim": config.decoder_head_dim,
    }


def checked_options(model: type, args):
    """The options of a model, completed by those that did not exist when its checkpoint was written. Raises UserError
    for a value that does not fit."""
    options = getattr(model, "__dataclass")
    if isinstance(args, DictConfig):
        args = OmegaConf.merge({name: value for name, value in vars(options()).items() if name not in args}, args)
    check_fields(args, options)
    return args


def help_of(args) -> str:
    return f"the model's flags (fairseq-train --arch {args._name} --help)"
