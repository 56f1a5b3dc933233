"""Adaptive input and softmax: `adaptive_io_*`."""

from fixture import check_gradients, config_of, load, tensors

from fairseq_plugins.modules.common.adaptive_io import AdaptiveInput, AdaptiveSoftmax


def build(vocabulary: int, cutoffs: list[int], dim: int, factor: float, tied: bool):
    embed = AdaptiveInput(vocabulary, cutoffs, dim, factor)
    softmax = AdaptiveSoftmax(vocabulary, cutoffs, dim, factor, embed if tied else None)
    return embed.double(), softmax.double()


def parameters_by_name(embed: AdaptiveInput, softmax: AdaptiveSoftmax, input: str) -> dict:
    """Ours by the fixtures' names; `input` is what they call the embeddings."""
    named = {"output.cluster_logits.weight": softmax.cluster_weight, "output.cluster_logits.bias": softmax.cluster_bias}
    for i in range(len(embed.clusters)):
        named[f"{input}.cluster{i}.weight"] = embed.tables[i]
        named[f"{input}.cluster{i}.proj"] = embed.projections[i]
        named[f"output.cluster{i}.bias"] = softmax.biases[i]
        if softmax.tables is not embed.tables:
            named[f"output.cluster{i}.weight"] = softmax.tables[i]
            named[f"output.cluster{i}.proj"] = softmax.projections[i]
    return named


def check(case, assert_close) -> None:
    config = config_of(case)
    embed, softmax = build(config["vocab"], config["cutoffs"], config["hidden"], config["div_val"], config["tied"])
    named = parameters_by_name(embed, softmax, "input")
    load(case, named)
    tokens, targets, hidden, cotangent = tensors(case, "tokens", "targets", "hidden", "embed_cotangent")
    hidden.requires_grad_()
    embedded, nll = embed(tokens), softmax.nll(hidden, targets)
    assert_close("embedded", embedded, case["embedded"])
    assert_close("nll", nll, case["nll"])
    assert_close("logprobs", softmax.log_probs(hidden), case["logprobs"])
    (nll.sum() + (embedded * cotangent).sum()).backward()
    assert_close("gradient of hidden", hidden.grad, case["grad_hidden"], gradient=True)
    check_gradients(case, named, assert_close)
