"""The Feedback Transformer over an unbounded stream (Fan et al., 2020, section 7.6): the body of a language model.

B streams, M block length, C width, L layers.
"""

from torch import Tensor, nn

from fairseq_plugins.modules.contracts import Recurrence
from fairseq_plugins.modules.feedback.engine.chunks import Chunks
from fairseq_plugins.modules.feedback.engine.recurrence import FastRecurrence
from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig, initialise_as_published
from fairseq_plugins.modules.feedback.memory import FeedbackMemory
from fairseq_plugins.modules.feedback.stack import FeedbackStack
from fairseq_plugins.modules.feedback.window import MemoryWindow


class FeedbackStream(nn.Module):
    """A feedback stack over [B, M, C], whose memory goes from block to block. With pre-norm a LayerNorm follows the top
    layer. It is a `contracts.EpisodeBody`.

    Args:
        config: sizes and rates, which the layers share.
        num_layers: L.
        window: how far back the layers look.
        memory, kv, engine, normalise_twice, chunks: as of FeedbackStack.
    """

    memory_type = FeedbackMemory

    def __init__(
        self,
        config: FeedbackLayerConfig,
        num_layers: int,
        window: MemoryWindow,
        memory: str = "weighted",
        kv: str = "per-layer",
        engine: str = "fast",
        normalise_twice: bool = False,
        chunks: Chunks | None = None,
    ):
        super().__init__()
        self.stack = FeedbackStack(config, num_layers, memory, kv, engine, window, normalise_twice, chunks)
        self.norm = nn.LayerNorm(config.embed_dim) if config.pre_norm else nn.Identity()
        initialise_as_published(self.stack.layers)

    def forward(
        self, x: Tensor, memory: FeedbackMemory | None = None, padding: Tensor | None = None
    ) -> tuple[Tensor, FeedbackMemory]:
        """One block (see `contracts.EpisodeBody`): x [B, M, C], padding [B] -> [B, M, C], and the memory after it. At
        the start of the streams, zeros are attended to."""
        x = x.transpose(0, 1).contiguous()
        y, memory = self.stack.advance(x, self.stack.empty_memory(x[0]) if memory is None else memory, padding)
        return self.norm(y).transpose(0, 1), memory

    def start(self, memory: FeedbackMemory | None, like: Tensor) -> Recurrence:
        return self.stack.start(memory=self.stack.initial_memory(like) if memory is None else memory)

    def step(self, state: Recurrence, x: Tensor) -> Tensor:
        return self.norm(self.stack.step(state, x)[0])

    @property
    def records(self) -> bool:
        """Whether there are `start_recorded` and `finish`."""
        return isinstance(self.stack.engine, type) and issubclass(self.stack.engine, FastRecurrence)

    def start_recorded(self, memory: FeedbackMemory | None, like: Tensor, steps: int) -> FastRecurrence:
        """As `start`, for exactly `steps` steps that are learned from: `finish` differentiates them. A row that is
        restarted makes that impossible."""
        state = self.start(memory, like)
        assert isinstance(state, FastRecurrence), "only the fast engine records its steps"
        state.record_steps(like, steps)
        return state

    def finish(self, state: FastRecurrence, x: Tensor, padding: Tensor | None = None) -> tuple[Tensor, FeedbackMemory]:
        """The result of `forward` for the embeddings of all recorded steps [B, M, C], without doing it again."""
        y = state.recorded(x.transpose(0, 1))
        memory = FeedbackMemory(state.final_memories(self.stack.memory_length(state.limits), padding))
        return self.norm(y).transpose(0, 1), memory

    def restart(self, state: Recurrence, rows: Tensor) -> None:
        state.restart(rows)
