"""Active memory's operators: `activemem_uni_*` and `activemem_bi_*`."""

import torch
from fixture import config_of, tensors

from fairseq_plugins.modules.active_memory import mixers
from fairseq_plugins.modules.active_memory.mixers import MixerConfig

ACTIVATIONS = {"linear": "linear", "relu": "relu", "gelu_tanh": "gelu_accurate"}  # theirs -> ours
# what the file calls an operator -> ours, and of each of its convolutions what the file calls the outputs
OPERATORS = {
    "convolution": ("convolution", {"convolution": ["conv"]}),
    "persistent": ("persistent-convolution", {"convolution": ["conv"]}),
    "highway": ("highway-convolution", {"value_and_gate": ["highway_value", "highway_gate"]}),
    "cgru": ("cgru", {"gates": ["update", "reset"], "candidate": ["candidate"]}),
}


def check(case, assert_close) -> None:
    for name in (key.removeprefix("out/") for key in case.files if key.startswith("out/")):
        x, cotangent = tensors(case, "x", "cotangent")
        x.requires_grad_()
        if name == "hard_sigmoid_of_x4":
            y, named = mixers.hard_sigmoid(4 * x), {}
        else:
            operator, named = build(case, name)
            y = operator(x)
        assert_close(name, y, case[f"out/{name}"])
        (y * cotangent).sum().backward()
        gradients = {"x": x.grad, **gradients_of(named)}
        for key in (key for key in case.files if key.startswith(f"grad/{name}/")):
            assert_close(key, gradients.pop(key.removeprefix(f"grad/{name}/")), case[key], gradient=True)
        assert not gradients


def build(case, name: str):
    """An operator with the file's parameters, and its parameters as the file has them: (ours, names of its parts)."""
    kind, _, activation = name.partition("_")
    ours, convolutions = OPERATORS[kind]
    sizes = config_of(case)
    config = MixerConfig(
        sizes["channels"], sizes["kernel"], heads=1, causal=sizes["unidirectional"],
        activation=ACTIVATIONS.get(activation, "relu"),
    )  # fmt: skip
    (operator,) = mixers.build_mixers(ours, config, layers=1)
    operator.double()
    named = {}
    for part, theirs in convolutions.items():
        convolution = getattr(operator, part)
        for field in ("weight", "bias"):
            named[tuple(f"{output}.{field}" for output in theirs)] = getattr(convolution, field)
    if kind == "persistent":
        for side, vectors in zip(("left", "right"), convolution.ends.vectors(None)):
            if len(vectors):
                named[(f"persistent_{side}",)] = vectors
    for names, parameter in named.items():
        values = tensors(case, *(f"param/{part}" for part in names))
        parameter.data.copy_(torch.cat([as_ours(value) for value in values]))
    return operator, named


def as_ours(value: torch.Tensor) -> torch.Tensor:
    """Weights of a convolution [K, C in, C out] -> [C out, K, C in], anything else as it is."""
    return value.permute(2, 0, 1) if value.dim() == 3 else value


def gradients_of(named: dict) -> dict:
    """Gradients by the file's names and in its shapes."""
    gradients = {}
    for names, parameter in named.items():
        for name, part in zip(names, parameter.grad.chunk(len(names)), strict=True):
            gradients[name] = part.permute(1, 2, 0) if part.dim() == 3 else part
    return gradients
