"""Transformer-XL, cross-head attention and Skip-Retain: `txl_*`, `sch_*`, `crosshead_*`, `skip_retain_memory*`."""

import re

import pytest
import torch
from fixture import by_their_names, check_gradients, config_of, forget_gradients, load, tensors
from torch import nn

from fairseq_plugins.modules.common.adaptive_io import AdaptiveInput, AdaptiveSoftmax, log_softmax
from fairseq_plugins.modules.transformer_xl import ages
from fairseq_plugins.modules.transformer_xl.attention import Biases, XLAttention, XLConfig
from fairseq_plugins.modules.transformer_xl.position import SinusoidalPosition
from fairseq_plugins.modules.transformer_xl.skip_retain import SCHEDULES
from fairseq_plugins.modules.transformer_xl.stack import LayerMemory, XLLayer, XLStack

NAMES = {  # a part of our names -> of theirs
    "layers.": "layer",
    "attention.q_proj": "attn.query",
    "attention.k_proj": "attn.key",
    "attention.v_proj": "attn.value",
    "attention.position_proj": "attn.position",
    "attention.out_proj": "attn.out",
    "attention_norm": "norm_attn",
    "sublayer_norm": "norm_ffn",
    "sublayer.": "ffn.",
}
NAMES_UNTIED = NAMES | {
    f"biases.{i}.{kind}": f"layer{i}.{kind}_bias" for i in (0, 1) for kind in ("content", "position")
}
NAMES |= {f"biases.0.{kind}": f"{kind}_bias" for kind in ("content", "position")}
SCHEMES = {"pairwise": "pairwise", "last_token": "last-token"}


def stack(config: dict, **options) -> XLStack:
    sizes = XLConfig(
        embed_dim=config["hidden"],
        heads=config["heads"],
        head_dim=config["head_dim"],
        ffn_dim=config["ffn_hidden"],
        mem_len=config["mem_len"],
        clamp_len=config["clamp_len"],
        same_length=config["same_length"],
        **options,
    )
    return XLStack(sizes, config["layers"]).double()


def check_outcome(case, segment, log_probs, nll, named, assert_close) -> None:
    """Probabilities, their loss and its gradients."""
    assert_close("logprobs", log_probs, case[f"{segment}/logprobs"])
    assert_close("nll_sum", nll.sum(), case[f"{segment}/nll_sum"])
    forget_gradients(named)
    nll.sum().backward()
    for parameter in named.values():
        if parameter.grad is None:  # of a skipped layer; the files have zeros
            parameter.grad = torch.zeros_like(parameter)
    check_gradients(case, named, assert_close, f"{segment}/")


def spy(seen: dict, number: int, layer: XLLayer) -> list:
    """Note what a layer is given, what its attention gives, and what it gives itself; the hooks that do so."""
    return [
        layer.register_forward_hook(
            lambda _, inputs, output: seen.update({f"input{number}": inputs[0], f"out{number}": output})
        ),
        layer.attention.register_forward_hook(lambda _, inputs, output: seen.update({f"attention{number}": output})),
    ]


# Transformer-XL


class Clusters:
    """A file with one table for all clusters of words, read as if each had its own; projections as they are."""

    def __init__(self, case, bounds: list[int]):
        self.case, self.bounds = case, bounds
        self.files = [name for key in case.files for name in self.names(key)]

    def names(self, key: str) -> list[str]:
        if not (place := re.fullmatch(r"(.*\.cluster)0(\.(?:weight|bias))", key)):
            return [key]
        return [f"{place[1]}{i}{place[2]}" for i in range(len(self.bounds) - 1)]

    def __getitem__(self, key: str):
        if not (place := re.fullmatch(r"(.*\.cluster)(\d)(\.(?:weight|bias))", key)):
            return self.case[key]
        return self.case[f"{place[1]}0{place[3]}"][slice(*self.bounds[int(place[2]) :][:2])]


