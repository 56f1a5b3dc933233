"""Random walk at the paper's size (Fan et al., 2020, section 7.1), a part of the training in each cell."""

import json
from dataclasses import dataclass
from pathlib import Path

from fairseq_plugins.tools import label_accuracy
from gpu_cells.cell import MINUTE, Cell, Row, Setting
from gpu_cells.commands import call, fairseq_train, figures

UPDATES = 50000
# As recipes/feedback/table1_toy_tasks.sh has it with --precision fp16
PAPER = (
    "--task synthetic_stream --criterion label_cross_entropy --tokens-per-sample 64 --batch-size 512"
    " --batch-size-valid 32 --stream-offset random --optimizer adam --clip-norm 0.1 --lr 0.0001 --lr-scheduler fixed"
    f" --warmup-updates 1000 --max-update {UPDATES} --validate-interval 1000000 --save-interval 1000000"
    " --validate-interval-updates 1000 --save-interval-updates 1000 --keep-interval-updates 1 --no-epoch-checkpoints"
    " --kind random-walk --seed 1"
).split()
MODELS = {"feedback": "feedback_lm_toy", "transformer": "span_transformer_lm_twin_toy"}
SMALLEST = (  # after the others, which it replaces
    "--tokens-per-sample 16 --batch-size 4 --batch-size-valid 4 --validate-interval-updates 2 --save-interval-updates 2"
    " --train-episodes 20 --test-episodes 4 --train-length 10 --test-length 10 --decoder-layers 2"
    " --decoder-embed-dim 16 --decoder-ffn-embed-dim 32 --decoder-attention-heads 2 --log-interval 1"
).split()
THE_PAPER = {"feedback": 100.0, "transformer": 68.0}  # percent of labels, Table 1
PARTS = 20
PART = 3.5 * MINUTE  # of training, in a cell; starting and saving take the rest of its time


def folder(setting: Setting, model: str) -> Path:
    return setting.folder / f"random-walk-{model}"


@dataclass(frozen=True)
class Part(Cell):
    """The training goes on from its last checkpoint until it has taken so many parts' time in all, or is at its end.

    Attributes:
        model: of MODELS
        number: of parts, this one included
    """

    model: str
    number: int
    limit = 5 * MINUTE

    def measure(self, setting: Setting) -> Row:
        log = folder(setting, self.model) / "train.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        updates = 4 if setting.smoke else UPDATES
        if self.updates(log) < updates:
            self.train(setting, log, min(updates, 2 * self.number) if setting.smoke else updates)
        last = figures(log)[-1]
        return {"updates": self.updates(log), "loss": float(last["loss"]), "tokens/s": float(last["wps"])}

    def updates(self, log: Path) -> int:
        return max((int(told["num_updates"]) for told in figures(log)), default=0)

    def train(self, setting: Setting, log: Path, updates: int) -> None:
        fairseq_train(
            *PAPER, "--arch", MODELS[self.model], "--save-dir", log.parent, "--log-file", log,
            "--log-format", "json", "--log-interval", 100,
            "--stop-time-hours", self.number * PART / (60 * MINUTE), "--fp16" if setting.gpu else "--cpu",
            *SMALLEST * setting.smoke, "--max-update", updates,
        )  # fmt: skip


@dataclass(frozen=True)
class Accuracy(Cell):
    """Percent of labels that are right, in the test episodes, of the best checkpoint so far.

    Attributes:
        model: of MODELS
    """

    model: str
    limit = 3 * MINUTE

    def measure(self, setting: Setting) -> Row:
        result = folder(setting, self.model) / "test.json"
        checkpoint = folder(setting, self.model) / "checkpoint_best.pt"
        call(label_accuracy.main, checkpoint, "--json", result, *([] if setting.gpu else ["--cpu"]))
        found = json.loads(result.read_text())
        columns = ("accuracy", "sequence_accuracy")
        return {**{column: round(found[column], 2) for column in columns}, "the paper": THE_PAPER[self.model]}


CELLS: dict[str, Cell] = {
    **{f"random-walk-{model}-{number}": Part(model, number) for model in MODELS for number in range(1, PARTS + 1)},
    **{f"random-walk-{model}-accuracy": Accuracy(model) for model in MODELS},
}
