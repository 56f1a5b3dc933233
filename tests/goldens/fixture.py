"""What the checks of all families share: reading a file, a model's parameters by the file's names, its gradients.

A check takes the file as numpy loads it, and assert_close(name, ours, expected, gradient=False), which holds the
tolerances.
"""

import json

import torch


def config_of(case) -> dict:
    """Sizes and flags of the case."""
    return json.loads(str(case["config"]))


def tensors(case, *names: str) -> list[torch.Tensor]:
    return [torch.tensor(case[name]) for name in names]


def by_their_names(parameters, names: dict[str, str]) -> dict:
    """Parameters (pairs of a name and a tensor) by the files' names; `names`: a part of our names -> of theirs."""
    named = {}
    for name, parameter in parameters:
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        named[name] = parameter
    return named


def load(case, named: dict) -> None:
    """The file's parameters into ours, every one of them."""
    assert {key.removeprefix("param/") for key in case.files if key.startswith("param/")} == named.keys()
    for name, parameter in named.items():
        (value,) = tensors(case, f"param/{name}")
        assert value.shape == parameter.shape, name
        parameter.data.copy_(value)


def forget_gradients(named: dict) -> None:
    for parameter in named.values():
        parameter.grad = None


def check_gradients(case, named: dict, assert_close, block="") -> None:
    for name, parameter in named.items():
        assert_close(f"gradient of {name}", parameter.grad, case[f"{block}grad/{name}"], gradient=True)


def check_spans(case, config: dict, spans, assert_close) -> None:
    """Adaptive spans, one a layer."""
    for layer, span in enumerate(spans):
        assert_close("span_mask", span.mask(), case["span_mask"][layer])
        assert_close("span_loss", span.loss(config["span_loss_coeff"]), case["span_loss"][layer])
        assert span.trim_length() == case["trim_len"][layer]
