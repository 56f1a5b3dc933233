"""The first update of every published architecture: in the precision of its recipe, at full size, nothing overflows."""

import torch
from architectures import PUBLISHED, form, small
from first_update import first_update, precision_of

from gpu_cells.cell import MINUTE, Cell, Row, Setting

WORDS = {"clusters": 267744, "tied": 32768, "plain": 32768}  # as WikiText-103; as many as other corpora have, or more
LENGTH = 128


class FirstUpdates(Cell):
    """The first loss of each, in nats, two sequences at a time. Losses and gradients have to be finite."""

    limit = 8 * MINUTE

    def measure(self, setting: Setting) -> Row:
        row: Row = {}
        for arch in PUBLISHED:
            row[f"{arch}, {precision_of(arch)}"] = loss(arch, setting)
            if setting.gpu:
                torch.cuda.empty_cache()
        if wrong := [value for value in row.values() if isinstance(value, str)]:
            raise ValueError("; ".join(wrong))
        return row


def loss(arch: str, setting: Setting) -> float | str:
    """The loss, or the fault."""
    sizes = {"words": WORDS[form(arch)], "length": LENGTH}
    if setting.smoke:
        sizes = {"words": 204, "length": 8, **small(arch)}
    try:
        return round(first_update(arch, precision_of(arch), setting.device, **sizes), 3)
    except ValueError as error:
        return str(error)


CELLS: dict[str, Cell] = {"correctness-first-updates": FirstUpdates()}
