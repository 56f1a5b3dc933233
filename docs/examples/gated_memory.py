"""A gated feedback memory: m_t = sum over l of softmax(w + U x_t^0)_l x_t^l. B batch, C width, L layers."""

from functools import partial

import torch
from torch import Tensor, nn

from fairseq_plugins.modules import FeedbackLayerConfig, FeedbackStream, MemoryWindow
from fairseq_plugins.modules.feedback.engine.memory_writer import Mixture
from fairseq_plugins.modules.feedback.engine.recurrence import EagerRecurrence
from fairseq_plugins.modules.feedback.memory import WeightedMemory


class GatedMemory(WeightedMemory):
    """The parameters, and the equation. `mixing` returns the coefficients without the gate, those of equation (1)."""

    def __init__(self, num_layers: int, width: int):
        super().__init__(num_layers)
        self.gate = nn.Parameter(torch.zeros(num_layers + 1, width))  # U

    def mix(self, states: list[Tensor]) -> Tensor:
        """x^0 .. x^L, each [B, C] -> the memory [B, C]"""
        weights = (self.layer_logits + states[0] @ self.gate.t()).softmax(-1)  # [B, L + 1]
        return torch.einsum("bl,lbc->bc", weights, torch.stack(states))


class GatedMixture(Mixture):
    """The memories of all steps; autograd differentiates a step at a time, the last one first."""

    def __init__(self, memory: GatedMemory, record: bool):
        self.memory, self.record, self.states = memory, record, []
        self.parameters = list(memory.parameters())
        self.grads = [torch.zeros_like(parameter) for parameter in self.parameters]

    def mix(self, states):
        return [self.memory.mix(states)]

    def backward(self, d_memories):
        with torch.enable_grad():
            states = [x.detach().requires_grad_() for x in self.states.pop()]
            grads = torch.autograd.grad(self.mix(states), [*states, *self.parameters], d_memories)
        for total, grad in zip(self.grads, grads[len(states) :]):
            total += grad
        return list(grads[: len(states)])

    def gradients(self):
        return zip(self.parameters, self.grads)


class GatedRecurrence(EagerRecurrence):
    def __init__(self, memory: GatedMemory, *args):
        super().__init__(*args)
        self.memory = memory

    def new_mixture(self, like, record):
        return GatedMixture(self.memory, record)

    def tensors(self):
        return [*super().tensors(), *self.memory.parameters()]


def gate(body: FeedbackStream) -> FeedbackStream:
    """Give a body a gated memory."""
    stack = body.stack
    stack.memory = GatedMemory(len(stack.layers), stack.layers[0].config.embed_dim)
    stack.engine = partial(GatedRecurrence, stack.memory)
    return body


def check() -> None:
    """Step by step has the outputs of all at once, and the gradient is that of finite differences."""
    window = MemoryWindow(span=4, num_layers=2, heads=2, head_dim=2)
    body = gate(FeedbackStream(FeedbackLayerConfig(embed_dim=4, ffn_dim=6, heads=2), 2, window)).double()
    weights = torch.nn.init.normal_(body.stack.memory.gate)
    x = torch.randn(2, 5, 4, dtype=torch.double)

    whole, _ = body(x)
    state = body.start(None, x[:, 0])
    steps = torch.stack([body.step(state, x_t) for x_t in x.unbind(1)], dim=1)
    assert torch.allclose(steps, whole)

    (gradient,) = torch.autograd.grad(whole.square().sum(), weights)
    change = 1e-4 * torch.randn_like(weights)
    with torch.no_grad():
        weights += change
        above = body(x)[0].square().sum()
        weights -= 2 * change
        below = body(x)[0].square().sum()
    assert torch.allclose((above - below) / 2, (gradient * change).sum())


if __name__ == "__main__":
    check()
