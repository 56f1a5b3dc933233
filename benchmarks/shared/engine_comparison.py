"""The fast engine of the Feedback Transformer held against the plain loop, every gradient included."""

import copy

import torch
from plain_recurrence import PlainRecurrence

from fairseq_plugins.modules.feedback import stack
from fairseq_plugins.modules.feedback.stack import FeedbackStack

ENGINES = {**stack.ENGINES, "plain": PlainRecurrence}


def use_engine(module, name):
    for part in module.modules():
        if isinstance(part, FeedbackStack):
            part.engine = ENGINES[name]


def outputs_and_gradients(module, engine, run, leaves) -> dict:
    """The dictionary that run(**leaves) returns, with "output", and the gradients of leaves and parameters by name."""
    use_engine(module, engine)
    module.zero_grad()
    leaves = {name: leaf.clone().requires_grad_() for name, leaf in leaves.items()}
    torch.manual_seed(2)  # dropout: both engines draw their masks in the same order
    outputs = run(**leaves)
    y = outputs["output"]
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(3), dtype=torch.double).to(y)
    (y * weights).sum().backward()
    return {**outputs, **{name: leaf.grad for name, leaf in (*leaves.items(), *module.named_parameters())}}


def assert_engines_agree(module, run, leaves, tolerance=1e-9):
    fast, plain = (outputs_and_gradients(module, engine, run, leaves) for engine in ("fast", "plain"))
    for name, expected in plain.items():
        got = fast[name]
        if expected is None or got is None:  # a parameter that nothing depends on
            assert (0 if got is None else got.abs().max()) == (0 if expected is None else expected.abs().max()), name
            continue
        error = (got - expected).abs().max() / max(1, expected.abs().max())
        assert error < tolerance, f"{name} differs by {error:.1e}"


def relative_error(got: dict, exact: dict) -> float:
    """The root mean square of the relative errors of outputs and gradients. Gradients
    that are zero but for rounding are left out."""
    exact = {name: tensor.double() for name, tensor in exact.items() if tensor is not None}
    largest = max(tensor.norm() for tensor in exact.values())
    errors = [(got[name] - x).norm() / x.norm() for name, x in exact.items() if x.norm() > 1e-6 * largest]
    return torch.stack(errors).square().mean().sqrt().item()


def assert_autocast_is_as_exact_as_the_plain_loop(module, run, leaves, dtype, factor=1.25):
    """The module, of float32, under autocast to this type: the fast engine's error is at most `factor` times that of
    the plain loop, for which torch chooses the types."""

    def autocast(**leaves):
        with torch.autocast("cpu", dtype=dtype):
            return run(module, **leaves)

    double = copy.deepcopy(module).double()
    leaves_in_double = {name: leaf.double() for name, leaf in leaves.items()}
    exact = outputs_and_gradients(double, "plain", lambda **leaves: run(double, **leaves), leaves_in_double)
    fast, plain = (outputs_and_gradients(module, engine, autocast, leaves) for engine in ("fast", "plain"))
    assert all(tensor is None or tensor.dtype is torch.float for tensor in fast.values())
    assert relative_error(plain, exact) > 1e-4, "nothing was rounded"
    assert relative_error(fast, exact) < factor * relative_error(plain, exact)
