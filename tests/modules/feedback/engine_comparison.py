"""The fast engine of the Feedback Transformer held against the plain loop, every gradient included."""

import torch

from fairseq_plugins.modules.feedback.stack import ENGINES, FeedbackStack


def use_engine(module, name):
    for part in module.modules():
        if isinstance(part, FeedbackStack):
            part.engine = ENGINES[name]


def outputs_and_gradients(module, engine, run, leaves) -> dict:
    """What run(**leaves) returns, a dictionary with "output", and the gradients of leaves and parameters by name."""
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
    fast, reference = (outputs_and_gradients(module, engine, run, leaves) for engine in ("fast", "reference"))
    for name, expected in reference.items():
        got = fast[name]
        if expected is None or got is None:  # a parameter that nothing depends on
            assert (0 if got is None else got.abs().max()) == (0 if expected is None else expected.abs().max()), name
            continue
        error = (got - expected).abs().max() / max(1, expected.abs().max())
        assert error < tolerance, f"{name} differs by {error:.1e}"