def check(case, assert_close) -> None:
    config = config_of(case)
    model = stack(config, pre_norm=config["pre_norm"], untie_biases=config["untied_biases"])
    embed, softmax = words(config)
    if config["cutoffs"] and config["div_val"] == 1:
        case = Clusters(case, embed.clusters.bounds)
    names = NAMES_UNTIED if config["untied_biases"] else NAMES
    named = by_their_names(model.named_parameters(), names) | words_by_name(embed, softmax)
    load(case, named)
    memory = None
    for number in range(config["segments"]):
        segment = f"segment{number}"
        tokens, targets = tensors(case, f"{segment}/tokens", f"{segment}/targets")
        hidden, memory = check_layers(case, segment, model, embed(tokens), memory, assert_close)
        nll = softmax.nll(hidden, targets)
        assert_close("nll", nll, case[f"{segment}/nll"])
        check_outcome(case, segment, softmax.log_probs(hidden), nll, named, assert_close)


def words(config: dict) -> tuple[AdaptiveInput, AdaptiveSoftmax]:
    sizes = config["vocab"], config["cutoffs"], config["hidden"], config["div_val"]
    embed = AdaptiveInput(*sizes, embed_dim=config["embed_dim"])
    head, *tails = config["tie_projs"] or [False]
    softmax = AdaptiveSoftmax(
        *sizes,
        tied_to=embed if config["tie_weight"] else None,
        tie_projections=head or any(tails),
        tie_head=head,
        embed_dim=config["embed_dim"],
    )
    return embed.double(), softmax.double()


def words_by_name(embed: AdaptiveInput, softmax: AdaptiveSoftmax) -> dict:
    """Parameters by the files' names, shared ones under the first."""
    pairs = []
    for kind, module in (("embed", embed), ("output", softmax)):
        pairs += [(f"{kind}.cluster{i}.weight", table) for i, table in enumerate(module.tables)]
        pairs += [(f"{kind}.cluster{i}.proj", projection) for i, projection in enumerate(module.projections)]
    pairs += [(f"output.cluster{i}.bias", bias) for i, bias in enumerate(softmax.biases)]
    if len(embed.clusters) > 1:
        pairs += [("output.cluster_logits.weight", softmax.cluster_weight)]
        pairs += [("output.cluster_logits.bias", softmax.cluster_bias)]
    named: dict = {}
    for name, parameter in pairs:
        if all(parameter is not other for other in named.values()):
            named[name] = parameter
    return named


def check_layers(case, segment, model, x, memory, assert_close) -> tuple:
    """What the top gives, and the memory."""
    seen: dict = {}
    hooks = [hook for i, layer in enumerate(model.layers) for hook in spy(seen, i, layer)]
    hidden, memory = model(x, memory)
    for hook in hooks:
        hook.remove()
    assert_close("hidden_final", hidden, case[f"{segment}/hidden_final"])
    for i, (layer, remembered) in enumerate(zip(model.layers, memory.layers, strict=True)):
        residual = seen[f"input{i}"] + seen[f"attention{i}"]
        attention = residual if layer.pre_norm else layer.attention_norm(residual)
        assert_close("attn_sublayer_out", attention, case[f"{segment}/layer{i}/attn_sublayer_out"])
        assert_close("mem_out", remembered.inputs, case[f"{segment}/mem_out{i}"])
    return hidden, memory


# Skip Cross-Head Transformer-XL


def check_skip_cross_head(case, assert_close) -> None:
    config = config_of(case)
    if config.get("memory_position_counter") not in (None, "true lag"):
        pytest.skip(
            "the public code's block counter: its lag never shrinks again; ours is the true one, as the paper's"
        )
    model = stack(config, position_scheme=SCHEMES[config["position_term"]], initial_memory="zeros")
    embed = nn.Embedding(config["vocab"], config["hidden"]).double()
    output = nn.Linear(config["hidden"], config["vocab"]).double()
    words = [("embed.weight", embed.weight), ("output.weight", output.weight), ("output.bias", output.bias)]
    named = by_their_names(model.named_parameters(), NAMES) | dict(words)
    load(case, named)
    memory = None
    for number in range(config["segments"]):
        segment = f"segment{number}"
        if config["cross_head"]:
            cross_heads(model, case["perm"][number])
        if config["skip_retain"]:
            model.skip.skipped = case["skipped"][number].tolist
        tokens, targets = tensors(case, f"{segment}/tokens", f"{segment}/targets")
        for i, layer in enumerate(model.memories_before(memory, embed(tokens))):
            assert_close("mem_in", layer.inputs, case[f"{segment}/mem_in{i}"])
        seen: dict = {}
        hooks = [hook for i, layer in enumerate(model.layers) for hook in spy(seen, i, layer)]
        hidden, memory = model(embed(tokens), memory)
        for hook in hooks:
            hook.remove()
        for i in range(config["layers"]):
            assert (f"out{i}" in seen) == (f"{segment}/layer{i}/out" in case.files)
            if f"out{i}" in seen:
                assert_close("attn_sublayer_out", seen[f"attention{i}"], case[f"{segment}/layer{i}/attn_sublayer_out"])
                assert_close("out", seen[f"out{i}"], case[f"{segment}/layer{i}/out"])
            assert_close("mem_out", memory.layers[i].inputs, case[f"{segment}/mem_out{i}"])
        if config["skip_retain"]:
            lags = lags_in_blocks(memory.layers, config["block"])
            assert lags == case["mem_lag_blocks_after"][number].tolist()
        log_probs = log_softmax(output(hidden))
        nll = -log_probs.gather(-1, targets.unsqueeze(-1))
        check_outcome(case, segment, log_probs, nll, named, assert_close)


