"""The Feedback Transformer's layers as one module (Fan et al., 2020, section 3.3).

T steps, B batch, C width, S source positions, H heads.
"""

import torch
from torch import Tensor, nn

from .feedback_fast import FastRecurrence
from .feedback_layer import FeedbackLayer, FeedbackLayerConfig, share_keys_and_values
from .feedback_memory import build_feedback_memory
from .feedback_reference import ReferenceRecurrence

ENGINES = {"fast": FastRecurrence, "reference": ReferenceRecurrence}
KEYS_AND_VALUES = {"shared": share_keys_and_values, "per-layer": lambda layers: None}


class FeedbackStack(nn.Module):
    """Layers that all attend to the feedback memory of earlier steps.

    Args:
        config: what the layers share.
        num_layers: L.
        memory: name of the memory's composition, see `feedback_memory`.
        kv: "shared" for one key and one value matrix for all layers, or "per-layer".
        engine: "fast", or "reference", the same numbers by a plain loop.

    Raises:
        ValueError: for an unknown name.
    """

    def __init__(
        self,
        config: FeedbackLayerConfig,
        num_layers: int,
        memory: str = "weighted",
        kv: str = "shared",
        engine: str = "fast",
    ):
        super().__init__()
        self.layers = nn.ModuleList(FeedbackLayer(config) for _ in range(num_layers))
        self.memory = build_feedback_memory(memory, num_layers)
        KEYS_AND_VALUES[kv](self.layers)
        self.engine = ENGINES[engine]

    def start(self, context: Tensor | None = None, context_padding: Tensor | None = None, beam: int = 1):
        """State before the first step, for step-by-step decoding: see `step` and `reorder` of the engines."""
        return self.engine(self.layers, self.memory.mixing(), context, context_padding, beam)

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        context_padding: Tensor | None = None,
        padding: Tensor | None = None,
    ) -> Tensor:
        """All steps of a sequence that is known.

        Args:
            x: embeddings [T, B, C].
            context: encoder output [B, S, context_dim], or None.
            context_padding: [B, S], True where the encoder's input is padding, or None.
            padding: [B, T], True where x is padding, or None. Padding on the right may be left out: no token attends to
                what comes after it.

        Returns:
            The top layer's output [T, B, C].
        """
        # under autocast too the recurrence runs in its parameters' own precision
        with torch.autocast(x.device.type, enabled=False):
            dtype = self.layers[0].fc1.weight.dtype
            x, context = (None if v is None else v.to(dtype) for v in (x, context))
            return self.start(context, context_padding).run(x, padding)
