"""The loop over the steps of a block, forward and backward, put together of parts (see `backward`).

T steps, B batch, C width, H heads, S source positions, L layers, G memories a step.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.modules.feedback.engine.attention import Attention, WindowAttention
from fairseq_plugins.modules.feedback.engine.backward import (
    Chain,
    Dropouts,
    LayerNorm,
    Linear,
    Part,
    Pointwise,
    ReluLinear,
    Residual,
)
from fairseq_plugins.modules.feedback.engine.caches import FixedSource, GrowingSource, Source
from fairseq_plugins.modules.feedback.engine.memory_writer import MemoryWriter, Mixture
from fairseq_plugins.modules.feedback.engine.sliding_cache import SlidingSource
from fairseq_plugins.modules.feedback.engine.state import RecurrenceState, score_mask
from fairseq_plugins.modules.feedback.layer import FeedbackLayer
from fairseq_plugins.modules.feedback.window import Limits

STREAM_CAPACITY = 64  # positions; then the window moves to the front, as rows of wider buffers are slower to read


class Loop:
    """The parts of all layers, put together for one block of T steps, or for step-by-step decoding.

    Args:
        state: the tensors that all steps read.
        like: the embeddings of a step are like it [B, C].
        capacity: the number of steps that the buffers hold.
        padding: [B, T], True where the input is padding, or None.
        record: save activations for the backward pass.
    """

    def __init__(
        self, state: RecurrenceState, like: Tensor, capacity: int, padding: Tensor | None = None, record: bool = False
    ):
        self.record, self.heads, self.beam, self.capacity = record, state.heads, state.beam, capacity
        self.dtype, layers = state.dtype, state.cast_layers
        products = like.new_empty(like.shape, dtype=self.dtype)  # a tensor that products make, of a step
        self.mixture = state.new_mixture(like, record)
        mask = None
        if padding is not None:
            mask = score_mask(F.pad(padding, (1, 0)), self.heads, products)  # m_0 is never padding

        sources = {key: state.new_source(key, products, capacity, mask) for key in dict.fromkeys(state.sources())}
        self.layers: list[Chain] = []
        self.memory_attentions: list[Attention] = []  # of each layer
        self.context_attentions: list[Attention] = []  # the same, if there is an encoder
        self.contexts = [FixedSource(keys, values, state.context_mask) for keys, values in state.context]
        for i, (layer, key) in enumerate(zip(layers, state.sources())):
            context = self.contexts[i] if self.contexts else None
            limits = state.limits[i] if state.limits else None
            self.layers.append(self.assemble(layer, sources[key], context, limits))
        self.writers: list[MemoryWriter] = []  # one a memory that is attended to
        for memory, projection in state.projections.items():
            own = [source for key, source in sources.items() if key[0] == memory]
            self.writers.append(MemoryWriter(projection, state.memory_norm, own, record, like.dtype, capacity))
            if state.limits is not None:
                self.writers[-1].fill(state.memories[memory])
        self.memories: list[list[Tensor]] = []  # G tensors [B, C] for each step of a block
        self.starts_with_zero = state.limits is None
        if self.starts_with_zero:
            self.write([torch.zeros_like(like)] * len(state.mixing))  # m_0: zeros, which are attended to

    def assemble(
        self, layer: FeedbackLayer, memory: Source, context: FixedSource | None, limits: Limits | None
    ) -> Chain:
        """The parts of one layer, which attends to these sources."""
        config, record = layer.config, self.record
        dropouts = Dropouts(self.capacity, layer.training, record, layer.fc1.weight.device)

        def sublayer(norm, *parts):
            dropout = dropouts.part(config.dropout, dropouts.scale(config.dropout))
            return Residual(LayerNorm(norm, record), Chain(*parts, dropout, dtype=self.dtype), config.pre_norm)

        def attention(norm, projections, source, make, *options):
            weight_dropout = dropouts.part(config.attention_dropout, grows=isinstance(source, GrowingSource))
            attend = make(Linear(projections.q_proj, record), source, weight_dropout, config.heads, record, *options)
            (self.context_attentions if source is context else self.memory_attentions).append(attend)
            out = Linear(projections.out_proj, record, dropouts.scale(config.attention_dropout))
            out.grad_slot = attend.output_grad_slot
            return sublayer(norm, attend, out)

        kind, options = (Attention, ()) if limits is None else (WindowAttention, limits)
        sublayers = [attention(layer.self_attn_layer_norm, layer.self_attn, memory, kind, *options)]
        if context is not None:
            norm = layer.encoder_attn_layer_norm
            sublayers.append(attention(norm, layer.encoder_attn, context, Attention, self.beam))
        narrow = Linear(layer.fc2, record, dropouts.scale(config.activation_dropout))
        widen: Linear
        if config.activation == "relu":
            dropout = dropouts.part(config.activation_dropout, record=False)
            widen = ReluLinear(layer.fc1, dropout, record, self.capacity)
            parts: list[Part] = [widen, narrow]
        else:
            widen = Linear(layer.fc1, record)
            activation = Pointwise(ACTIVATIONS[config.activation], record)
            parts = [widen, activation, dropouts.part(config.activation_dropout), narrow]
        return Chain(*sublayers, sublayer(layer.final_layer_norm, *parts))

    def memory_weights(self) -> list[Tensor]:
        """The attention of each layer to the memories at the latest step, each [B, H, n]."""
        return [attention.merge_heads(attention.weights) for attention in self.memory_attentions]

    def context_weights(self) -> Tensor | None:
        """The top layer's attention to the encoder at the latest step [B, H, S], or None without an encoder."""
        if not self.context_attentions:
            return None
        top = self.context_attentions[-1]
        return top.merge_heads(top.weights)

    def write(self, memories: list[Tensor]) -> None:
        """Append the memories of one step, G tensors [B, C], to all sources."""
        for writer, memory in zip(self.writers, memories, strict=True):
            writer.forward(memory)

    def step(self, x: Tensor) -> Tensor:
        """One embedding [B, C] -> output of the top layer [B, C]."""
        states = self.run_layers(x)
        self.write(self.mixture.forward(states))
        return states[-1]

    def run_layers(self, x: Tensor) -> list[Tensor]:
        """One embedding [B, C] -> x^0 .. x^L, each [B, C]."""
        states = [x]
        for layer in self.layers:
            states.append(layer.forward(states[-1]))
        return states

    def forward(self, x: Tensor) -> Tensor:
        """Embeddings [T, B, C] -> outputs of the top layer [T, B, C]. The memories of all steps are left in
        `self.memories`."""
        outputs = []
        for x_t in x[:-1]:
            states = self.run_layers(x_t)
            outputs.append(states[-1])
            self.remember(states)
        states = self.run_layers(x[-1])  # no step of the block attends to the last memory
        self.memories.append(self.mixture.mix(states))
        return torch.stack([*outputs, states[-1]])

    def remember(self, states: list[Tensor]) -> None:
        """Mix x^0 .. x^L of a step of a block, and keep its memories, to which the next steps attend."""
        self.memories.append(self.mixture.forward(states))
        self.write(self.memories[-1])

    def restart(self, rows: Tensor) -> None:
        for writer in self.writers:
            writer.restart(rows.repeat_interleave(self.heads))

    def backward(self, d_top: Tensor) -> tuple[Tensor, dict]:
        """Gradient of the outputs [T, B, C] -> gradient of the embeddings [T, B, C], and gradients of all other tensors
        by their id."""
        d_top = d_top.contiguous()
        dx: list[Tensor] = []  # the last step first
        for d_top_t in reversed(d_top.unbind()):
            dx.append(self.step_backward(d_top_t, self.read_gradients() if dx else []))
        if self.starts_with_zero:
            self.read_gradients()  # m_0 is constant, but its key and value pass gradients to their biases
        gradients: dict[int, Tensor] = {}
        parts: list[Part | Source | MemoryWriter | Mixture]
        parts = [*self.layers, *self.contexts, *self.writers, self.mixture]
        for part in parts:
            for tensor, gradient in part.gradients():
                known = gradients.get(id(tensor))
                gradients[id(tensor)] = gradient if known is None else known + gradient
        return torch.stack(dx[::-1]), gradients

    def read_gradients(self) -> list[Tensor]:
        """Gradients of the memories of the last step that the backward pass has not reached yet, G tensors [B, C]."""
        return [writer.backward() for writer in self.writers]

    def step_backward(self, dx: Tensor, d_memories: list[Tensor]) -> Tensor:
        """Gradients of the top layer's output [B, C] and of the step's memories -> gradient of the embedding [B, C]."""
        if not d_memories:
            for layer in reversed(self.layers):
                dx = layer.backward(dx)
            return dx
        *mixed, top = self.mixture.backward(d_memories)
        dx = dx + top
        for layer, part in zip(reversed(self.layers), reversed(mixed)):
            dx = layer.backward(dx) + part
        return dx

    def reorder(self, order: Tensor) -> None:
        for source in self.memory_sources():
            source.reorder(order)
        if not self.contexts:
            return
        sentences, together, moved = self.sentences(order)
        if not together:  # every row gets keys and values of its own
            self.beam = 1
            for attention in self.context_attentions:
                attention.beam = 1
        if moved:
            for context in self.contexts:
                context.reorder(sentences, self.heads)

    def memory_sources(self) -> list[GrowingSource | SlidingSource]:
        return [source for writer in self.writers for source in writer.sources]

    def sentences(self, order: Tensor) -> tuple[Tensor, bool, bool]:
        """Which rows of the context this order of rows needs, whether all rows of a sentence stay together, as they do
        in beam search, and whether the context changes."""
        sentences = order // self.beam
        groups = sentences.view(-1, self.beam) if len(order) % self.beam == 0 else sentences[:, None]
        same_number = groups.numel() == self.beam * len(self.contexts[0].keys) // self.heads
        stays = torch.arange(len(groups), device=order.device).unsqueeze(1)
        checks = groups != groups[:, :1], groups != stays
        left, moved = torch.stack([check.any() for check in checks]).tolist()  # both at once: the host waits for it
        if groups.size(1) != self.beam or left:
            return sentences, False, True
        return groups[:, 0], True, moved or not same_number


