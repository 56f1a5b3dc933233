"""Parameters that an update does not use stay as they are, or momentum moves them, however fairseq's optimisers store
them."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from fairseq.optim.fp16_optimizer import FP16Optimizer
from torch.nn import Parameter

import fairseq_plugins  # noqa: F401  (patches fairseq on a CPU)
from fairseq_plugins.optim.skipped_parameters import STEPS


def adam(parameters):
    config = FairseqAdamConfig(adam_betas="(0.9, 0.98)", weight_decay=0.1, use_old_adam=True)
    config.lr, config.tpu = [0.1], False
    return FairseqAdam(config, parameters)


def half(masters):
    """fairseq's optimiser for half precision, which it builds for a GPU only."""

    def make(parameters):
        held = masters(parameters)
        optimizer = FP16Optimizer.__new__(FP16Optimizer)
        optimizer.fp16_params, optimizer.fp32_params = parameters, held
        optimizer.fp32_optimizer = adam(list(held.values()) if isinstance(held, dict) else held)
        optimizer.scaler, optimizer._needs_sync, optimizer._multiply_factor = None, False, 1.0
        return optimizer

    return make


def one_by_one(parameters):
    return FP16Optimizer.build_fp32_params(SimpleNamespace(), parameters, flatten=False)


def in_one_tensor(parameters):
    flat = Parameter(torch.cat([parameter.detach().float().flatten() for parameter in parameters]))
    flat.grad = torch.zeros_like(flat)
    return {None: flat}  # the index of a CPU


OPTIMIZERS = {
    "float32": (adam, torch.float32),
    "half, one by one": (half(one_by_one), torch.bfloat16),
    "half, in one tensor": (half(in_one_tensor), torch.bfloat16),
}


def update(optimizer, parameters, skipped=(), how="frozen", missing=lambda parameter: parameter.grad.zero_()):
    """``missing`` makes the gradient of a skipped parameter."""
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    for parameter in skipped:
        missing(parameter)
    optimizer._needs_sync = True
    optimizer.clip_grad_norm(0)
    with STEPS[how](optimizer, skipped):
        optimizer.step()
    optimizer.zero_grad()


def everything(optimizer, number, size=4):
    """The copy of a parameter in an optimiser, and its moments."""
    masters = getattr(optimizer, "fp32_params", None)
    state = list(optimizer.optimizer.state.items())
    if isinstance(masters, dict):
        ((flat, moments),) = state
        return [kept[number * size : (number + 1) * size] for kept in (flat, moments["exp_avg"], moments["exp_avg_sq"])]
    parameter, moments = state[number]
    return [parameter, moments["exp_avg"], moments["exp_avg_sq"]]


def copies(tensors):
    return [tensor.detach().clone() for tensor in tensors]


@pytest.mark.parametrize("make, dtype", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_an_update_changes_nothing_of_a_frozen_parameter(make, dtype):
    parameters = [Parameter(torch.arange(1.0, 5).to(dtype)) for _ in range(2)]
    optimizer = make(parameters)
    update(optimizer, parameters)  # so that there is a momentum
    before = [copies([parameter, *everything(optimizer, i)]) for i, parameter in enumerate(parameters)]
    update(optimizer, parameters, skipped=parameters[1:])
    moved, unchanged = [copies([parameter, *everything(optimizer, i)]) for i, parameter in enumerate(parameters)]
    assert not any(torch.equal(ours, old) for ours, old in zip(moved, before[0], strict=True))
    assert all(torch.equal(ours, old) for ours, old in zip(unchanged, before[1], strict=True))
    update(optimizer, parameters)
    assert not torch.equal(parameters[1], unchanged[0])


def no_gradient(parameter):
    parameter.grad = None


@pytest.mark.parametrize("make, dtype", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_momentum_moves_a_parameter_without_a_gradient_as_one_whose_gradient_is_zero(make, dtype):
    results = []
    for missing in (no_gradient, lambda parameter: parameter.grad.zero_()):
        parameters = [Parameter(torch.arange(1.0, 5).to(dtype)) for _ in range(2)]
        optimizer = make(parameters)
        update(optimizer, parameters)  # so that there is a momentum
        before = parameters[1].detach().clone()
        update(optimizer, parameters, skipped=parameters[1:], how="moved", missing=missing)
        assert not torch.equal(parameters[1], before)
        results.append(copies([*parameters, *everything(optimizer, 1)]))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
