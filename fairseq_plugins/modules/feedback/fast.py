"""The fast engine of the Feedback Transformer. It computes what `reference` computes.

Keys and values are written into buffers in place. The backward pass leaves all that no earlier step needs until the end
of the block (see `manual_backward`).

T steps, B batch, C width, H heads, D width of a head, R = B * H, S source positions, L layers, G memories a step, n
steps in memory.
"""

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.modules.common.module_list import ModuleList
from fairseq_plugins.modules.common.row_ends import last_vectors
from fairseq_plugins.modules.feedback.autocast import cast_products, no_autocast, product_dtype
from fairseq_plugins.modules.feedback.layer import FeedbackLayer
from fairseq_plugins.modules.feedback.manual_backward import (
    Attention,
    Cast,
    Chain,
    Dropouts,
    FixedSource,
    Gradients,
    GrowingSource,
    LayerNorm,
    Linear,
    Part,
    Pointwise,
    Projection,
    ReluLinear,
    Residual,
    Slots,
    Source,
)
from fairseq_plugins.modules.feedback.memory import mix, mix_backward_mixing, mix_backward_outputs
from fairseq_plugins.modules.feedback.sliding_cache import SlidingSource, WindowAttention, fastest_layout
from fairseq_plugins.modules.feedback.window import Limits

if TYPE_CHECKING:
    from fairseq_plugins.modules.feedback.graphs import CapturedBlock, CapturedSteps, Graphs

INITIAL_CAPACITY = 32  # positions; doubled whenever the buffers are full
STREAM_CAPACITY = 64  # positions; then the window moves to the front, as rows of wider buffers are slower to read


def score_mask(padding: Tensor, heads: int, like: Tensor) -> Tensor:
    """padding [B, S] -> the mask [R, 1, S] that is added to scores: 0, or -inf for padding."""
    mask = like.new_zeros(padding.shape).masked_fill_(padding, float("-inf"))
    return mask.repeat_interleave(heads, dim=0).unsqueeze(1)


class TorchSteps:
    """What a step's attention to the memory is made of, by operations of torch."""

    growing: type[GrowingSource] = GrowingSource

    @staticmethod
    def sliding(device: torch.device) -> type[SlidingSource]:
        return fastest_layout(device)

    @staticmethod
    def attention(query: Linear, source, weight_dropout: Part, heads: int, record: bool, limits: Limits | None):
        """The part of one layer; `limits` are those of a stream."""
        if limits is None:
            return Attention(query, source, weight_dropout, heads, record)
        return WindowAttention(query, source, weight_dropout, heads, record, *limits)


