"""The Feedback Transformer's layers as one module (Fan et al., 2020, section 3.3).

T steps, B batch, C width, S source positions, H heads.
"""

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.feedback.fast import FastRecurrence
from fairseq_plugins.modules.feedback.layer import FeedbackLayer, FeedbackLayerConfig, share_keys_and_values
from fairseq_plugins.modules.feedback.memory import build_feedback_memory
from fairseq_plugins.modules.feedback.reference import ReferenceRecurrence
from fairseq_plugins.modules.feedback.window import MemoryWindow

ENGINES = {"fast": FastRecurrence, "reference": ReferenceRecurrence}
KEYS_AND_VALUES = {"shared": share_keys_and_values, "per-layer": lambda layers: None}


class FeedbackStack(nn.Module):
    """Layers that all attend to the feedback memory of earlier steps.

    Without a window there is a memory before the first, m_0, which is zeros and is attended at every step: a choice of
    ours, since the paper does not say what the first step attends to. With a window the streams start with zeros, as in
    the paper's code.

    Args:
        config: what the layers share.
        num_layers: L.
        memory: name of the memory's composition, see `feedback_memory`.
        kv: "shared" for one key and one value matrix for all layers, or "per-layer".
        engine: "fast", or "reference", the same numbers by a plain loop.
        window: of a model of streams, how far back its layers look; None: they see everything since the start.

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
        window: MemoryWindow | None = None,
    ):
        super().__init__()
        self.layers = nn.ModuleList(FeedbackLayer(config) for _ in range(num_layers))
        self.memory = build_feedback_memory(memory, num_layers)
        KEYS_AND_VALUES[kv](self.layers)
        self.engine = ENGINES[engine]
        self.window = window

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors):
        # a checkpoint with keys and values per layer has the same names: loading would keep one layer's, drop the rest
        tied = {}
        for name, parameter in self.named_parameters(remove_duplicate=False):
            tied.setdefault(parameter, []).append(state_dict.get(prefix + name))
        for first, *others in tied.values():
            if any(first is not None and other is not None and not torch.equal(first, other) for other in others):
                errors.append("the checkpoint has keys and values per layer, this model shares them.")
                break
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)

    def start(
        self,
        context: Tensor | None = None,
        context_padding: Tensor | None = None,
        beam: int = 1,
        memories: list[Tensor] | None = None,
    ):
        """State before the first step of step-by-step decoding; it has a method `reorder`.

        With beam > 1 every row of context and context_padding serves that many neighbouring rows of x. A stream goes on
        from `memories` of earlier blocks, see `no_memories`.
        """
        with own_precision(self):
            context = None if context is None else context.to(self.dtype)
            limits = None if self.window is None else self.window.limits()
            return self.engine(self.layers, self.memory.mixing(), context, context_padding, beam, limits, memories)

    def no_memories(self, x: Tensor) -> list[Tensor]:
        """What a stream starts with: zeros, G tensors [B, S, C] for x [B, C]."""
        return [x.new_zeros(len(x), self.window.kept(), x.size(1), dtype=self.dtype)] * self.memory.count

    def step(self, state, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """One embedding [B, C] -> top layer's output [B, C] and its attention to the encoder [B, H, S]."""
        with own_precision(self):
            return state.step(x.to(self.dtype))

    @property
    def dtype(self) -> torch.dtype:
        return self.layers[0].fc1.weight.dtype

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
        with own_precision(self):
            return self.start(context, context_padding).run(x.to(self.dtype), padding)

    def advance(self, x: Tensor, memories: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The next block of a stream.

        Args:
            x: embeddings [T, B, C].
            memories: of the blocks before, G tensors [B, S, C], oldest first; `no_memories` at the start.

        Returns:
            The top layer's output [T, B, C], and the memories for the next block, without their history.
        """
        with own_precision(self):
            kept = self.window.kept()
            state = self.start(memories=[resize(memory.to(self.dtype), kept) for memory in memories])
            y = state.run(x.to(self.dtype))
            return y, state.past_and(kept)


def own_precision(stack: FeedbackStack):
    """Under autocast too the recurrence runs in the precision of its parameters."""
    return torch.autocast(stack.layers[0].fc1.weight.device.type, enabled=False)


def resize(memory: Tensor, length: int) -> Tensor:
    """The last `length` of [B, S, C], with zeros before the first where a span has grown."""
    missing = length - memory.size(1)
    return memory[:, -length:] if missing <= 0 else nn.functional.pad(memory, (0, 0, missing, 0))
