"""Tensors of the steps of a block become one tensor, without a copy where they lie side by side."""

import torch

from fairseq_plugins.modules.feedback.engine.backward import Part, ReluLinear, Slots, joined


def test_slots_lie_side_by_side():
    slots, like = Slots(3), torch.zeros(2, 5)
    steps = [slots.slot(step, like, 4).fill_(step) for step in range(3)]
    whole = joined(steps)
    assert torch.equal(whole, torch.cat(steps)) and whole.shape == (6, 4)
    assert whole.data_ptr() == steps[0].data_ptr()
    assert torch.equal(joined(steps[1:]), torch.cat(steps[1:]))


def test_single_rows_that_are_parts_of_a_wider_row_lie_side_by_side():
    wide = torch.arange(24.0).view(1, 24)
    steps = list(wide.split(4, dim=1))  # [1, 4] each, with the stride of 24
    assert torch.equal(joined(steps[1:4]), wide[:, 4:16].view(3, 4))


def test_other_tensors_are_copied():
    slots, like = Slots(3), torch.zeros(2, 4)
    steps = [slots.slot(step, like, 4).fill_(step) for step in range(3)]
    columns = torch.arange(24.0).view(2, 12)
    for mixed in (steps[::-1], [steps[0], steps[2]], [steps[0], steps[1] + 1], list(columns.split(4, dim=1))):
        whole = joined(mixed)
        assert torch.equal(whole, torch.cat(mixed))
        assert whole.data_ptr() != mixed[0].data_ptr()


def test_gradients_of_a_relu_layer_are_those_of_all_steps_at_once():
    torch.manual_seed(1)
    linear, steps = torch.nn.Linear(4, 6), 3
    part = ReluLinear(linear, Part(), True, steps)
    xs = [torch.randn(2, 4) for _ in range(steps)]
    with torch.no_grad():
        for y in reversed([part.forward(x) for x in xs]):
            part.backward(torch.ones_like(y))
        gradients = {id(tensor): gradient for tensor, gradient in part.gradients()}
    assert joined(part.output_grads[::-1]).data_ptr() == part.output_grads[-1].data_ptr()
    torch.relu(linear(torch.cat(xs))).sum().backward()
    for parameter in linear.parameters():
        torch.testing.assert_close(gradients[id(parameter)], parameter.grad)
