"""All-attention and the Transformer with adaptive span: `allattn*`, `ffn_span*`."""

import adaptive_io
from fixture import by_their_names, check_gradients, check_spans, config_of, forget_gradients, load, tensors
from torch import nn

from fairseq_plugins.modules.common.adaptive_io import log_softmax
from fairseq_plugins.modules.span.attention import SpanConfig
from fairseq_plugins.modules.span.stack import TRANSFORMER, SpanMemory, SpanStack, integration

NAMES = {
    "stack.position.weight": "pos_key",
    "stack.layers.": "layer",
    "attention.q_proj": "attn.query",
    "attention.k_proj": "attn.key",
    "attention.v_proj": "attn.value",
    "attention.out_proj": "attn.out",
    "attention.persistent.": "persistent_",
    "attention.span.": "",
    "attention_norm": "norm_attn",
    "sublayer_norm": "norm_ffn",
    "sublayer.fc": "ffn.fc",
}


class Model(nn.Module):
    """Layers, embeddings and output."""

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
        """By the files' names."""
        if isinstance(self.output, nn.Linear):
            return by_their_names(self.named_parameters(), NAMES)
        layers = by_their_names(self.stack.named_parameters(prefix="stack"), NAMES)
        return layers | adaptive_io.parameters_by_name(self.embed, self.output, "embed")

    def log_probs(self, y):
        return log_softmax(self.output(y)) if isinstance(self.output, nn.Linear) else self.output.log_probs(y)

    def nll(self, y, targets):
        if isinstance(self.output, nn.Linear):
            return -self.log_probs(y).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        return self.output.nll(y, targets)


def check(case, assert_close) -> None:
    config = config_of(case)
    model = Model(config).double()
    named = model.parameters_by_name()
    load(case, named)
    attentions = [layer.attention for layer in model.stack.layers]
    if config["adaptive_span"]:
        check_spans(case, config, [attention.span for attention in attentions], assert_close)
        kept = [attention.memory_length(attention.width()) for attention in attentions]
        assert kept == case["cache_size"].tolist() or not config["span_cache"]
    memory = SpanMemory(tensors(case, *(f"block0/layer{layer}/cache_in" for layer in range(config["layers"]))))
    for number in range(config["blocks"]):
        forget_gradients(named)
        memory = check_block(case, f"block{number}/", model, memory, assert_close)
        check_memory(case, f"block{number}/", config, memory, assert_close)
        check_gradients(case, named, assert_close, f"block{number}/")


def check_block(case, block, model, memory, assert_close) -> SpanMemory:
    """Compare everything that a block computes; its memory."""
    tokens, targets = tensors(case, f"{block}tokens", f"{block}targets")
    seen, hooks = {}, []
    for number, layer in enumerate(model.stack.layers):
        for name, module in ((f"layer{number}/attn_sublayer_out", layer.attention), (f"layer{number}/out", layer)):
            hooks.append(module.register_forward_hook(keep(seen, name)))
    y, memory = model.stack(model.embed(tokens), memory)
    for hook in hooks:
        hook.remove()
    nll = model.nll(y, targets)
    nll.sum().backward()
    seen |= {"logprobs": model.log_probs(y), "nll": nll, "nll_sum": nll.sum()}
    if f"{block}nll" not in case.files:  # only with adaptive input and softmax
        del seen["nll"]
    for name, value in seen.items():
        assert_close(name, value, case[f"{block}{name}"])
    return memory


def keep(seen: dict, name: str):
    def hook(module, inputs, output):
        seen[name] = output[0] if isinstance(output, tuple) else output

    return hook


def check_memory(case, block, config, memory, assert_close) -> None:
    """As many steps as both hold: all of them, unless the file's caches stay long when spans are short."""
    for layer, cache in enumerate(memory.inputs):
        expected = case[f"{block}layer{layer}/cache_out"]
        assert cache.size(1) == expected.shape[1] or not config["span_cache"]
        both = min(cache.size(1), expected.shape[1])
        assert_close("cache", cache[:, -both:], expected[:, -both:])