class FastRecurrence:
    """State of a Feedback Transformer between two steps: the KV caches of the memories so far and of the encoder.

    It is a `contracts.Recurrence`.

    Args:
        layers: the stack, the lowest layer first.
        mixing: coefficients of the memories [G, L + 1].
        context: encoder output [B, S, context_dim], or None.
        context_padding: [B, S], True where the encoder's input is padding, or None.
        beam: how many neighbouring rows of the batch share one row of the context (in step-by-step decoding only).
            Hypotheses for one sentence share the keys and values of its context.
        limits: for a stream, how far back each layer looks; None: to the start.
        memories: for a stream, those of earlier blocks, G tensors [B, n, C]. n is at least the width of every layer.

    Attributes:
        captures: whether blocks and steps may be launched as graphs
        graphs: makes them; None: no graphs
    """

    captures = True
    graphs: "Graphs | None" = None

    def __init__(
        self,
        layers: ModuleList[FeedbackLayer],
        mixing: Tensor,
        context: Tensor | None = None,
        context_padding: Tensor | None = None,
        beam: int = 1,
        limits: list[Limits] | None = None,
        memories: list[Tensor] | None = None,
    ):
        self.dtype = product_dtype(layers[0].fc1.weight)
        self.layers, self.mixing, self.beam = layers, mixing, beam
        self.heads = layers[0].config.heads
        self.limits = limits and [limit.for_products(self.dtype) for limit in limits]
        self.memories = memories or []
        self.context, self.context_mask = [], None
        if context is not None:
            self.context = [self.project_context(layer, context) for layer in layers]
            if context_padding is not None:
                self.context_mask = score_mask(context_padding, self.heads, self.context[0][0])
        with no_autocast(mixing.device):
            self.projections = self.project_memories()
        self.cast_layers = cast_products(layers, self.dtype)
        norm = layers[0].self_attn_layer_norm
        self.memory_norm = None
        if layers[0].config.pre_norm:
            self.memory_norm = nn.LayerNorm(norm.normalized_shape, norm.eps, elementwise_affine=False)
        self.block: Block | CapturedBlock | None = None  # of `run`
        self.decoder: Block | CapturedSteps | None = None  # of `step`

    def project_memories(self) -> dict[int, Projection]:
        """For each memory, by its number, the projection to the keys and values of all sources that are made of it."""
        first = {key: layer for layer, key in reversed(list(zip(self.layers, self.sources())))}
        memories: dict[int, list[Projection]] = {}
        for memory, matrix in dict.fromkeys(self.sources()):
            memories.setdefault(memory, []).append(key_and_value(first[memory, matrix]))
        return {memory: joined(projections, self.dtype) for memory, projections in memories.items()}

    def project_context(self, layer: FeedbackLayer, context: Tensor) -> tuple[Tensor, Tensor]:
        """Context [B, S, context_dim] -> its keys, scaled, and its values, both [R, S, D]."""

        def split_heads(x):
            return x.unflatten(-1, (self.heads, -1)).transpose(1, 2).flatten(0, 1)

        projections, scale = layer.encoder_attn, layer.config.head_dim**-0.5
        assert projections is not None, "the layer does not attend to an encoder"
        return split_heads(projections.k_proj(context) * scale), split_heads(projections.v_proj(context))

    def sources(self) -> list[tuple[int, int]]:
        """What each layer attends to: the number of its memory, and the identity of its key matrix. Layers that agree
        in both share one source."""
        last = len(self.mixing) - 1
        return [(min(i, last), id(layer.self_attn.k_proj)) for i, layer in enumerate(self.layers)]

    def steps(self, like: Tensor, record: bool) -> type[TorchSteps]:
        """What attention to the memory is made of, for inputs like [B, C]; `record` is as of `Block`."""
        return TorchSteps

    def new_source(
        self, key: tuple[int, int], like: Tensor, capacity: int, mask: Tensor | None, kinds: type[TorchSteps]
    ):
        """An empty source for inputs like [B, C], with room for `capacity` steps."""
        head_dim = self.layers[0].config.head_dim
        if self.limits is None:
            return kinds.growing(len(like), self.heads, head_dim, capacity, like, mask)
        widths = [limits.width for source, limits in zip(self.sources(), self.limits) if source == key]
        return kinds.sliding(like.device)(len(like), self.heads, head_dim, max(widths), capacity, like)

    def run(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Embeddings [T, B, C] of T steps, padding [B, T] or None -> outputs of the top layer [T, B, C]."""
        record = torch.is_grad_enabled()
        with no_autocast(x.device):
            graph = self.graphs and self.graphs.block(self, x, padding, record)
            block = self.block = graph or Block(self, x[0], len(x), padding, record)
            return self.differentiable(block, x) if record else block.forward(x)

    def record_steps(self, like: Tensor, steps: int) -> None:
        """From now on `step` saves what a backward pass needs, for exactly `steps` steps with inputs like [B, C]. This
        is for sequences that are made step by step and then learned from, as in reinforcement learning: with `recorded`
        the forward pass is not done twice."""
        with no_autocast(like.device):
            self.block = self.decoder = SteppedBlock(self, like, steps, record=True)

    def recorded(self, x: Tensor) -> Tensor:
        """The inputs of the recorded steps [T, B, C] -> their outputs [T, B, C], which can be differentiated."""
        assert isinstance(self.block, SteppedBlock), "no steps were recorded"
        with no_autocast(x.device):
            return self.differentiable(self.block, x)

    def differentiable(self, block: "Block | CapturedBlock", x: Tensor) -> Tensor:
        """`block.forward(x)` as a node of the graph of autograd."""
        return RecordedBlock.apply(block, x, *self.tensors())

    def tensors(self) -> list[Tensor]:
        """What a block's gradients are of, besides its inputs."""
        pairs = (*self.context, *self.projections.values(), *(self.limits or []))
        return [self.mixing, *(x for pair in pairs for x in pair if x is not None), *self.cast_layers.parameters()]

    def own_tensors(self) -> list[Tensor]:
        """All tensors that a block reads, in the order in which `mapped` changes them, but for the model's
        parameters."""
        pairs = (*self.projections.values(), *(self.limits or []))
        others = [self.context_mask, *(x for pair in pairs for x in pair), *self.memories]
        tensors = [self.mixing, *(x for pair in self.context for x in pair), *(x for x in others if x is not None)]
        return tensors if self.cast_layers is self.layers else [*tensors, *self.cast_layers.parameters()]

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same state with a change made to each of `own_tensors`."""

        def changed(x):
            return None if x is None else change(x)

        twin = copy.copy(self)
        twin.mixing = change(self.mixing)
        twin.context = [(change(keys), change(values)) for keys, values in self.context]
        twin.context_mask = changed(self.context_mask)
        twin.projections = {memory: Projection(*map(changed, pair)) for memory, pair in self.projections.items()}
        twin.limits = self.limits and [Limits(*map(changed, limit)) for limit in self.limits]
        twin.memories = [change(vectors) for vectors in self.memories]
        if self.cast_layers is not self.layers:
            twin.cast_layers = copy.deepcopy(
                self.cast_layers, {id(x): change(x) for x in self.cast_layers.parameters()}
            )
        return twin

    def final_memories(self, width: int, padding: Tensor | None = None) -> list[Tensor]:
        """After `run`: the last `width` memories of a stream, G tensors [B, width, C], without their history. The last
        padding[b] steps of row b do not count."""
        assert self.block is not None, "no block has been run yet"
        latest = [torch.stack(steps, dim=1) for steps in zip(*self.block.memories)]
        steps = (torch.cat([past, new], dim=1) for past, new in zip(self.memories, latest))
        return [last_vectors(memories, width, padding).detach().clone() for memories in steps]

    @torch.no_grad()
    def step(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """One embedding [B, C] -> output of the top layer [B, C], and its attention to the encoder [B, H, S] or None.
        There are no gradients."""
        with no_autocast(x.device):
            if self.decoder is None:
                graphs = self.graphs and self.graphs.decoding(self, x)
                self.decoder = graphs or Block(self, x, INITIAL_CAPACITY if self.limits is None else STREAM_CAPACITY)
            return self.decoder.step(x), self.decoder.context_weights()

    def reorder(self, order: Tensor) -> None:
        """Continue row order[i] of the batch as row i."""
        assert self.decoder is not None, "no step has been taken yet"
        self.decoder.reorder(order)

    @torch.no_grad()
    def restart(self, rows: Tensor) -> None:
        """Start a new stream in these rows of step-by-step decoding; rows [B] is True there."""
        assert self.decoder is not None, "no step has been taken yet"
        self.decoder.restart(rows)


class EagerRecurrence(FastRecurrence):
    """The fast engine, whose operations a GPU is always given one by one."""

    captures = False


class Block:
    """The parts of all layers, put together for one block of T steps, or for step-by-step decoding.

    Args:
        state: what the block belongs to.
        like: the embeddings of a step are like it [B, C].
        capacity: room for so many steps.
        padding: [B, T], True where the input is padding, or None.
        record: save what the backward pass needs.
    """

    def __init__(
        self, state: FastRecurrence, like: Tensor, capacity: int, padding: Tensor | None = None, record: bool = False
    ):
        self.record, self.heads, self.beam, self.capacity = record, state.heads, state.beam, capacity
        few_rows, many_steps = len(like) <= 2, state.limits is not None and capacity >= STREAM_CAPACITY
        self.transposes_weights = few_rows and many_steps and not record
        self.dtype, layers = state.dtype, state.cast_layers
        products = like.new_empty(like.shape, dtype=self.dtype)  # a tensor that products make, of a step
        self.mixture = Mixture(state.mixing, like, record)
        mask = None
        if padding is not None:
            mask = score_mask(F.pad(padding, (1, 0)), self.heads, products)  # m_0 is never padding

        self.kinds = state.steps(products, record)
        sources = {
            key: state.new_source(key, products, capacity, mask, self.kinds) for key in dict.fromkeys(state.sources())
        }
        self.layers: list[Chain] = []
        self.context_attentions: list[Attention] = []
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
            body = in_type(Chain(*parts, dropouts.part(config.dropout)), self.dtype, norm.weight.dtype)
            return Residual(LayerNorm(norm, record), body, config.pre_norm)

        def attention(norm, projections, source, make, *options):
            weight_dropout = dropouts.unscaled(config.attention_dropout, grows=isinstance(source, GrowingSource))
            attend = make(Linear(projections.q_proj, record), source, weight_dropout, config.heads, record, *options)
            if source is context:
                self.context_attentions.append(attend)
            out = Linear(projections.out_proj, record, dropouts.scale(config.attention_dropout))
            out.grad_slot = attend.output_grad_slot
            return sublayer(norm, attend, out)

        sublayers = [attention(layer.self_attn_layer_norm, layer.self_attn, memory, self.kinds.attention, limits)]
        if context is not None:
            norm = layer.encoder_attn_layer_norm
            sublayers.append(attention(norm, layer.encoder_attn, context, Attention, self.beam))
        narrow = Linear(layer.fc2, record, dropouts.scale(config.activation_dropout))
        widen: Linear
        if config.activation == "relu":
            dropout = dropouts.unscaled(config.activation_dropout, record=False)
            widen = ReluLinear(layer.fc1, dropout, record, self.capacity)
            parts: list[Part] = [widen, narrow]
        else:
            widen = Linear(layer.fc1, record)
            activation = Pointwise(ACTIVATIONS[config.activation], record)
            parts = [widen, activation, dropouts.unscaled(config.activation_dropout), narrow]
        if self.transposes_weights:
            widen.transpose_weight()
        return Chain(*sublayers, sublayer(layer.final_layer_norm, *parts))

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
            memories = self.mixture.forward(states)
            self.memories.append(memories)
            self.write(memories)
        states = self.run_layers(x[-1])  # no step of the block attends to the last memory
        self.memories.append(self.mixture.mix(states))
        return torch.stack([*outputs, states[-1]])

    def restart(self, rows: Tensor) -> None:
        """Start a new stream in these rows; rows [B] is True there."""
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
        """Continue row order[i] of the batch as row i."""
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


class SteppedBlock(Block):
    """A block whose steps are taken one by one, and which is differentiated afterwards."""

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
            memories = self.mixture.forward(self.states)
            self.memories.append(memories)
            self.write(memories)
            self.states = []

    def restart(self, rows: Tensor) -> None:
        self.write_last()
        super().restart(rows)

    def forward(self, x: Tensor) -> Tensor:
        """The outputs of the steps [T, B, C]; x [T, B, C] are their inputs."""
        assert self.states and len(x) == len(self.outputs), "these are not the steps that were taken"
        self.memories.append(self.mixture.mix(self.states))
        return torch.stack(self.outputs)


def in_type(part: Part, dtype: torch.dtype, outer: torch.dtype) -> Part:
    """The part, computing in this type; what is around it is of the outer one."""
    return part if dtype is outer else Cast(part, dtype, outer)


def key_and_value(layer: FeedbackLayer) -> Projection:
    """The key matrix, scaled, and below it the value matrix [2 * H * D, C], and their biases.

    With pre-norm, the scale and shift of the LayerNorm before them are multiplied into them. What is left of it is the
    same for all layers: autograd divides the gradients among the parameters.
    """
    scale, projections = layer.config.head_dim**-0.5, layer.self_attn
    key, value = projections.k_proj, projections.v_proj
    weight = torch.cat([key.weight * scale, value.weight])
    bias = None if key.bias is None else torch.cat([key.bias * scale, value.bias])
    if layer.config.pre_norm:
        norm = layer.self_attn_layer_norm
        shift = torch.mv(weight, norm.bias)
        weight, bias = weight * norm.weight, shift if bias is None else bias + shift
    return Projection(weight, bias)


def joined(projections: list[Projection], dtype: torch.dtype) -> Projection:
    """Several projections as one, their outputs side by side."""
    weights, biases = zip(*projections)
    return Projection(torch.cat(weights).to(dtype), None if biases[0] is None else torch.cat(biases).to(dtype))


class MemoryWriter:
    """Makes one more key and value of each source of a memory, by one product.

    N sources.

    Args:
        projection: from a memory to the keys and values of all sources [N * 2 * H * D, C]
        norm: a LayerNorm without parameters, or None
        sources: where keys and values go
        record: save what the backward pass needs
        outer: the type of the memories
        steps: of how many steps gradients have room side by side
    """

    def __init__(
        self,
        projection: Projection,
        norm: nn.LayerNorm | None,
        sources: Sequence[GrowingSource | SlidingSource],
        record: bool,
        outer: torch.dtype,
        steps: int,
    ):
        self.norm = LayerNorm(norm, record) if norm else Part()
        self.linear = Linear(projection, record)
        self.project = in_type(self.linear, projection.weight.dtype, outer)
        self.sources, self.record = sources, record
        self.normalise = norm or nn.Identity()
        self.last, self.grad_slots = steps - 1, Slots(steps)
        self.past: Tensor  # memories of earlier blocks after the LayerNorm [B, n, C]

    def split(self, y: Tensor) -> Tensor:
        """[B, N * 2 * H * D] -> a view [N, 2, B, H, D]"""
        return y.view(len(y), len(self.sources), 2, self.sources[0].heads, -1).permute(1, 2, 0, 3, 4)

    @torch.no_grad()
    def fill(self, memories: Tensor) -> None:
        """Fill the sources with the last memories of earlier blocks [B, n, C]."""
        self.past = self.normalise(memories).to(self.linear.weight.dtype)
        for source, (weight, bias) in zip(self.sources, self.projections()):
            assert isinstance(source, SlidingSource), "only a stream has earlier blocks"
            source.fill(torch.mm(self.past[:, -source.span :].flatten(0, 1), weight.t()), bias)
        if not self.record:
            del self.past

    def projections(self) -> list[tuple[Tensor, Tensor | None]]:
        """The weight and bias of each source."""
        weights = self.linear.weight.chunk(len(self.sources))
        bias = self.linear.bias
        return list(zip(weights, [None] * len(weights) if bias is None else bias.chunk(len(weights))))

    def restart(self, rows: Tensor) -> None:
        """Fill the sources with memories of zeros in these rows [R]."""
        zeros = self.linear.weight.new_zeros(1, self.linear.weight.size(1))  # a LayerNorm leaves them as they are
        for source, pair in zip(self.sources, self.split(F.linear(zeros, self.linear.weight, self.linear.bias))):
            assert isinstance(source, SlidingSource), "only a stream has earlier blocks"
            source.refill(rows, *pair[:, 0])

    def forward(self, memory: Tensor) -> None:
        """memory [B, C]"""
        pairs = self.split(self.project.forward(self.norm.forward(memory)))
        for source, pair in zip(self.sources, pairs.unbind()):
            source.append(*pair.unbind())

    def backward(self) -> Tensor:
        """Gradient of the last memory that the backward pass has not reached yet [B, C]."""
        grads = [grad for source in self.sources for grad in source.pop_kv_grads()]
        parts = [grad.view(-1, self.sources[0].heads, grad.size(-1)) for grad in grads]
        slot = self.grad_slots.slot(self.last - len(self.linear.output_grads), parts[0], len(self.linear.weight))
        torch.stack(parts, dim=1, out=slot.view(-1, len(parts), *parts[0].shape[1:]))
        return self.norm.backward(self.project.backward(slot))

    def gradients(self) -> Gradients:
        yield from self.project.gradients()
        streams = [source for source in self.sources if isinstance(source, SlidingSource)]
        if not streams:
            return
        weight, bias = [], []
        for source in streams:
            past = self.past[:, -source.span :].flatten(0, 1)
            for grad in source.fill_grads():
                weight.append(torch.mm(grad.t(), past))
                bias.append(grad.sum(0))
        if self.linear.weight.requires_grad:
            yield self.linear.weight, torch.cat(weight)
        if self.linear.bias is not None and self.linear.bias.requires_grad:
            yield self.linear.bias, torch.cat(bias)


class Mixture:
    """The memories of each step (equation 1, see `memory.mix`), and the gradient of their coefficients."""

    def __init__(self, mixing: Tensor, like: Tensor, record: bool):
        self.mixing, self.record = mixing, record
        self.coefficients = mixing.detach().to(like)
        self.count = len(mixing)
        self.states: list[list[Tensor]] = []
        self.output_grads: list[list[Tensor]] = []

    def forward(self, states: list[Tensor]) -> list[Tensor]:
        """x^0 .. x^L, each [B, C] -> G memories [B, C]"""
        if self.record:
            self.states.append(states)
        return self.mix(states)

    def mix(self, states: list[Tensor]) -> list[Tensor]:
        """As `forward`, for a memory to which no step of the block attends."""
        return mix(self.coefficients, states)

    def backward(self, d_memories: list[Tensor]) -> list[Tensor]:
        """Gradients of G memories [B, C] -> what reaches x^0 .. x^L through them, each [B, C]"""
        self.output_grads.append(d_memories)
        return list(mix_backward_outputs(d_memories, self.coefficients).unbind())

    def gradients(self) -> Gradients:
        if not self.mixing.requires_grad:
            return
        if not self.output_grads:  # a block of one step; data-parallel training needs a gradient all the same
            yield self.mixing, torch.zeros_like(self.mixing)
            return
        states = [torch.cat(steps) for steps in zip(*self.states)]
        d_memories = [torch.cat(steps) for steps in zip(*self.output_grads[::-1])]
        yield self.mixing, mix_backward_mixing(d_memories, states).to(self.mixing)


class RecordedBlock(torch.autograd.Function):
    """A block as one node of the graph of autograd. The arguments after x are all other tensors that get gradients."""

    @staticmethod
    def forward(ctx, block, x, *tensors):
        ctx.block, ctx.tensors = block, tensors
        return block.forward(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, d_top):
        block, ctx.block = ctx.block, None  # frees what the block has saved
        if block is None:
            raise RuntimeError("the feedback recurrence was differentiated a second time; its activations are gone")
        dx, gradients = block.backward(d_top)
        if not gradients.keys() <= {id(tensor) for tensor in ctx.tensors}:
            raise RuntimeError(
                "the layers' parameters are not those of the module, as with torch.nn.DataParallel or --ddp-backend"
                " fully_sharded; take DistributedDataParallel, or the engine reference"
            )
        return None, dx, *(gradients.get(id(tensor)) for tensor in ctx.tensors)
