"""The Feedback language model's fixtures: `feedback_*`.

Pre-norm files carry normalised memories from block to block, which the paper does not describe. So every block starts
from the file's cache, and what is compared is the raw memories that it adds.
"""

import json

import torch
from torch.nn import functional as F

from fairseq_plugins.modules.feedback_layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback_stream import FeedbackStream
from fairseq_plugins.modules.feedback_window import MemoryWindow

NAMES = {  # of a fixture's parameters -> of ours
    "final_norm": "norm",
    "mix_logits": "stack.memory.layer_logits",
    "pos_key": "stack.window.position.weight",
    "attn.query": "self_attn.q_proj",
    "attn.key": "self_attn.k_proj",
    "attn.value": "self_attn.v_proj",
    "attn.out": "self_attn.out_proj",
    "norm_attn": "self_attn_layer_norm",
    "norm_ffn": "final_layer_norm",
    "ffn.fc1": "fc1",
    "ffn.fc2": "fc2",
}


def ours(name: str) -> str:
    """layer0.attn.query.weight -> stack.layers.0.self_attn.q_proj.weight"""
    layer, _, rest = name.partition(".") if name.startswith("layer") else ("", "", name)
    if rest == "span_ratio":
        return f"stack.window.spans.{layer[5:]}.span_ratio"
    for theirs, replacement in NAMES.items():
        if rest == theirs or rest.startswith(theirs + "."):
            rest = replacement + rest[len(theirs) :]
    return f"stack.layers.{layer[5:]}.{rest}" if layer else rest


def build(config: dict) -> FeedbackStream:
    layer = FeedbackLayerConfig(
        embed_dim=config["hidden"],
        ffn_dim=config["ffn_hidden"],
        heads=config["heads"],
        head_dim=config["head_dim"],
        attention_bias=False,
        pre_norm=config["pre_norm"],
    )
    adaptive = {"ramp": config["ramp"], "trim_step": config["trim_step"] or 64} if config["adaptive_span"] else {}
    window = MemoryWindow(config["attn_span"], config["layers"], config["heads"], config["head_dim"], **adaptive)
    kv = "shared" if config["share_kv"] else "per-layer"
    return FeedbackStream(layer, config["layers"], window, kv=kv).double()


def check(case, assert_close) -> None:
    """case: the file; assert_close(name, ours, expected, gradient=False) holds the tolerances."""
    config = json.loads(str(case["config"]))
    stream = build(config)
    outer = {name: torch.tensor(case[f"param/{name}"]).requires_grad_() for name in OUTER}
    parameters = dict(stream.named_parameters())
    names = {ours(name): name for name in given(case) if name not in OUTER}
    assert names.keys() == parameters.keys()
    for own, name in names.items():
        parameters[own].data.copy_(torch.tensor(case[f"param/{name}"]))
    if config["adaptive_span"]:
        spans = stream.stack.window.spans
        for layer, span in enumerate(spans):
            assert_close("span_mask", span.mask(), case["span_mask"][layer])
            assert_close("span_loss", span.loss(config["span_loss_coeff"]), case["span_loss"][layer])
        if config["trim_step"]:
            assert [span.trim_length() for span in spans] == case["trim_len"].tolist()
    for block in range(config["blocks"]):
        check_block(
            case, f"block{block}", stream, outer, {name: parameters[own] for own, name in names.items()}, assert_close
        )


OUTER = ("embed.weight", "output.weight", "output.bias")


def given(case) -> list[str]:
    return [key.removeprefix("param/") for key in case.files if key.startswith("param/")]


def check_block(case, block, stream, outer, inner, assert_close) -> None:
    tokens, targets = (torch.tensor(case[f"{block}/{name}"]) for name in ("tokens", "targets"))
    cache = torch.tensor(case[f"{block}/cache_in"]).transpose(0, 1)
    leaves = {**outer, **inner}
    for leaf in leaves.values():
        leaf.grad = None
    y, (after,) = stream(F.embedding(tokens, outer["embed.weight"]), [cache])
    log_probabilities = F.linear(y, outer["output.weight"], outer["output.bias"]).log_softmax(-1)
    loss = F.nll_loss(log_probabilities.flatten(0, 1), targets.flatten(), reduction="sum")
    loss.backward()
    assert_close("logprobs", log_probabilities, case[f"{block}/logprobs"])
    assert_close("nll_sum", loss, case[f"{block}/nll_sum"])
    new = case[f"{block}/memory_new"]
    kept = min(len(new), after.size(1))
    assert_close("memory_new", after[:, after.size(1) - kept :].transpose(0, 1), new[len(new) - kept :])
    for name, leaf in leaves.items():
        assert_close(f"gradient of {name}", leaf.grad, case[f"{block}/grad/{name}"], gradient=True)
