"""The LSTM over a stream: blocks, steps and beams."""

import torch

from fairseq_plugins.modules.lstm import LSTMStack


def make():
    torch.manual_seed(1)
    return LSTMStack(8, 3).double().eval(), torch.randn(2, 11, 8, dtype=torch.float64)


def test_blocks_equal_the_whole():
    stack, x = make()
    whole, after = stack(x)
    blocks, memory = [], None
    for block in x.split([4, 1, 6], dim=1):
        y, memory = stack(block, memory)
        blocks.append(y)
    assert torch.allclose(torch.cat(blocks, dim=1), whole, atol=1e-12)
    assert [part.shape for part in memory] == [(2, 3, 8)] * 2
    assert all(torch.allclose(*pair, atol=1e-12) for pair in zip(memory, after, strict=True))


def test_steps_go_on_from_a_block_in_another_order():
    stack, x = make()
    order = torch.tensor([1, 0])
    _, memory = stack(x[:, :6])
    state = stack.start(memory, x[:, 6])
    state.reorder(order)
    steps = [stack.step(state, x[order, t]) for t in range(6, 11)]
    assert torch.allclose(torch.stack(steps, dim=1), stack(x)[0][order, 6:], atol=1e-12)
