"""Every command that writes files: for what happens where they cannot be written, or where the user interrupts it."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import limits
from reversals import write_reversals
from warm import TRACEBACK, Done

ROOT = Path(__file__).resolve().parents[2]
USER_DIR = ["--user-dir", ROOT / "fairseq_plugins"]
LOG = (
    "epoch 001:      2 / 10 loss=2.5, bpc=2.5, reward=1, wpb=9, span_0_0=8, memory_0=0.5, memory_1=0.5, num_updates=2\n"
    "epoch 001 | valid on 'valid' subset | loss 2.4 | bpc 2.4 | reward 2 | num_updates 10\n"
)
GENERATED = "".join(f"S-{n}\ta b\nT-{n}\tb a\nH-{n}\t-0.5\tb a\nP-{n}\t-0.5\n" for n in range(3)) + "Generate test\n"
FILES = {
    "run/train.log": LOG,
    "generated.txt": GENERATED,
    "raw.ref": "b a\n" * 3,
    "labels.json": json.dumps({"span": 1, "by_position": [50.0, 60.0], "labels_by_position": [3, 3]}),
    "rows.jsonl": '{"cell": "a", "BLEU": 3.0}\n',
    "labelled/train.txt": "a b a\n",
    "labelled/train.labels": "_ 1 2\n",
    "labelled/valid.txt": "b a\n",
    "labelled/valid.labels": "1 2\n",
}
TRAINING = "--optimizer sgd --lr 0.1 --cpu --num-workers 0 --no-progress-bar --max-update 2".split()
BASES = {
    "pairs": "--arch feedback_transformer_tiny --max-tokens 400",
    "streams": "--task streaming_language_modeling --criterion streaming_lm --arch transformer_xl_lm_tiny"
    " --batch-size 2 --tokens-per-sample 8",
    "single": "--task language_modeling --arch active_memory_lm_tiny --criterion cross_entropy"
    " --sample-break-mode eos --tokens-per-sample 16 --max-tokens 200",
    "walk": "--task synthetic_stream --criterion label_cross_entropy --arch lstm_stream_lm_tiny --batch-size 2"
    " --tokens-per-sample 16 --train-episodes 20 --test-episodes 4",
    "sentences": "--task sentence_prediction --criterion sentence_prediction --arch roberta --num-classes 2"
    " --encoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 32 --encoder-attention-heads 4"
    " --max-positions 64 --batch-size 8 --add-prev-output-tokens"
    " --classification-head-name sentence_classification_head --init-token 0 --separator-token 2",
}
CORPORA = {  # layouts of synthetic.py, and further options of their scripts
    "multi30k": "--bpe 90",
    "wmt14_ende": "--bpe 90",
    "iwslt14_deen": "--bpe 90",
    "parallel": "--bpe 90 --source en --target lomi",
    "cnndm": "--bpe 90",
    "enwik8": "--split 2000,200,200",
    "text8": "--split 1000,100,100",
    "wikitext103": "--any-size",
    "char_ptb": "--any-size",
    "glue": "--tasks CoLA --learn-bpe 40",
}


class Site:
    """Small data and models in a folder, and commands that use them."""

    def __init__(self, folder: Path):
        self.folder = folder
        for name, text in FILES.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        write_reversals(folder, {"train": 60, "valid": 10, "test": 6})
        (folder / "train.label").write_text("".join(f"{number % 2}\n" for number in range(60)))
        self.lines = [
            word for split in ("train", "valid", "test") for word in (f"--{split}pref", folder / f"{split}.src")
        ]
        self.run(*self.preprocess(folder / "pairs"))
        one = ["fairseq-preprocess", *USER_DIR, "--only-source"]
        self.run(*one, *self.lines, "--destdir", folder / "lines")
        for part, source in {"input0": "train.src", "label": "train.label"}.items():
            prefixes = ["--trainpref", folder / source, "--validpref", folder / source]
            self.run(*one, *prefixes, "--destdir", folder / "sentences" / part)
        for name in BASES:
            self.run(*self.train(name, folder / "models" / name))
        for name in CORPORA:
            self.run(*self.synthetic(name, folder / "raw" / name))

    def run(self, *command) -> None:
        done = limits.run(None, self.folder, *command)
        assert done.verdict == "honoured", done.output[-3000:]

    def preprocess(self, out: Path) -> list:
        prefixes = [str(word).removesuffix(".src") for word in self.lines]
        languages = "--source-lang src --target-lang tgt --joined-dictionary".split()
        return ["fairseq-preprocess", *USER_DIR, *languages, *prefixes, "--destdir", out]

    def train(self, name: str, save: Path) -> list:
        data = {"pairs": ["pairs"], "walk": [], "sentences": ["sentences"]}.get(name, ["lines"])
        flags = [*(self.folder / each for each in data), *USER_DIR, *TRAINING, *BASES[name].split()]
        return ["fairseq-train", *flags, "--save-dir", save]

    def synthetic(self, name: str, out: Path) -> list:
        return script("synthetic", out, *f"--format {name} --train 40 --valid 6 --test 6".split())

    def trial(self) -> list:
        return [*self.train("pairs", self.folder / "saved"), "--no-save"]

    def generate(self) -> list:
        return ["fairseq-generate", self.folder / "pairs", *USER_DIR, "--cpu", "--path", self.model("pairs")]

    def place(self, word: str) -> str:
        """The word with model:NAME or file:NAME replaced by a path of this site."""
        word = re.sub(r"\bmodel:(.+)", lambda found: str(self.model(found[1])), word)
        return re.sub(r"\bfile:(.+)", lambda found: str(self.folder / found[1]), word)

    def model(self, name: str) -> Path:
        return self.folder / "models" / name / "checkpoint_last.pt"


def script(name: str, out: Path, *options) -> list:
    return ["python", ROOT / "preprocess" / f"{name}.py", *options, "--out", out]


def tool(name: str, *options) -> list:
    return ["python", "-m", f"fairseq_plugins.tools.{name}", *options]


def corpus(name: str) -> Callable:
    workers = [] if name in ("enwik8", "text8", "char_ptb") else ["--workers", 1]
    return lambda s, out: script(name, out, "--raw", s.folder / "raw" / name, *workers, *CORPORA[name].split())


def text(level: str) -> Callable:
    raw = lambda s: s.folder / "raw/enwik8/enwik8"  # noqa: E731
    return lambda s, out: script(
        "text", out, "--raw", raw(s), "--level", level, *SYMBOLS.get(level, []), "--workers", 1
    )


def writes(name: str, *words, out: tuple[str, str]) -> Callable:
    """A tool with its options, and the flag and the name of its output."""

    def command(site: Site, folder: Path) -> list:
        flag, file = out
        return tool(*name.split(), *(site.place(word) for word in words), flag, folder / file)

    return command


SYMBOLS = {"bpe": ["--symbols", 400], "sentencepiece": ["--symbols", 330]}
AGENT = ["--agent", "best", "--environment", "fairseq_plugins/Corridor-v0"]
JSON, PNG = ("--json", "a.json"), ("--out", "a.png")
# name: (site, folder for outputs -> command)
WRITERS: dict[str, Callable[[Site, Path], list]] = {
    "fairseq-train --save-dir": lambda s, out: s.train("pairs", out / "save"),
    "fairseq-train, memories": lambda s, out: s.train("streams", out / "save"),
    "fairseq-train --tensorboard-logdir": lambda s, out: [*s.trial(), "--tensorboard-logdir", out / "board"],
    "fairseq-train --log-file": lambda s, out: [*s.trial(), "--log-file", out / "a.log"],
    "fairseq-generate --results-path": lambda s, out: [*s.generate(), "--results-path", out / "results"],
    "fairseq-preprocess --destdir": lambda s, out: s.preprocess(out / "bin"),
    "fairseq-preprocess --workers": lambda s, out: [*s.preprocess(out / "bin"), "--workers", 2],
    **{f"preprocess/{name}.py": corpus(name) for name in CORPORA},
    **{f"preprocess/text.py, {level}": text(level) for level in ("byte", "char", "word", "bpe", "sentencepiece")},
    "preprocess/labelled_text.py": lambda s, out: script("labelled_text", out, "--raw", s.folder / "labelled"),
    "preprocess/synthetic.py": lambda s, out: s.synthetic("glue", out / "raw"),
    "average_checkpoints": writes("average_checkpoints", "model:pairs", out=("--output", "average.pt")),
    "label_accuracy": writes("label_accuracy", "model:walk", "--cpu", out=JSON),
    "plot curves": writes("plot curves", "a=file:run", out=PNG),
    "plot spans": writes("plot spans", "file:run", out=("--out", "a.pdf")),
    "plot memory": writes("plot memory", "file:run", out=("--out", "a.svg")),
    "plot attention": writes(
        "plot attention --tokens 2", "model:streams", "--data", "file:lines", out=PNG
    ),
    "plot lags": writes("plot lags linear --layers 3 --updates 4", out=PNG),
    "plot rewards": writes("plot rewards", "a=file:run", out=PNG),
    "plot rows": writes("plot rows", "file:rows.jsonl", "--metric", "BLEU", out=PNG),
    "position_accuracy": writes("position_accuracy", "a=file:labels.json", out=PNG),
    "report": writes("report", "file:run", out=("--out", "report.html")),
    "results_table add": lambda s, out: tool("results_table", "add", out / "results.jsonl", "a", "b=1"),
    "rouge": writes("rouge", "file:generated.txt", "--references", "file:raw.ref", out=JSON),
    "score_lines": writes("score_lines --cpu --batches 1", "file:lines", "--path", "model:single", out=JSON),
    "score_sentences": writes("score_sentences --cpu", "file:sentences", "--path", "model:sentences", out=JSON),
    "score_translations": writes("score_translations", "file:generated.txt", out=JSON),
    "tune_length_penalty": lambda s, out: tool(
        *"tune_length_penalty --lenpen 1 --path".split(), s.model("pairs"), "--out", out / "tuning", s.folder / "pairs",
        "--", "--cpu",
    ),
    "watch --json": writes("watch", *AGENT, out=JSON),
    "watch --out": writes("watch", *AGENT, out=("--out", "a.gif")),
}  # fmt: skip
SLOW = ["tune_length_penalty"]  # it starts another command


def refused(done: Done, folder: Path) -> str:
    """The fault in the answer of a command whose folder cannot be written; "" if there is none: its status is not 0,
    and one sentence names the folder, or what lies in it."""
    told = re.findall(r"^\S+: error: .*", done.output, re.MULTILINE)
    if TRACEBACK in done.output:
        return "traceback"
    if done.returncode <= 0 or done.returncode > 125:
        return f"status {done.returncode}"
    if len(told) != 1:
        return f"{len(told)} sentences"
    return "" if str(folder) in told[0] else "no name"
