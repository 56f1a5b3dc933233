"""Adaptive input and softmax as adaptive-span and the Skip-Retain code save them.

C width, i cluster, V_i its size, E_i = C / factor^i its width.
"""

from typing import Any

from torch import Tensor

from fairseq_plugins.conversion.weights import Weights
from fairseq_plugins.errors import UserError

# Names there and here, for each cluster
INPUT = {"in_emb.emb_layers.{}.weight": "embed.tables.{}", "in_emb.emb_projs.{}": "embed.projections.{}"}
OUTPUT = {"out_emb.out_layers.{}.weight": "output.tables.{}", "out_emb.out_projs.{}": "output.projections.{}"}
# What input and output share if they are tied. It is then saved twice
TIED = dict(zip(INPUT, OUTPUT, strict=True))


def take_adaptive_io(weights: Weights) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The options, and the parameters by their names in a decoder.

    Raises:
        UserError: copies of a tied parameter differ, or the widths of clusters have no common factor
    """
    clusters = weights.count(r"in_emb\.emb_layers\.(\d+)\.weight")
    if clusters < 2:
        weights.take("in_emb.emb_layers.1.weight")  # raises: adaptive input has two clusters at least
    pairs = [(one.format(i), two.format(i)) for one, two in TIED.items() for i in range(clusters)]
    tied = any(map(weights.same, pairs))
    if tied:
        shared = {pair: weights.take_same(pair, dim=2) for pair in pairs}
        taken = {name: tensor for pair, tensor in shared.items() for name in pair}
    else:
        taken = {name: weights.take(name, dim=2) for pair in pairs for name in pair}
    names = {theirs.format(i): ours.format(i) for theirs, ours in (INPUT | OUTPUT).items() for i in range(clusters)}
    state = {names[theirs]: tensor for theirs, tensor in taken.items()}
    for i in range(clusters):
        state[f"output.biases.{i}"] = weights.take(f"out_emb.out_layers.{i}.bias")
    # as here, the last row is that of the second cluster
    state["output.cluster_weight"] = weights.take("out_emb.cluster_proj.weight", dim=2)
    state["output.cluster_bias"] = weights.take("out_emb.cluster_proj.bias")
    tables = [state[f"embed.tables.{i}"] for i in range(clusters)]
    ends = [sum(map(len, tables[: i + 1])) for i in range(clusters - 1)]
    factor = width_factor([table.size(1) for table in tables])
    options: dict[str, Any] = {"adaptive_input": True}
    for part in ("adaptive_input", "adaptive_softmax"):
        options |= {f"{part}_cutoff": ends, f"{part}_factor": factor}
    if tied:
        options |= {"tie_adaptive_weights": True, "tie_adaptive_proj": True}
    return options, state


def width_factor(widths: list[int]) -> int:
    """How many times narrower each cluster is than the one before."""
    for factor in range(1, widths[0] + 1):
        if widths == [widths[0] // factor**i for i in range(len(widths))]:
            return factor
    raise UserError(f"the clusters of the checkpoint have widths {widths}, which no common factor makes; check --from.")
