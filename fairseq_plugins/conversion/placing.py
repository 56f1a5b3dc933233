"""The places of a model's symbols in a dictionary of fairseq's, which begins with four symbols of its own.

Three of these may be in the vocabulary, under the names in OWN; their rows go there. All other symbols follow in the
order of the model. Rows that the model lacks are zeros, and have the bias NEVER at the output: their probabilities are
exactly zero, so the others do not change. A bias of -inf would give the same, but fairseq takes it for a training
that has diverged.

With an adaptive softmax, fairseq's symbols belong to the first cluster.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_plugins.conversion.sources import END_OF_LINE, UNKNOWN, Converted
from fairseq_plugins.errors import UserError
from fairseq_plugins.text.levels import safe

SPECIALS = 4  # <s>, <pad>, </s> and <unk>, in this order
OWN = {"<s>": 0, END_OF_LINE: 2, UNKNOWN: 3}
NEVER = -10000.0  # exp(NEVER) is 0 in float64, and float16 holds the number

# Parameters with a row for each symbol, or for each of the first cluster, and the value of a missing row
ROWS = {
    "embed.weight": 0.0,
    "embed.tables.0": 0.0,
    "output.weight": 0.0,
    "output.bias": NEVER,
    "embed.0.weight": 0.0,  # of factorised embeddings
    "output.1.weight": 0.0,
    "output.1.bias": NEVER,
    "output.tables.0": 0.0,
    "output.biases.0": NEVER,
}
CUTOFFS = ("adaptive_input_cutoff", "adaptive_softmax_cutoff")


class Places(NamedTuple):
    """
    Attributes:
        symbols: of the dictionary, without fairseq's own
        rows: where each symbol of the model is in the dictionary [V]
    """

    symbols: list[str]
    rows: Tensor


def places(symbols: list[str]) -> Places:
    """Where these symbols, in the order of a model, are in a dictionary."""
    others = [symbol for symbol in symbols if symbol not in OWN]
    following = iter(range(SPECIALS, SPECIALS + len(others)))
    rows = [OWN[symbol] if symbol in OWN else next(following) for symbol in symbols]
    return Places([safe(symbol) for symbol in others], torch.tensor(rows))


def placed(converted: Converted, symbols: list[str]) -> Converted:
    """The model with its rows in the order of the dictionary. Raises UserError if a symbol that fairseq has at the
    beginning is in a later cluster of the model."""
    cutoffs = {name: converted.options[name] for name in CUTOFFS if name in converted.options}
    for first, *_ in cutoffs.values():
        if late := [symbol for symbol in symbols[first:] if symbol in OWN]:
            raise UserError(
                f"the vocabulary has {late[0]} behind its {first} most frequent symbols, but fairseq has it among the"
                " first, so this model cannot be converted."
            )

    def size(count: int) -> int:
        """The number of symbols of the dictionary in place of the first ``count`` of the model."""
        return SPECIALS + sum(symbol not in OWN for symbol in symbols[:count])

    rows, state = places(symbols).rows, dict(converted.state)
    for name in ROWS.keys() & state.keys():
        table = state[name]  # [V, ...]
        state[name] = table.new_full((size(len(table)), *table.shape[1:]), ROWS[name])
        state[name][rows[: len(table)]] = table
    moved = {name: [size(end) for end in ends] for name, ends in cutoffs.items()}
    return converted._replace(options={**converted.options, **moved}, state=state)
