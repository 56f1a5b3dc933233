"""Translation at the sizes of WMT14 (Fan et al., 2020, Table 8): training and beam search."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import timing
import translation_speed

from gpu_cells import speed
from gpu_cells.cell import MINUTE, Cell, Row, Setting

AIMS = {2: {"aim": 0.75, "the paper": 0.45}}  # by decoder layers
DECODING_AIMS = {2: {"aim": 1.7, "the paper": 1.7}}


class Models:
    """Models of translation_speed.py: 6 encoder layers, so many decoder layers."""

    def __init__(self, depth: int, setting: Setting):
        self.depth = depth
        sizes = dict(embed_dim=1024, ffn_dim=4096, heads=16, vocabulary=32000, max_tokens=3584)
        if setting.smoke:
            sizes = dict(embed_dim=16, ffn_dim=32, heads=2, vocabulary=20, max_tokens=96)
        self.args = Namespace(**sizes, encoder_layers=6, device=setting.device, dtype=speed.DTYPE)

    def build(self, job, name: str, *arguments):
        if name == "transformer":
            return job(self.args, "transformer", self.depth, *arguments)
        return job(self.args, "feedback", self.depth, *arguments, feedback_engine=name)

    def generation(self, batch: int, name: str):
        return self.build(translation_speed.Generation, name, batch, 1)


def beside_fairseqs(setting: Setting, build: Callable[[str], timing.Job]) -> Row:
    """Memory and speed of every engine and of fairseq's Transformer, by what builds a job of a name."""
    transformer = partial(build, "transformer")
    others = {name: partial(build, name) for name in setting.engines}
    row = speed.memory(setting, {"fairseq's": transformer, **others})
    return row | speed.against(setting, ("fairseq's", transformer), others)


@dataclass(frozen=True)
class Training(Cell):
    """Forward, backward and Adam step on sentences of three lengths: every engine beside fairseq's Transformer."""

    depth: int
    limit = 5 * MINUTE

    def measure(self, setting: Setting) -> Row:
        build = partial(Models(self.depth, setting).build, translation_speed.Training)
        return beside_fairseqs(setting, build) | AIMS.get(self.depth, {})


@dataclass(frozen=True)
class Decoding(Cell):
    """fairseq's beam search, beam 5, to a fixed length: every engine beside fairseq's Transformer."""

    depth: int
    batch: int
    limit = 4 * MINUTE

    def measure(self, setting: Setting) -> Row:
        models, batch = Models(self.depth, setting), min(self.batch, 2) if setting.smoke else self.batch

        build = partial(models.generation, batch)
        return beside_fairseqs(setting, build) | DECODING_AIMS.get(self.depth, {})


CELLS: dict[str, Cell] = {
    **{f"speed-translation-6+{depth}": Training(depth) for depth in (2, 6)},
    **{
        f"decoding-translation-6+{depth}-batch{batch}": Decoding(depth, batch)
        for depth in (2, 6)
        for batch in (1, 32, 128)
    },
}
