"""The least and the largest number of every option in real commands: they run, or say in one sentence why not.

Wrong numbers are refused by the parser (tests/test_ranges.py); here a number that the table of ranges allows must not
end in a traceback or kill the process. Several options are given at a time, and singly where that does not run.
"""

from pathlib import Path

import pytest

from fairseq_plugins.tools.register import register

register()

import inputs  # noqa: E402  (it reads what is registered)

OPTIONS = inputs.numeric_options()
AT_ONCE = 8

TRANSLATION = "--arch feedback_transformer_tiny --criterion label_smoothed_cross_entropy --max-tokens 400"
STREAMS = "--task streaming_language_modeling --criterion streaming_lm --batch-size 4 --tokens-per-sample 16"
TRAINING = "--lr 0.005 --cpu --num-workers 0 --no-progress-bar --log-format simple --max-update 2 --max-epoch 1"

# What a part needs beside its name.
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
    " --batch-size 4 --tokens-per-sample 16",
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
PARTS = [
    part
    for part in OPTIONS
    if part.kind in ("command", "optimizer", "lr_scheduler")
    or part.name in {"task": TASKS, "model": MODELS, "criterion": CRITERIONS}.get(part.kind, ())
]
QUICK = [("optimizer", "adam"), ("criterion", "label_smoothed_cross_entropy"), ("command", "preprocess")]


@pytest.fixture(scope="session")
def base(warm, user_dir, reverse_corpus, tmp_path_factory):
    """base(part) -> a command in which the part's options have a meaning."""
    folder = tmp_path_factory.mktemp("boundaries")
    for split, number in (("train", 60), ("valid", 10), ("test", 6)):
        for side in ("src", "tgt"):
            lines = reverse_corpus.lines(split, side)[:number]
            (folder / f"{split}.{side}").write_text("".join(line + "\n" for line in lines))
    prefixes = [word for split in ("train", "valid", "test") for word in (f"--{split}pref", folder / split)]
    plugins = ["--user-dir", user_dir]

    def must(*command):
        done = warm(*command, log=folder / "log")
        assert done.verdict == "honoured", done.output[-3000:]

    pairs = ["fairseq-preprocess", *plugins, "--source-lang", "src", "--target-lang", "tgt", *prefixes]
    must(*pairs, "--joined-dictionary", "--destdir", folder / "bin")
    lines = [f"{word}.src" if isinstance(word, Path) else word for word in prefixes]
    must("fairseq-preprocess", *plugins, "--only-source", *lines, "--destdir", folder / "lines")

    def train(flags, save):
        data = [] if "synthetic" in flags or "curriculum" in flags else ["lines" if "_lm" in flags else "bin"]
        words = [*(folder / name for name in data), *plugins, *flags.split(), *TRAINING.split()]
        return ["fairseq-train", *words, "--save-dir", folder / save]

    must(*train(f"{TRANSLATION} --optimizer adam", "translation"))
    must(*train(f"{MODELS['transformer_xl_lm']} --optimizer adam", "streams"))
    use = [folder / "bin", *plugins, "--cpu", "--path", folder / "translation" / "checkpoint_last.pt"]
    commands = {
        "train": train(f"{TRANSLATION} --optimizer adam", "save"),
        "generate": ["fairseq-generate", *use],
        "interactive": ["fairseq-interactive", *use],
        "validate": ["fairseq-validate", *use, "--task", "translation", "--max-tokens", 400],
        "eval-lm": [
            *("fairseq-eval-lm", folder / "lines", *plugins, "--cpu", "--task", "streaming_language_modeling"),
            *("--path", folder / "streams" / "checkpoint_last.pt"),
        ],
        "preprocess": [*pairs, "--destdir", folder / "again"],
    }

    def base(part):
        if part.kind == "command":
            return commands[part.name]
        flags = {**MODELS, **TASKS}.get(part.name, TRANSLATION)
        if part.kind == "optimizer":
            return train(f"{flags} --optimizer {part.name}", "save")
        if part.kind == "lr_scheduler":
            needs = SCHEDULERS.get(part.name, "")
            return train(f"{flags} --optimizer sgd --lr-scheduler {part.name} {needs}", "save")
        return train(f"{flags} --optimizer sgd", "save")

    return base


@pytest.mark.parametrize(
    "part",
    [part if part in QUICK else pytest.param(part, marks=pytest.mark.slow) for part in PARTS],
    ids=lambda part: "-".join(part),
)
def test_every_number_that_is_allowed_runs_or_is_refused(part, base, warm, tmp_path):
    given = [f"{flag}={value}" for flag, action in OPTIONS[part].items() for value in inputs.right_values(action.dest)]
    groups = -(-len(given) // AT_ONCE)
    wrong, log = {}, tmp_path / "log"
    for group in (
        given[number::groups] for number in range(groups)
    ):  # neighbours apart: they often depend on each other
        if warm(*fresh(base(part)), *group, log=log).verdict == "honoured":
            continue
        for option in group:
            done = warm(*fresh(base(part)), option, log=log)
            if done.verdict not in ("honoured", "refused"):
                wrong[option] = f"{done.verdict}: {done.output[-300:]}"
    assert not wrong, "\n".join(f"{option}: {what}" for option, what in wrong.items())


def fresh(command):
    """A command whose output folder is empty."""
    for flag, pattern in (("--save-dir", "*.pt"), ("--destdir", "*")):
        if flag in command:
            for file in Path(command[command.index(flag) + 1]).glob(pattern):
                file.unlink()
    return command
