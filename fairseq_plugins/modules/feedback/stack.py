"""The Feedback Transformer's layers as one module (Fan et al., 2020, section 3.3).

T steps, B batch, C width, S source positions, H heads, L layers, G memories a step.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.layers import ModuleList
from fairseq_plugins.modules.common.row_ends import resized
from fairseq_plugins.modules.contracts import BlockRecurrence, Recurrence
from fairseq_plugins.modules.feedback.engine.chunks import ChunkRecurrence, Chunks
from fairseq_plugins.modules.feedback.engine.graphs import Graphs
from fairseq_plugins.modules.feedback.engine.recurrence import EagerRecurrence, FastRecurrence
from fairseq_plugins.modules.feedback.layer import FeedbackLayer, FeedbackLayerConfig, share_keys_and_values
from fairseq_plugins.modules.feedback.memory import FeedbackMemory, build_composition
from fairseq_plugins.modules.feedback.window import Limits, MemoryWindow

ENGINES: dict[str, Callable[..., Recurrence]] = {
    "fast": FastRecurrence,
    "eager": EagerRecurrence,
}
# names in commands and checkpoints of earlier versions, whose engines computed the same function
FORMER_ENGINES = {"fused": "fast", "reference": "eager"}
KEYS_AND_VALUES = {"shared": share_keys_and_values, "per-layer": lambda layers: None}


class FeedbackStack(nn.Module):
    """Layers over [T, B, C], steps first, that all attend to the feedback memory of earlier steps.

    The paper does not name the memory of the first step. Without a window it is a memory of zeros, m_0, to which all
    later steps attend too. With a window a stream starts with a full window of zeros, as in the paper's code.

    Args:
        config: sizes and rates, which the layers share.
        num_layers: L.
        memory: the composition of the memory, a name that `memory.build_composition` knows.
        kv: "shared" for one key and one value matrix for all layers, or "per-layer".
        engine: "fast", with CUDA graphs on a GPU and compiled decoding on a CPU, or "eager", with neither. Of the names
            of earlier versions "fused" is "fast" and "reference" is "eager".
        window: for streams, how far back the layers look; None: to the start.
        normalise_twice: at the end of a block of a stream, its memories go through the lowest layer's attention
            LayerNorm. With pre-norm the next blocks then normalise them a second time. The papers' public code does
            this by mistake, so it is for its checkpoints. The outputs then depend on the length of the blocks.
        chunks: how blocks of a stream are trained (see engine/chunks.py); None: exactly. Evaluation is always exact.

    Raises:
        ValueError: a name is not known, or spans that are trained in chunks are adaptive.
    """

    def __init__(
        self,
        config: FeedbackLayerConfig,
        num_layers: int,
        memory: str = "weighted",
        kv: str = "shared",
        engine: str = "fast",
        window: MemoryWindow | None = None,
        normalise_twice: bool = False,
        chunks: Chunks | None = None,
    ):
        super().__init__()
        self.layers = ModuleList(FeedbackLayer(config) for _ in range(num_layers))
        self.memory = build_composition(memory, num_layers)
        KEYS_AND_VALUES[kv](self.layers)
        self.engine = ENGINES[FORMER_ENGINES.get(engine, engine)]
        self.window, self.normalise_twice = window, normalise_twice
        if chunks and (window is None or window.spans):
            raise ValueError("chunks are for blocks of a stream with fixed spans")
        self.chunks = chunks
        self.graphs = Graphs()

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors):
        # A checkpoint with keys and values per layer has the same names. Without this check one layer's would be loaded
        # and the others dropped.
        tied: dict[nn.Parameter, list[Tensor | None]] = {}
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
        memory: FeedbackMemory | None = None,
        limits: list[Limits] | None = None,
    ) -> Recurrence:
        """The state before the first step of decoding.

        Args:
            context, context_padding: as of `forward`.
            beam: how many neighbouring rows of x share one row of context and context_padding.
            memory: of a stream, see `advance`; None without a window.
            limits: of a stream, those of its layers, if they are known; they are computed otherwise.

        Raises:
            ValueError: the memory is of another composition.
        """
        memories = None if memory is None else memory.vectors
        if memories is not None:
            self.check_composition(memories)
        context = None if context is None else context.to(self.dtype)
        if limits is None and self.window is not None:
            limits = self.window.limits()
        state = self.engine(self.layers, self.memory.mixing(), context, context_padding, beam, limits, memories)
        if isinstance(state, FastRecurrence) and state.captures:
            state.graphs = self.graphs
        return state

    def check_composition(self, memories: list[Tensor]) -> None:
        if len(memories) != self.memory.count:
            raise ValueError(f"the memory holds {len(memories)} vectors a step, this model makes {self.memory.count}")

    def memory_length(self, limits: list[Limits] | None = None) -> int:
        """How many memories go to the next block of a stream, after one with these limits; None: the present ones."""
        assert self.window is not None, "a stack without a window has no next block"
        widths = self.window.widths() if limits is None else [limit.width for limit in limits]
        return self.window.memory_length(widths)

    def initial_memory(self, x: Tensor) -> FeedbackMemory:
        """The memory at the start of the streams, for embeddings like x [B, C]: zeros."""
        zeros = x.new_zeros(len(x), self.memory_length(), x.size(1), dtype=self.dtype)
        return FeedbackMemory([zeros] * self.memory.count)

    def empty_memory(self, x: Tensor) -> FeedbackMemory:
        """A memory without any step, for embeddings like x [B, C]: `advance` puts zeros before it."""
        return FeedbackMemory([x.new_zeros(len(x), 0, x.size(1), dtype=self.dtype)] * self.memory.count)

    def step(self, state: Recurrence, x: Tensor) -> tuple[Tensor, Tensor | None]:
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
        """All steps of a known sequence: embeddings [T, B, C] -> outputs of the top layer [T, B, C].

        Args:
            context: encoder output [B, S, context_dim]
            context_padding: [B, S], True where the encoder's input is padding
            padding: [B, T], True where x is padding. On the right it may be left out: no token attends to later ones
        """
        return self.start(context, context_padding).run(x.to(self.dtype), padding)

    def advance(
        self, x: Tensor, memory: FeedbackMemory, padding: Tensor | None = None
    ) -> tuple[Tensor, FeedbackMemory]:
        """The next block of a stream: embeddings [T, B, C], and the memory of the blocks before (at the start of the
        streams, `initial_memory`) -> outputs of the top layer [T, B, C], and the memory for the next block. The last
        padding[b] steps of row b are padding."""
        assert self.window is not None, "a stack without a window has no next block"
        limits = self.window.limits()
        length = self.memory_length(limits)
        vectors = [resized(vectors.to(self.dtype), length) for vectors in memory.vectors]
        block = self.start_block(vectors, limits)
        y = block.run(x.to(self.dtype))
        after = block.final_memories(length, padding)
        return y, FeedbackMemory([self.normalised(vectors, len(x)) for vectors in after])

    def start_block(self, memories: list[Tensor], limits: list[Limits]) -> BlockRecurrence:
        """The next block of a stream, after G tensors of memories [B, n, C].

        Raises:
            ValueError: the memories are of another composition, or they are to be trained in chunks by an engine that
                may have another equation
        """
        if self.training and self.chunks:
            if self.engine not in ENGINES.values():
                raise ValueError("an engine of your own does not train in chunks; leave them out")
            self.check_composition(memories)
            return ChunkRecurrence(self.layers, self.memory.mixing(), limits, memories, self.chunks)
        return self.start(memory=FeedbackMemory(memories), limits=limits)

    @torch.no_grad()
    def normalised(self, memories: Tensor, steps: int) -> Tensor:
        """Memories [B, n, C] after a block of so many steps, in the form in which the next block takes them."""
        if not self.normalise_twice:
            return memories
        own = min(steps, memories.size(1))
        earlier, latest = memories.split([memories.size(1) - own, own], dim=1)
        return torch.cat([earlier, self.layers[0].self_attn_layer_norm(latest).to(latest.dtype)], dim=1)
