"""Language models at the papers' sizes (Fan et al., 2020, Table 9): training and decoding."""

from argparse import Namespace
from dataclasses import dataclass, field
from functools import partial

import lm_speed

from fairseq_plugins.modules.feedback.engine.loop import STREAM_CAPACITY
from gpu_cells import speed
from gpu_cells.cell import MINUTE, Cell, Row, Setting

FEED_FORWARD, HEAD, KEYS = "decoder_ffn_embed_dim", "decoder_head_dim", "feedback_kv"


@dataclass(frozen=True)
class Sizes:
    """A language model and its data; the words' matrix is a full one in all models, so that they differ in layers
    only."""

    layers: int
    width: int
    ffn: int
    head_dim: int
    span: int
    block: int
    vocabulary: int
    kv: str


SMALLEST = Sizes(layers=2, width=16, ffn=32, head_dim=8, span=8, block=4, vocabulary=20, kv="shared")
WIKITEXT = Sizes(layers=8, width=1024, ffn=4096, head_dim=128, span=512, block=256, vocabulary=10000, kv="shared")
ENWIK8 = Sizes(layers=12, width=512, ffn=4096, head_dim=128, span=512, block=128, vocabulary=205, kv="per-layer")
ENWIK8_SHORT = Sizes(layers=12, width=512, ffn=4096, head_dim=128, span=128, block=128, vocabulary=205, kv="per-layer")
HEADS = 8


class Models:
    """Models of lm_speed.py in one size, for any batch."""

    def __init__(self, sizes: Sizes, batch: int, setting: Setting):
        if setting.smoke:
            sizes, batch = SMALLEST, min(batch, 2)
        self.sizes, self.batch = sizes, batch
        self.args = Namespace(
            layers=sizes.layers,
            width=sizes.width,
            heads=2 if setting.smoke else HEADS,
            block=sizes.block,
            span=sizes.span,
            batch=batch,
            vocabulary=sizes.vocabulary,
            dropout=0.1,
            device=setting.device,
            dtype=speed.DTYPE,
        )
        self.steps = 2 if setting.smoke else STREAM_CAPACITY  # of decoding: all that have a graph in the third call

    def options(self, name: str) -> dict:
        """Of the Transformer, or of Feedback with one of its engines."""
        same = {FEED_FORWARD: self.sizes.ffn, HEAD: self.sizes.head_dim}
        return same if name == "transformer" else {**same, KEYS: self.sizes.kv, "feedback_engine": name}

    def model(self, name: str) -> str:
        return "transformer" if name == "transformer" else "feedback"

    def training(self, name: str, **more):
        return lm_speed.Training(self.args, self.model(name), **self.options(name), **more)

    def fairseqs(self):
        return lm_speed.FairseqTraining(self.args, self.sizes.block, self.sizes.ffn)

    def decoding(self, name: str, kind=lm_speed.Generation):
        return kind(self.args, self.model(name), self.batch, self.steps, **self.options(name))


@dataclass(frozen=True)
class Training(Cell):
    """Forward, backward and Adam step over a full memory: every engine and fairseq's model beside our Transformer."""

    sizes: Sizes
    batch: int
    paper: dict[str, float] = field(default_factory=dict)
    limit = 5 * MINUTE

    def measure(self, setting: Setting) -> Row:
        models = Models(self.sizes, self.batch, setting)
        others = {name: partial(models.training, name) for name in setting.engines}
        others["fairseq's"] = models.fairseqs
        transformer = partial(models.training, "transformer")
        row = speed.memory(setting, {"transformer": transformer, **others})
        return row | speed.against(setting, ("transformer", transformer), others) | {"aim": 0.30} | self.paper


@dataclass(frozen=True)
class Decoding(Cell):
    """Steps of decoding: every engine beside the Transformer that caches keys and values, and beside the one that
    caches hidden states, as the paper's code."""

    sizes: Sizes
    batch: int
    limit = 4 * MINUTE

    def measure(self, setting: Setting) -> Row:
        models = Models(self.sizes, self.batch, setting)
        others = {name: partial(models.decoding, name) for name in setting.engines}
        kinds = {"keys and values": lm_speed.Generation, "hidden states": lm_speed.HiddenStates}
        baselines = {name: partial(models.decoding, "transformer", kind) for name, kind in kinds.items()}
        row = speed.memory(setting, {**baselines, **others})
        for baseline in baselines.items():
            row |= speed.against(setting, baseline, others)
        return row | {"aim beside hidden states": 3.7, "the paper": 3.7}


TABLE5 = {"the paper": 0.285}  # on WikiText-103

CELLS: dict[str, Cell] = {
    "speed-wikitext103-batch16": Training(WIKITEXT, 16, TABLE5),
    "speed-wikitext103-batch64": Training(WIKITEXT, 64, TABLE5),
    "speed-enwik8-batch128": Training(ENWIK8, 128),
    "speed-enwik8-span128-batch128": Training(ENWIK8_SHORT, 128),
    **{f"decoding-wikitext103-batch{batch}": Decoding(WIKITEXT, batch) for batch in (1, 32, 128)},
}
