"""fairseq-train in every precision: the loss falls, and a resumed training goes on as if it had not been stopped."""

import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path

from reversals import write_reversals

from gpu_cells.cell import MINUTE, ONLY_A_GPU, Cell, Row, Setting
from gpu_cells.commands import fairseq_preprocess, fairseq_train, figures

PRECISIONS = {"fp32": [], "bf16": ["--bf16"], "fp16": ["--fp16"], "amp": ["--amp"]}
ON_A_CPU = ("fp32", "bf16")  # fairseq's others need a GPU
LANGUAGE_MODELS = ("feedback_lm", "span_transformer_lm", "all_attention_lm", "transformer_xl_lm")
CHUNKS = ["--feedback-chunk", 8]
SAME = ["--optimizer", "adam", "--lr", 0.003, "--clip-norm", 0.1, "--log-format", "json", "--log-interval", 1]
STREAMS = (
    "--task synthetic_stream --kind random-walk --criterion label_cross_entropy --train-length 30 --test-length 30"
    " --tokens-per-sample 32 --batch-size 16 --stream-offset random --dropout 0.1"
).split()
SENTENCES = "--criterion label_smoothed_cross_entropy --dropout 0.1 --max-tokens 400".split()


@dataclass(frozen=True)
class Training(Cell):
    """One model in one precision: twice as many updates as half, and the second half again from the checkpoint.

    Attributes:
        flags: of the task, and of what differs from the model of this name
    """

    name: str
    model: str
    precision: str
    flags: tuple
    limit = 3 * MINUTE

    def measure(self, setting: Setting) -> Row:
        if not setting.gpu and self.precision not in ON_A_CPU:
            return ONLY_A_GPU
        folder = setting.folder / "trainings" / f"{self.name}-{self.precision}"
        shutil.rmtree(folder, ignore_errors=True)
        half = 2 if setting.smoke else 20
        whole = self.losses(setting, folder / "whole", half)
        resumed = self.losses(setting, folder / "resumed", half, "--restore-file", self.halfway(folder / "whole", half))
        return self.judged(whole, resumed, setting)

    def losses(self, setting: Setting, folder: Path, half: int, *more) -> list[float]:
        log = folder / "log"
        folder.mkdir(parents=True)
        fairseq_train(
            *self.data(setting), "--arch", f"{self.model}_tiny", *SAME, *PRECISIONS[self.precision],
            "--max-update", 2 * half, "--save-interval-updates", half, "--disable-validation",
            "--save-dir", folder, "--log-file", log, *([] if setting.gpu else ["--cpu"]), *more,
        )  # fmt: skip
        return [float(update["loss"]) for update in figures(log)]

    def data(self, setting: Setting) -> list:
        return [*self.flags, "--train-episodes", 40 if setting.smoke else 200, "--test-episodes", 2]

    def halfway(self, folder: Path, half: int) -> Path:
        (checkpoint,) = folder.glob(f"checkpoint_*_{half}.pt")
        return checkpoint

    def judged(self, whole: list[float], resumed: list[float], setting: Setting) -> Row:
        few = max(1, len(whole) // 10)
        first, last = statistics.mean(whole[:few]), statistics.mean(whole[-few:])
        off = max(abs(a - b) for a, b in zip(whole[-len(resumed) :], resumed, strict=True))
        row: Row = {"first loss": round(first, 3), "last loss": round(last, 3), "resumed, off by": round(off, 4)}
        # fairseq's checkpoints hold weights of half precision, and a GPU adds up in no fixed order
        allowed = 0 if self.precision == "fp32" and not setting.gpu else 0.02 * first
        if len(resumed) != len(whole) // 2 or not off <= allowed:
            raise ValueError(f"resumed at another place or with other losses: {row}")
        if not (last < first or setting.smoke):
            raise ValueError(f"the loss does not fall: {row}")
        return row


@dataclass(frozen=True)
class Translation(Training):
    """The same with an encoder, on pairs of sentences."""

    def data(self, setting: Setting) -> list:
        folder = setting.folder / "trainings" / "sentences"
        if not (folder / "bin/dict.src.txt").exists():
            raw = write_reversals(folder / "raw", {"train": 2000, "valid": 20})
            fairseq_preprocess(
                "--source-lang", "src", "--target-lang", "tgt", "--trainpref", raw / "train", "--validpref",
                raw / "valid", "--destdir", folder / "bin", "--joined-dictionary",
            )  # fmt: skip
        return [folder / "bin", *self.flags]


CELLS: dict[str, Cell] = {
    f"training-{name}-{precision}": kind(name, model, precision, tuple(flags))
    for precision in PRECISIONS
    for kind, name, model, flags in (
        *((Training, model, model, STREAMS) for model in LANGUAGE_MODELS),
        (Training, "feedback_chunks", "feedback_lm", STREAMS + CHUNKS),
        (Translation, "feedback_transformer", "feedback_transformer", SENTENCES),
    )
}
