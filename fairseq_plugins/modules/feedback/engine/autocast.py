"""Mixed precision, as torch's autocast has it: products in half precision, all else in that of the parameters."""

import copy

import torch
from torch import nn

from fairseq_plugins.modules.common.module_list import ModuleList
from fairseq_plugins.modules.feedback.layer import FeedbackLayer


def product_dtype(weight: torch.Tensor) -> torch.dtype:
    """The type in which products with this weight are computed now."""
    device = weight.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return weight.dtype


def no_autocast(device: torch.device):
    """A context in which operations compute in the types of their arguments."""
    return torch.autocast(device.type, enabled=False)


def cast_products(layers: ModuleList[FeedbackLayer], dtype: torch.dtype) -> ModuleList[FeedbackLayer]:
    """The same layers with their matrices cast to this type, once for all steps. Gradients go through the cast."""
    if layers[0].fc1.weight.dtype is dtype:
        return layers
    instead: dict[int, torch.Tensor] = {id(parameter): parameter for parameter in layers.parameters()}
    for module in layers.modules():
        if isinstance(module, nn.Linear):
            instead.update((id(parameter), parameter.to(dtype)) for parameter in module.parameters())
    return copy.deepcopy(layers, instead)