def cross_heads(model: XLStack, permutations) -> None:
    """Have the layers draw these [L, H]."""
    for layer, permutation in zip(model.layers, torch.tensor(permutations)):
        layer.attention.cross_head.draw = lambda permutation=permutation: permutation


def lags_in_blocks(memories: list[LayerMemory], block: int) -> list[int]:
    return [(memory.ages[-1].newest - 1) // block + 1 for memory in memories]


# Cross-head attention, one sublayer


def check_cross_head(case, assert_close) -> None:
    """Of the variants, those that permute positions with keys and values, as ours does (kvr), and none (identity)."""
    config = config_of(case)
    sizes = {name: config[name] for name in ("heads", "head_dim", "mem_len")}
    config_xl = XLConfig(embed_dim=config["hidden"], ffn_dim=1, **sizes)
    attention, biases = XLAttention(config_xl).double(), Biases(config_xl).double()
    load(case, by_their_names(attention.named_parameters(prefix="attention"), NAMES))
    biases.content.data, biases.position.data, x, memory, perm = tensors(
        case, "content_bias", "position_bias", "x", "mem", "perm"
    )
    seen = ages.just_before(config["mem_len"] + config["block"])
    seen = ages.after(seen, -config["block"])
    weights: dict = {}
    for theirs, scheme in SCHEMES.items():
        position = SinusoidalPosition(config["hidden"], scheme, clamp=-1, limit=None, dropout=0.0)
        for variant, permutation in (("identity", None), ("kvr", perm)):
            attention.cross_head.draw = lambda permutation=permutation: permutation
            weights.clear()
            hook = attention.dropout.register_forward_hook(lambda _, inputs, output: weights.update(prob=output))
            y = attention(x, memory, position(seen, x), position, biases)
            hook.remove()
            assert_close("out", y, case[f"{theirs}/{variant}/out"])
            if permutation is not None:
                prob = weights["prob"].unflatten(0, (config["heads"], -1))[permutation].transpose(0, 1)
                assert_close("prob", prob, case[f"{theirs}/{variant}/prob"])


# Skip-Retain: memories and schedules

EQUATIONS = {"eq1": "linear", "eq2": "uniform", "eq3": "not-first", "eq4": "not-last", "eq5": "inner"}


def check_skip_retain(case, assert_close) -> None:
    config = config_of(case)
    inputs, start = tensors(case, "layer_inputs", "mem_initial")
    memories = [LayerMemory(memory, ages.just_before(config["mem_len"])) for memory in start]
    for number, skipped in enumerate(case["skipped"]):
        assert lags_in_blocks(memories, config["block"]) == case["mem_lag_blocks"][number].tolist()
        memories = [
            memory.retained(config["block"]) if skip else memory.after(x, config["mem_len"])
            for memory, x, skip in zip(memories, inputs[number], skipped, strict=True)
        ]
        assert_close("mem_after", torch.stack([memory.inputs for memory in memories]), case["mem_after"][number])
    for key in case.files:
        if key.startswith("skip_probability/"):
            _, equation, layers, *p = key.split("/")
            ours = SCHEDULES[EQUATIONS[equation]](int(layers[1:]), *(float(text[1:]) for text in p or ["p0"]))
            assert_close(key, torch.tensor(ours, dtype=torch.float64), case[key])
