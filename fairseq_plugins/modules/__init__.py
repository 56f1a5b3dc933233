"""The papers' mathematics in plain torch, for any training loop. Nothing here needs fairseq.

B streams or sequences, T or M tokens, C width. All take [B, T, C], but for ``FeedbackStack``, which takes [T, B, C]. A
memory or cache is handed in and out, and may be left out. On several GPUs the feedback modules need
DistributedDataParallel; torch.nn.DataParallel, which torch advises against, does not work with them.
"""

from fairseq_plugins.modules.active_memory.mixers import (
    CGRU,
    MIXERS,
    Convolution,
    HighwayConvolution,
    MixerConfig,
    PersistentConvolution,
    build_mixers,
)
from fairseq_plugins.modules.active_memory.self_attention import SelfAttention
from fairseq_plugins.modules.active_memory.stack import ActiveMemoryStack
from fairseq_plugins.modules.common.adaptive_io import AdaptiveInput, AdaptiveSoftmax
from fairseq_plugins.modules.common.adaptive_span import AdaptiveSpan
from fairseq_plugins.modules.common.cross_head import CrossHead
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.modules.feedback.engine.chunks import Chunks
from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.stack import FeedbackStack
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.feedback.window import MemoryWindow
from fairseq_plugins.modules.recurrent import GRUStack, LSTMStack
from fairseq_plugins.modules.span.attention import SpanConfig
from fairseq_plugins.modules.span.stack import SpanStack, integration
from fairseq_plugins.modules.transformer_xl.attention import XLConfig
from fairseq_plugins.modules.transformer_xl.skip_retain import SkipRetain
from fairseq_plugins.modules.transformer_xl.stack import XLStack

__all__ = [
    "CGRU",
    "MIXERS",
    "ActiveMemoryStack",
    "AdaptiveInput",
    "AdaptiveSoftmax",
    "AdaptiveSpan",
    "Chunks",
    "Convolution",
    "CrossHead",
    "FeedbackLayerConfig",
    "FeedbackStack",
    "FeedbackStream",
    "GRUStack",
    "HighwayConvolution",
    "LSTMStack",
    "MemoryWindow",
    "MixerConfig",
    "PersistentConvolution",
    "SelfAttention",
    "SkipRetain",
    "SpanConfig",
    "SpanStack",
    "StreamMemory",
    "XLConfig",
    "XLStack",
    "build_mixers",
    "integration",
]
