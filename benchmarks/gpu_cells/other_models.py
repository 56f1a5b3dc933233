"""Training of all-attention, active memory, Transformer-XL's methods, and of Feedback in chunks, each beside its
baseline, at papers' sizes."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import active_memory_speed
import lm_speed
import skip_cross_head_speed

from fairseq_plugins.modules.active_memory.mixers import ATTENTION, MIXERS
from gpu_cells import language, speed
from gpu_cells.cell import MINUTE, Cell, Row, Setting

UPDATES = 8  # of Transformer-XL in a run: phase 1 skips other layers in each

Builds = dict[str, speed.Build]


@dataclass(frozen=True)
class Training(Cell):
    """Forward, backward and Adam step: the first of the jobs is the baseline of the others."""

    builds: Callable[[Setting], Builds]
    limit = 5 * MINUTE

    def measure(self, setting: Setting) -> Row:
        builds = self.builds(setting)
        baseline, *others = builds.items()
        return speed.memory(setting, builds) | speed.against(setting, baseline, dict(others))


def all_attention(batch: int, setting: Setting) -> Builds:
    """The Transformer has as many feed-forward units as there are persistent vectors, so that parameters are equal."""
    sizes = dict(layers=18, width=512, heads=8, block=512, span=1024, batch=batch, vocabulary=205)
    if setting.smoke:
        sizes = dict(layers=2, width=16, heads=2, block=4, span=8, batch=2, vocabulary=20)
    args = Namespace(**sizes, dropout=0.1, device=setting.device, dtype=speed.DTYPE)
    vectors = 2 * args.width
    return {
        "transformer": partial(lm_speed.Training, args, "transformer", decoder_ffn_embed_dim=vectors),
        "all-attention": partial(lm_speed.Training, args, "all-attention", persistent_vectors=vectors),
    }


def active_memory(length: int, setting: Setting) -> Builds:
    """Every operator of active memory beside self-attention."""
    sizes = dict(layers=8, width=256, ffn=1024, heads=8, head_dim=64, kernel=20, tokens=32768, vocabulary=10000)
    if setting.smoke:
        sizes = dict(layers=1, width=16, ffn=32, heads=2, head_dim=8, kernel=3, tokens=16, vocabulary=20)
    args = Namespace(**sizes, device=setting.device, dtype=speed.DTYPE)
    mixers = [ATTENTION, *(mixer for mixer in MIXERS if ATTENTION not in mixer)]
    return {mixer: partial(active_memory_speed.Training, args, mixer, min(length, args.tokens)) for mixer in mixers}


def transformer_xl(setting: Setting) -> Builds:
    """The methods of Vishnu and Sekhar (2023) beside plain Transformer-XL."""
    sizes = dict(layers=8, width=512, heads=8, block=512, batch=50, vocabulary=205)
    if setting.smoke:
        sizes = dict(layers=2, width=16, heads=2, block=4, batch=2, vocabulary=20)
    args = Namespace(**sizes, dropout=0.1, updates=UPDATES, device=setting.device, dtype=speed.DTYPE)
    options = {"plain": {}, **{name: given for name, (given, _) in skip_cross_head_speed.CONFIGURATIONS.items()}}
    return {name: partial(skip_cross_head_speed.Training, args, given) for name, given in options.items()}


def chunks(setting: Setting) -> Builds:
    """Feedback of WikiText-103 in chunks of c tokens with K passes, beside exact training."""
    models = language.Models(language.WIKITEXT, 64, setting)
    tried = [(2, 1)] if setting.smoke else [(16, 3), (16, 2), (8, 2), (4, 2)]
    options = {f"c = {c}, K = {k}": {"feedback_chunk": c, "feedback_passes": k} for c, k in tried}
    return {name: partial(models.training, "fast", **more) for name, more in {"exact": {}, **options}.items()}


CELLS: dict[str, Cell] = {
    **{f"speed-all-attention-batch{batch}": Training(partial(all_attention, batch)) for batch in (16, 64)},
    **{f"speed-active-memory-length{length}": Training(partial(active_memory, length)) for length in (64, 1024)},
    "speed-transformer-xl": Training(transformer_xl),
    "speed-chunks": Training(chunks),
}
