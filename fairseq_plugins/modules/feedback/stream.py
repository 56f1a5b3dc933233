"""The Feedback Transformer over an unbounded stream (Fan et al., 2020, section 7.6): the body of a language model.

B streams, M block length, S memories kept, C width.
"""

from torch import Tensor, nn

from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig, initialise_as_published
from fairseq_plugins.modules.feedback.stack import FeedbackStack
from fairseq_plugins.modules.feedback.window import MemoryWindow


class FeedbackStream(nn.Module):
    """A feedback stack whose memories go from block to block; with pre-norm a LayerNorm follows the top layer.

    Args:
        config: what the layers share.
        num_layers: L.
        window: how far back the layers look.
        memory, kv, engine: as of FeedbackStack.
    """

    def __init__(
        self,
        config: FeedbackLayerConfig,
        num_layers: int,
        window: MemoryWindow,
        memory: str = "weighted",
        kv: str = "per-layer",
        engine: str = "fast",
    ):
        super().__init__()
        self.stack = FeedbackStack(config, num_layers, memory, kv, engine, window)
        self.norm = nn.LayerNorm(config.embed_dim) if config.pre_norm else nn.Identity()
        initialise_as_published(self.stack.layers)

    def forward(self, x: Tensor, caches: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """One block.

        Args:
            x: embeddings [B, M, C].
            caches: the memories before the block, one tensor [B, S, C] (recurrent: one a layer), oldest first; [] at
                the start of the streams, where zeros are attended.

        Returns:
            Outputs [B, M, C], and the caches for the next block, without their history.
        """
        x = x.transpose(0, 1).contiguous()
        y, caches = self.stack.advance(x, caches or self.stack.no_memories(x[0]))
        return self.norm(y).transpose(0, 1), caches

    def start(self, caches: list[Tensor], like: Tensor):
        """State before the first step of decoding, for embeddings like [B, C]; it has a method `reorder`."""
        return self.stack.start(memories=caches or self.stack.no_memories(like))

    def step(self, state, x: Tensor) -> Tensor:
        """One embedding [B, C] -> output [B, C]."""
        return self.norm(self.stack.step(state, x)[0])