class StepwiseLoop(Loop):
    """A loop whose steps are taken one by one, and which is differentiated afterwards."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.outputs: list[Tensor] = []
        self.states: list[Tensor] = []  # of the last step, until its memory is written

    def step(self, x: Tensor) -> Tensor:
        self.write_last()
        self.states = self.run_layers(x)
        self.outputs.append(self.states[-1])
        return self.states[-1]

    def write_last(self) -> None:
        """Write the memory of the last step, now that another step follows."""
        if self.states:
            self.remember(self.states)
            self.states = []

    def restart(self, rows: Tensor) -> None:
        self.write_last()
        super().restart(rows)

    def forward(self, x: Tensor) -> Tensor:
        """The outputs of the steps [T, B, C]; x [T, B, C] are their inputs."""
        assert self.states and len(x) == len(self.outputs), "these are not the steps that were taken"
        self.memories.append(self.mixture.mix(self.states))
        return torch.stack(self.outputs)


class LoopFunction(torch.autograd.Function):
    """A loop as one node of the graph of autograd. The arguments after x are all other tensors that get gradients."""

    @staticmethod
    def forward(ctx, loop, x, *tensors):
        ctx.loop, ctx.tensors = loop, tensors
        return loop.forward(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, d_top):
        loop, ctx.loop = ctx.loop, None  # frees the activations
        if loop is None:
            raise RuntimeError("the feedback recurrence was differentiated a second time; its activations are gone")
        dx, gradients = loop.backward(d_top)
        if not gradients.keys() <= {id(tensor) for tensor in ctx.tensors}:
            raise RuntimeError(
                "the layers' parameters are not those of the module, as with torch.nn.DataParallel or --ddp-backend"
                " fully_sharded; take DistributedDataParallel"
            )
        return None, dx, *(gradients.get(id(tensor)) for tensor in ctx.tensors)
