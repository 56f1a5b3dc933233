"""All-attention and the Transformer with adaptive span: `allattn*`, `ffn_span*`."""

import json

import adaptive_io
import torch
from torch import nn

from fairseq_plugins.modules.adaptive_io import log_softmax
from fairseq_plugins.modules.span_attention import SpanConfig
from fairseq_plugins.modules.span_stack import TRANSFORMER, SpanStack, integration

NAMES = {  # of a fixture's parameters of a layer -> of ours
    "attn.query": "attention.q_proj",
    "attn.key": "attention.k_proj",
    "attn.value": "attention.v_proj",
    "attn.out": "attention.out_proj",
    "persistent_key": "attention.persistent.key",
    "persistent_value": "attention.persistent.value",
    "span_ratio": "attention.span.span_ratio",
    "norm_attn": "attention_norm",
    "norm_ffn": "sublayer_norm",
    "ffn.fc1": "sublayer.fc1",
    "ffn.fc2": "sublayer.fc2",
}


class Model(nn.Module):
    """Embeddings, layers and output, with parameters by the fixture's names."""

    def __init__(self, config: dict):
        super().__init__()
        spans = {"ramp": config["ramp"]} if config["adaptive_span"] else {}
        sizes = SpanConfig(
            embed_dim=config["hidden"],
            heads=config["heads"],
            head_dim=config["head_dim"],
            span=config["attn_span"],
            ffn_dim=config["ffn_hidden"],
            persistent=config["persistent"],
            **spans,
        )
        design = TRANSFORMER if config["ffn_hidden"] else integration("all-attn", config["persistent"])
        self.stack = SpanStack(sizes, config["layers"], design)
        if config["adaptive_io"]:
            words = config["vocab"], config["cutoffs"], config["hidden"], config["div_val"], config["tied"]
            self.embed, self.output = adaptive_io.build(*words)
        else:
            self.embed = nn.Embedding(config["vocab"], config["hidden"])
            self.output = nn.Linear(config["hidden"], config["vocab"])

    def parameters_by_name(self) -> dict:
        named = {"pos_key": self.stack.position.weight}
        if isinstance(self.output, nn.Linear):
            named["embed.weight"] = self.embed.weight
            named.update({f"output.{name}": parameter for name, parameter in self.output.named_parameters()})
        else:
            named.update(adaptive_io.parameters_by_name(self.embed, self.output, "embed"))
        for number, layer in enumerate(self.stack.layers):
            named.update({f"layer{number}.{theirs(name)}": parameter for name, parameter in layer.named_parameters()})
        return named

    def log_probs(self, y):
        return log_softmax(self.output(y)) if isinstance(self.output, nn.Linear) else self.output.log_probs(y)


def theirs(name: str) -> str:
    """attention.q_proj.weight -> attn.query.weight"""
    for fixture, ours in NAMES.items():
        if name == ours or name.startswith(ours + "."):
            return fixture + name[len(ours) :]
    return name


def check(case, assert_close) -> None:
    config = json.loads(str(case["config"]))
    model = Model(config).double()
    named = model.parameters_by_name()
    adaptive_io.load(case, named)
    if config["adaptive_span"]:
        check_spans(case, config, model.stack.layers, assert_close)
    layers = range(config["layers"])
    caches = [torch.tensor(case[f"block0/layer{layer}/cache_in"]) for layer in layers]
    for number in range(config["blocks"]):
        block = f"block{number}"
        for parameter in named.values():
            parameter.grad = None
        caches = check_block(case, block, model, caches, assert_close)
        for layer in layers:
            kept = compare_size(case[f"{block}/layer{layer}/cache_out"], caches[layer], config)
            assert_close("cache", caches[layer][:, -kept:], case[f"{block}/layer{layer}/cache_out"][:, -kept:])
        for name, parameter in named.items():
            assert_close(f"gradient of {name}", parameter.grad, case[f"{block}/grad/{name}"], gradient=True)


def compare_size(expected, ours, config) -> int:
    """How many steps both caches hold: all of them, unless the fixture's stay long when spans are short."""
    assert ours.size(1) == expected.shape[1] or not config["span_cache"]
    return min(ours.size(1), expected.shape[1])


def check_spans(case, config, layers, assert_close) -> None:
    for number, attention in enumerate(layer.attention for layer in layers):
        assert_close("span mask", attention.span.mask(), case["span_mask"][number])
        assert_close("span loss", attention.span.loss(config["span_loss_coeff"]), case["span_loss"][number])
        assert attention.span.trim_length() == case["trim_len"][number]
        assert attention.kept(attention.width()) == case["cache_size"][number] or not config["span_cache"]


def check_block(case, block, model, caches, assert_close) -> list:
    """Compare everything that a block computes; its caches."""
    tokens, targets = (torch.tensor(case[f"{block}/{name}"]) for name in ("tokens", "targets"))
    seen = {}
    hooks = []
    for number, layer in enumerate(model.stack.layers):
        for name, module in ((f"layer{number}/attn_sublayer_out", layer.attention), (f"layer{number}/out", layer)):
            hooks.append(module.register_forward_hook(keep(seen, name)))
    y, caches = model.stack(model.embed(tokens), caches)
    for hook in hooks:
        hook.remove()
    log_probs = model.log_probs(y)
    if isinstance(model.output, nn.Linear):
        nll = -log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    else:
        nll = model.output.nll(y, targets)
        assert_close("nll", nll, case[f"{block}/nll"])
    nll.sum().backward()
    seen |= {"logprobs": log_probs, "nll_sum": nll.sum()}
    for name, value in seen.items():
        assert_close(name, value, case[f"{block}/{name}"])
    return caches


def keep(seen: dict, name: str):
    def hook(module, inputs, output):
        seen[name] = output[0] if isinstance(output, tuple) else output

    return hook
