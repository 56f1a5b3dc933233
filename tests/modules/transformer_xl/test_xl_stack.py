"""Transformer-XL's layers over a stream: memories from block to block, decoding, skipped layers."""

import pytest
import torch

from fairseq_plugins.modules.transformer_xl import ages
from fairseq_plugins.modules.transformer_xl.attention import XLConfig
from fairseq_plugins.modules.transformer_xl.stack import XLMemory, XLStack

B, C, L = 2, 8, 3
MEMORY = 6


def make(**options):
    torch.manual_seed(1)
    config = XLConfig(**{"embed_dim": C, "heads": 2, "ffn_dim": 12, "mem_len": MEMORY, **options})
    stack = XLStack(config, L).double()
    for biases in stack.biases:
        for parameter in biases.parameters():
            parameter.data.normal_()
    return stack


def stream(tokens=19):
    torch.manual_seed(2)
    return torch.randn(B, tokens, C, dtype=torch.float64)


def in_blocks(stack, x, *sizes):
    """Outputs of all blocks, and the memory after each."""
    memory, outputs, left = None, [], []
    for block in x.split(list(sizes), dim=1):
        y, memory = stack(block, memory)
        outputs.append(y)
        left.append(memory)
    return torch.cat(outputs, dim=1), left


def in_steps(stack, x):
    state = stack.start(None, x[:, 0])
    return torch.stack([stack.step(state, token) for token in x.unbind(1)], dim=1)


@pytest.mark.parametrize("options", [{}, {"pre_norm": True, "untie_biases": True}])
@torch.no_grad()
def test_one_long_segment_equals_two_as_long_as_the_memory_holds_the_first(options):
    stack, x = make(**options), stream(tokens=11)
    whole, _ = stack(x)
    assert torch.allclose(in_blocks(stack, x, MEMORY, 5)[0], whole, atol=1e-12)
    assert torch.allclose(in_steps(stack, x[:, : MEMORY + 1]), whole[:, : MEMORY + 1], atol=1e-12)


@torch.no_grad()
def test_without_same_length_a_step_sees_the_memory_and_itself():
    stack, x = make(), stream()
    assert torch.allclose(in_steps(stack, x), in_blocks(stack, x, *[1] * 19)[0], atol=1e-12)


@torch.no_grad()
def test_with_a_normalised_residual_the_memory_alone_is_not_normalised():
    stack, x = make(pre_norm=True, normalised_residual=True), stream()
    (first, _, _), position = stack.layers, stack.position
    _, memory = stack(x[:, :4])
    assert torch.equal(memory.layers[0].inputs, x[:, :4])
    block = first.attention_norm(x[:, 4:9])
    layout = position(ages.followed_by(ages.just_before(4), ages.of_block(5)), block)
    y = first.sublayer_norm(block + first.attention(block, x[:, :4], layout, position, stack.biases[0]))
    stack.layers = stack.layers[:1]
    assert torch.allclose(stack(x[:, 4:9], XLMemory(memory.layers[:1]))[0], y + first.sublayer(y), atol=1e-12)
    assert torch.allclose(in_steps(stack, x[:, :MEMORY]), stack(x[:, :MEMORY])[0], atol=1e-12)


@torch.no_grad()
def test_a_memory_of_nothing():
    stack, x = make(mem_len=0), stream()
    alone = torch.cat([stack(block)[0] for block in x.split(5, dim=1)], dim=1)
    blocks, left = in_blocks(stack, x, 5, 5, 5, 4)
    assert torch.equal(blocks, alone) and left[0].layers[0].inputs.size(1) == 0


@torch.no_grad()
def test_a_memory_may_be_longer_or_shorter_than_that_of_the_block_before():
    long, short, x = make(), make(mem_len=3), stream()
    _, memory = long(x[:, :9])
    assert torch.allclose(
        short(x[:, 9:], memory)[0], short(x[:, 9:], XLMemory([layer.last(3) for layer in memory.layers]))[0], atol=1e-12
    )


# Skip-Retain


def make_skipping(*updates, **options):
    """A stack that skips these layers, one update after the other."""
    stack = make(**options)
    stack.skip.skipped = lambda: [layer in updates[stack.skip.update] for layer in range(L)]
    return stack


def run_updates(stack, x, block):
    """The last output of one block an update, and the memory after each."""
    memory, left = None, []
    for update, part in enumerate(x.split(block, dim=1)):
        stack.skip.set_num_updates(update)
        y, memory = stack(part, memory)
        left.append(memory)
    return y, left


def test_a_skipped_layer_passes_its_input_on_keeps_its_memory_and_gets_no_gradient():
    stack, x = make_skipping((), (1,), untie_biases=True), stream(8)
    y, (before, after) = run_updates(stack, x, 4)
    shorter = make(untie_biases=True)
    del shorter.layers[1], shorter.biases[1], shorter.skip.probabilities[1]
    assert torch.allclose(y, shorter(x[:, 4:], XLMemory([before.layers[0], before.layers[2]]))[0], atol=1e-12)
    assert torch.equal(after.layers[1].inputs, before.layers[1].inputs)
    assert torch.equal(after.layers[0].inputs, x[:, 2:])
    y.sum().backward()
    frozen = {*stack.layers[1].parameters(), *stack.biases[1].parameters()}
    assert set(stack.skipped_parameters()) == frozen
    assert {parameter for parameter in stack.parameters() if parameter.grad is None} == frozen


def test_all_layers_may_be_skipped():
    stack, x = make_skipping((0, 1, 2)), stream(4).requires_grad_()
    y, _ = run_updates(stack, x, 4)
    y.sum().backward()
    assert torch.equal(y, x) and torch.equal(x.grad, torch.ones_like(x))
    reached = set()
    for node in nodes(y.grad_fn):
        reached.add(getattr(node, "variable", None))
    assert reached.issuperset(stack.parameters())  # as data-parallel training wants it


def nodes(node):
    """An output's history."""
    if node is not None:
        yield node
        for parent, _ in node.next_functions:
            yield from nodes(parent)


def test_an_unknown_initial_memory_is_refused():
    with pytest.raises(ValueError, match="initial memory 'ones' is not one of empty, zeros"):
        make(initial_memory="ones")
