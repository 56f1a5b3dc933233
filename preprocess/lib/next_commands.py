"""The commands that follow a preparation, filled in: training, test set, text of one's own."""

import shlex
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "fairseq_plugins"
WIDTH = 110  # of a printed line
FEW = 100_000  # training pairs; for fewer a small model is advised
TRAINING = (
    "--optimizer adam --adam-betas '(0.9, 0.98)' --lr-scheduler inverse_sqrt --criterion label_smoothed_cross_entropy"
    " --label-smoothing 0.1 --patience 10 --no-epoch-checkpoints --log-interval 10"
)
LARGE = "--lr 0.0005 --warmup-updates 4000 --max-tokens 4096 --max-update 50000"
SMALL = "--arch feedback_transformer_tiny --lr 0.005 --warmup-updates 100 --max-tokens 1024 --max-update 2000"
VALIDATION = 10_000  # training pairs between two validations of a small model


@dataclass(frozen=True)
class Advice:
    """The settings of the commands for a corpus.

    Args:
        arch: the architecture of the training
        search: flags of the search
        scorer: the tool that scores the test set
    """

    arch: str
    search: str = "--beam 5"
    scorer: str = "score_translations"


SUMMARIES = Advice("feedback_transformer_cnndm", "--beam 5 --no-repeat-ngram-size 3", "rouge")


def translation(out: Path, source: str, target: str, lower: bool, advice: Advice) -> str:
    """The lines to print when parallel text is ready in ``out``. ``lower``: is the target in lower case?"""
    with open(out / "clean" / f"train.{source}", "rb") as lines:
        pairs = sum(1 for _ in lines)
    folder = folder_of(out)
    data, save, checkpoint, test, references, text = map(
        shlex.quote,
        (
            str(out / "bin"), folder, checkpoint_of(out), f"{folder}/test.txt",
            str(out / f"test.{source}-{target}.ref"), str(out / "text" / f"test.{source}"),
        ),
    )  # fmt: skip
    plugins = user_dir()
    languages = shlex.join(["--source-lang", source, "--target-lang", target])
    search = f"--path {checkpoint} {advice.search} --bpe prepared"
    how = f" --lang {shlex.quote(target)}{' --lowercase' if lower else ''}" if advice.scorer != "rouge" else ""
    comment, flags = training(pairs, advice.arch)
    return f"""ready: {out / "bin"}
{where()}
{comment}
{wrap(f"fairseq-train {data} {languages} {plugins} {flags} {TRAINING} --save-dir {save}")}

# translate the test set, and score it
{wrap(f"fairseq-generate {data} {languages} {plugins} {search} --scoring chrf")} > {test}
{wrap(f"python -m fairseq_plugins.tools.{advice.scorer} {test} --references {references}{how}")}

# translate any text, a line each: the folder of the model holds everything that it needs
head -3 {text} | python -m fairseq_plugins.tools.translate {checkpoint}
{wrap(f"fairseq-interactive {data} {languages} {plugins} {search}")}"""


def training(pairs: int, arch: str) -> tuple[str, str]:
    """A comment, and the flags that depend on the size of the training set."""
    if pairs >= FEW:
        return "# train, on a GPU; --arch and the sizes of a model are in docs/translation.md", f"--arch {arch} {LARGE}"
    epochs = max(1, VALIDATION // pairs)
    return (
        "# train a small model to begin with, in minutes on a CPU; a large one (docs/translation.md) needs a GPU and\n"
        f"# --arch {arch} {LARGE}",
        f"{SMALL} --validate-interval {epochs} --save-interval {epochs}",
    )


def wrap(command: str) -> str:
    """The command in lines that end before a flag."""
    lines = [""]
    for word in map(shlex.quote, shlex.split(command)):
        if word.startswith("--") and len(lines[-1]) + len(word) > WIDTH - 30:  # room for the value of the flag
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {word}"
    return "\n".join(lines).strip()


def language_model(out: Path, split: str, streams: int) -> str:
    """The lines to print when the text of a language model is ready in ``out``.

    Args:
        split: the one to evaluate
        streams: --batch-size of the training
    """
    data, checkpoint = shlex.quote(str(out / "bin")), shlex.quote(checkpoint_of(out))
    task = "--task streaming_language_modeling"
    return f"""{train_small(out, f"{task} --criterion streaming_lm", streams)}

# evaluate it: bits per byte of the raw text, and more
fairseq-eval-lm {data} {user_dir()} {task} \\
    --path {checkpoint} --gen-subset {split} --batch-size 1 --tokens-per-sample 64

# let it write, and score any text: the folder of the model holds everything that it needs
python -m fairseq_plugins.tools.sample --path {checkpoint} --prompt "" --length 200
python -m fairseq_plugins.tools.score_text {checkpoint} {shlex.quote(str(out / "raw" / split))}"""


def labelled_text(out: Path, split: str) -> str:
    """The lines to print when text and labels are ready in ``out``. ``split``: the one to evaluate."""
    with open(out / "text" / "train", "rb") as train, open(out / "text" / "valid", "rb") as valid:
        streams = min(32, *(sum(1 for _ in lines) for lines in (train, valid)))  # each holds whole lines
    return f"""{train_small(out, "--task labelled_stream --criterion label_cross_entropy", streams)}

# evaluate it: how many labels are right, and of how many lines all
python -m fairseq_plugins.tools.label_accuracy {shlex.quote(checkpoint_of(out))} --split {split}"""


def train_small(out: Path, task: str, streams: int) -> str:
    """The lines of a training over streams."""
    return f"""ready: {out / "bin"}
{where()}
# train a small model to begin with; --arch and the sizes of a model are in docs/architectures.md
fairseq-train {shlex.quote(str(out / "bin"))} {user_dir()} {task} \\
    --arch feedback_lm_tiny --feedback-kv shared --batch-size {streams} --tokens-per-sample 64 \\
    --optimizer adam --lr 0.001 --clip-norm 1 --max-update 2000 --log-interval 10 \\
    --save-interval-updates 500 --keep-interval-updates 1 --no-epoch-checkpoints \\
    --save-dir {shlex.quote(folder_of(out))}"""


def folder_of(out: Path) -> str:
    """The --save-dir of the training that is printed."""
    return f"runs/{out.resolve().name}"


def checkpoint_of(out: Path) -> str:
    return f"{folder_of(out)}/checkpoint_best.pt"


def where() -> str:
    """Where the commands work: a line, or an empty one in the folder of the repository."""
    root = PACKAGE.parent
    if Path.cwd() == root:
        return ""
    installed = any(True for _ in distributions(name="fairseq_plugins"))  # as set-up does
    return f"# run these in this folder{'' if installed else f', after pip install {shlex.quote(str(root))}'}\n"


def user_dir() -> str:
    package = PACKAGE.relative_to(Path.cwd()) if PACKAGE.is_relative_to(Path.cwd()) else PACKAGE
    return f"--user-dir {shlex.quote(str(package))}"
