"""Small real commands in which each part of fairseq runs: the boundaries of options are tried in them."""

from collections.abc import Callable
from pathlib import Path

from inputs import Part
from reversals import write_reversals
from warm import Done

TRANSLATION = "--arch feedback_transformer_tiny --criterion label_smoothed_cross_entropy --max-tokens 400"
STREAMS = "--task streaming_language_modeling --criterion streaming_lm --batch-size 4 --tokens-per-sample 16"
TRAINING = "--lr 0.005 --cpu --num-workers 0 --no-progress-bar --log-format simple --max-update 2 --max-epoch 1"

# Options that a part needs.
SCHEDULERS = {
    "cosine": "--lr-period-updates 4",
    "inverse_sqrt": "--warmup-updates 2",
    "polynomial_decay": "--total-num-update 4",
    "tri_stage": "--decay-steps 2",
    "triangular": "--max-lr 0.1",
}
TASKS = {
    "translation": TRANSLATION,
    "streaming_language_modeling": f"{STREAMS} --arch lstm_stream_lm_tiny",
    "language_modeling": "--task language_modeling --arch active_memory_lm_tiny --criterion cross_entropy"
    " --tokens-per-sample 16 --max-tokens 200",
    "synthetic_stream": "--task synthetic_stream --criterion label_cross_entropy --arch lstm_stream_lm_tiny"
    " --batch-size 4 --tokens-per-sample 16 --train-episodes 100 --test-episodes 4",
    "algorithmic_curriculum": "--task algorithmic_curriculum --criterion label_cross_entropy"
    " --arch active_memory_algorithmic --batch-size 4 --decoder-layers 1",
}
MODELS = {
    "transformer": TRANSLATION.replace("feedback_transformer_tiny", "transformer_tiny"),
    "lstm": TRANSLATION.replace("feedback_transformer_tiny", "lstm --encoder-layers 1"),
    "feedback_transformer": TRANSLATION,
    "transformer_lm": TASKS["language_modeling"].replace("active_memory_lm_tiny", "transformer_lm --decoder-layers 1"),
    "active_memory_lm": TASKS["language_modeling"],
    "transformer_xl_lm": f"{STREAMS} --arch transformer_xl_lm_tiny",
    "span_transformer_lm": f"{STREAMS} --arch span_transformer_lm_tiny --adaptive-span",
    "all_attention_lm": f"{STREAMS} --arch all_attention_lm_tiny",
}
CRITERIONS = ["label_smoothed_cross_entropy"]


def is_tried(part: Part) -> bool:
    known = {"task": TASKS, "model": MODELS, "criterion": CRITERIONS}
    return part.kind in ("command", "optimizer", "lr_scheduler") or part.name in known.get(part.kind, ())


class Bases:
    """Data and models in a folder, and commands that use them.

    Args:
        done: runs a command, as ``warm.Warm`` does
    """

    def __init__(self, done: Callable[..., Done], folder: Path, user_dir: Path):
        self.done, self.folder, self.plugins = done, folder, ["--user-dir", user_dir]
        write_reversals(folder, {"train": 60, "valid": 10, "test": 6})
        prefixes = [word for split in ("train", "valid", "test") for word in (f"--{split}pref", folder / split)]
        self.pairs = ["fairseq-preprocess", *self.plugins, "--source-lang", "src", "--target-lang", "tgt", *prefixes]
        lines = [f"{word}.src" if isinstance(word, Path) else word for word in prefixes]
        self.run(*self.pairs, "--joined-dictionary", "--destdir", folder / "bin")
        self.run("fairseq-preprocess", *self.plugins, "--only-source", *lines, "--destdir", folder / "lines")
        self.run(*self.train(f"{TRANSLATION} --optimizer adam", "translation"))
        self.run(*self.train(f"{MODELS['transformer_xl_lm']} --optimizer adam", "streams"))

    def run(self, *command) -> None:
        done = self.done(*command, log=self.folder / "log")
        assert done.verdict == "honoured", done.output[-3000:]

    def train(self, flags: str, save: str) -> list:
        data = [] if "synthetic" in flags or "curriculum" in flags else ["lines" if "_lm" in flags else "bin"]
        words = [*(self.folder / name for name in data), *self.plugins, *flags.split(), *TRAINING.split()]
        return ["fairseq-train", *words, "--save-dir", self.folder / save]

    def command(self, part: Part) -> list:
        """A command in which the part's options have a meaning."""
        flags = {**MODELS, **TASKS}.get(part.name, TRANSLATION)
        if part.kind == "optimizer":
            return self.train(f"{flags} --optimizer {part.name}", "save")
        if part.kind == "lr_scheduler":
            needs = SCHEDULERS.get(part.name, "")
            return self.train(f"{flags} --optimizer sgd --lr-scheduler {part.name} {needs}", "save")
        if part.kind != "command":
            return self.train(f"{flags} --optimizer sgd", "save")
        if part.name == "train":
            return self.train(f"{TRANSLATION} --optimizer adam", "save")
        if part.name == "preprocess":
            return [*self.pairs, "--destdir", self.folder / "again"]
        if part.name == "eval-lm":
            words = [self.folder / "lines", "--task", "streaming_language_modeling", "--path"]
            return ["fairseq-eval-lm", *self.plugins, "--cpu", *words, self.folder / "streams" / "checkpoint_last.pt"]
        words = [self.folder / "bin", *self.plugins, "--cpu", "--path"]
        more = ["--task", "translation", "--max-tokens", 400] if part.name == "validate" else []
        return [f"fairseq-{part.name}", *words, self.folder / "translation" / "checkpoint_last.pt", *more]

    def try_options(self, part: Part, options: list[str]) -> Done:
        """Run the part's command with these options besides, from empty output folders."""
        for name in ("save", "again"):
            for file in [*(self.folder / name).glob("*.pt"), *(self.folder / name).glob("*.*")]:
                file.unlink(missing_ok=True)
        return self.done(*self.command(part), *options, log=self.folder / "log")
