"""Adaptive input and softmax: their options, and their parameters as adaptive-span and the Skip-Retain code save them.

C width, i cluster, V_i its size, E_i = C / factor^i its width.
"""

from typing import Any

from torch import Tensor

from fairseq_plugins.conversion.weights import Weights
from fairseq_plugins.errors import UserError

# Names of each cluster there and here
INPUT = {"in_emb.emb_layers.{}.weight": "embed.tables.{}", "in_emb.emb_projs.{}": "embed.projections.{}"}
OUTPUT = {"out_emb.out_layers.{}.weight": "output.tables.{}", "out_emb.out_projs.{}": "output.projections.{}"}
# As here, the last row is that of the second cluster
CLUSTERS = {"out_emb.cluster_proj.weight": "output.cluster_weight", "out_emb.cluster_proj.bias": "output.cluster_bias"}


def adaptive_options(cutoffs: list[int], factor: int) -> dict[str, Any]:
    """The options of adaptive input and softmax.

    Args:
        cutoffs: where clusters end, without the last
        factor: each cluster is this many times narrower than the one before
    """
    parts = ("adaptive_input", "adaptive_softmax")
    sizes = [{f"{part}_cutoff": cutoffs, f"{part}_factor": factor} for part in parts]
    return {"adaptive_input": True} | sizes[0] | sizes[1]


def take_adaptive_io(weights: Weights) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The options, and the parameters by their names in a decoder. Raises UserError if copies of a tied parameter
    differ, or the widths of clusters have no common factor."""
    # there are two clusters at least
    clusters = range(max(weights.count("in_emb.emb_layers."), 2))
    # Input and output share all, which is then saved twice, or nothing
    pairs = [(one.format(i), two.format(i)) for one, two in zip(INPUT, OUTPUT, strict=True) for i in clusters]
    tied = any(map(weights.same, pairs))
    if tied:
        for pair in pairs:
            weights.check_same(*pair)
    names = {theirs.format(i): ours.format(i) for theirs, ours in (INPUT | OUTPUT).items() for i in clusters}
    state = weights.take_all(names, dim=2)
    state |= weights.take_all({f"out_emb.out_layers.{i}.bias": f"output.biases.{i}" for i in clusters} | CLUSTERS)
    tables = [state[f"embed.tables.{i}"] for i in clusters]
    cutoffs = [sum(map(len, tables[:i])) for i in clusters[1:]]
    options = adaptive_options(cutoffs, width_factor([table.size(1) for table in tables]))
    return options | (dict.fromkeys(("tie_adaptive_weights", "tie_adaptive_proj"), True) if tied else {}), state


def width_factor(widths: list[int]) -> int:
    """How many times narrower each cluster is than the one before."""
    for factor in range(1, widths[0] + 1):
        if widths == [widths[0] // factor**i for i in range(len(widths))]:
            return factor
    raise UserError(f"the clusters of the checkpoint have widths {widths}, which no common factor makes; check --from.")
