"""GLUE tasks (MRPC, QQP, CoLA, SST-2, MNLI, QNLI) for fairseq's sentence_prediction, in RoBERTa's byte pair encoding.

    python preprocess/glue.py --out data/glue --raw DIR                  # DIR/MRPC/train.tsv, DIR/MRPC/dev.tsv ...
    python preprocess/glue.py --out data/glue --raw DIR --bpe-dir BPE    # encoder.json, vocab.bpe, dict.txt in BPE
    python preprocess/glue.py --out data/glue --raw DIR --learn-bpe 300  # for a model that is trained on it

    OUT/TASK/text    train and valid, each .input0, .input1 where there are two sentences, and .label
    OUT/TASK/bpe     the sentences encoded
    OUT/TASK/bin     binarised: fairseq-train OUT/TASK/bin --task sentence_prediction

The raw files are those of https://gluebenchmark.com/tasks; their headers name the columns. MNLI's valid set is the
matched one. The test sets have no labels and are left out. The encoding is GPT-2's. Unless it is given, it is
downloaded from the address that fairseq's scripts use. A row with another number of columns than the header is dropped
and counted; QQP has a few.
"""

import json
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, pairwise
from pathlib import Path

from lib import binarise, locate, options, raw_text
from lib.download import Remote, fetch_all
from lib.steps import Steps, UserError, add_workers, command_line

from fairseq_plugins.options.ranges import whole

SOURCE = "https://dl.fbaipublicfiles.com/fairseq/gpt2_bpe/"
BPE_FILES = ("encoder.json", "vocab.bpe", "dict.txt")
REMOTES = [Remote(name, (SOURCE + name,)) for name in BPE_FILES]
SPLITS = ("train", "valid")


@dataclass(frozen=True)
class Task:
    """The columns of the sentences and of the label. ``header`` is for files without a header."""

    sentences: tuple[str, ...]
    label: str
    labels: tuple[str, ...] = ("0", "1")
    dev: str = "dev.tsv"
    header: tuple[str, ...] | None = None

    def file(self, split: str) -> str:
        return "train.tsv" if split == "train" else self.dev

    def inputs(self) -> list[str]:
        """The names of the sentences in fairseq."""
        return [f"input{number}" for number in range(len(self.sentences))]


TASKS = {
    "MRPC": Task(("#1 String", "#2 String"), "Quality"),
    "QQP": Task(("question1", "question2"), "is_duplicate"),
    "CoLA": Task(("sentence",), "label", header=("source", "label", "mark", "sentence")),
    "SST-2": Task(("sentence",), "label"),
    "MNLI": Task(
        ("sentence1", "sentence2"), "gold_label", ("contradiction", "neutral", "entailment"), "dev_matched.tsv"
    ),
    "QNLI": Task(("question", "sentence"), "label", ("entailment", "not_entailment")),
}


def main():
    parser = options.parser(__doc__, "folder with a subfolder of .tsv files for each task")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), metavar="TASK", help="(default: all)")
    bpe = parser.add_mutually_exclusive_group()
    bpe.add_argument("--bpe-dir", type=Path, metavar="DIR", help=f"folder with {', '.join(BPE_FILES)}")
    bpe.add_argument(
        "--learn-bpe", type=whole(1), metavar="N", help="learn N merges from the training sentences of --tasks instead"
    )
    add_workers(parser)
    args = parser.parse_args()
    if not args.raw:
        raise UserError(
            "--raw is missing: get the .tsv files of the tasks from https://gluebenchmark.com/tasks and give their"
            " folder."
        )
    options.check_raw(args.raw)
    if args.learn_bpe:
        check_others(args.out, args.tasks)
    steps = Steps(args.out)
    for name in args.tasks:
        for split in SPLITS:
            write_text(steps, args.raw, name, split)
    bpe_dir = encoding(args, steps)
    for name in args.tasks:
        for split in SPLITS:
            encode_text(steps, name, split, bpe_dir, args.workers)
        binarise_task(steps, name, bpe_dir)


# Text


def write_text(steps: Steps, raw: Path, name: str, split: str) -> None:
    """Write ``OUT/TASK/text/SPLIT.*`` from the raw file of a task."""
    task = TASKS[name]
    file = locate.file(raw / name, task.file(split))
    if not file:
        raise UserError(
            f"--raw {raw} has no {name}/{task.file(split)}: get the task from https://gluebenchmark.com/tasks, or "
            "leave it out of --tasks."
        )
    outputs = [steps.out / name / "text" / f"{split}.{part}" for part in (*task.inputs(), "label")]
    steps.run(f"text-{name}-{split}", [file], outputs, {}, partial(_write_columns, task, file))


def _write_columns(task: Task, file: Path, *outputs: Path) -> str:
    dropped = Counter()
    rows = list(read_rows(task, file, dropped))
    if not rows:
        raise UserError(f"{file} has no rows below its header: get the complete file.")
    for path, column in zip(outputs, zip(*rows), strict=True):
        raw_text.write_lines(path, column)
    shares = ", ".join(f"{label} {number}" for label, number in sorted(Counter(row[-1] for row in rows).items()))
    return f"{file.name} {len(rows) + dropped.total()} rows in, {len(rows)} out ({shares}), {dropped.total()} dropped"


def read_rows(task: Task, file: Path, dropped: Counter):
    """The sentences and the label of each row of a .tsv file. Quotes have no special meaning."""
    lines = (line.split("\t") for line in raw_text.read_lines(file))
    header = list(task.header or next(lines))
    columns = (*task.sentences, task.label)
    if missing := [column for column in columns if column not in header]:
        raise UserError(f"{file} has no column '{missing[0]}': its first line must name the columns, as GLUE's does.")
    for number, row in enumerate(lines, 1 if task.header else 2):
        if len(row) != len(header):
            dropped["columns"] += 1
            continue
        *sentences, label = (row[header.index(column)] for column in columns)
        if label not in task.labels:
            raise UserError(f"{file} line {number}: the label '{label}' is not one of {', '.join(task.labels)}.")
        yield *map(str.strip, sentences), label


# Encoding


def encoding(args, steps: Steps) -> Path:
    """The folder with the files of the byte pair encoding; it is learned or downloaded if needed."""
    if args.learn_bpe:
        folder = steps.out / "bpe"
        sentences = [
            steps.out / name / "text" / f"train.{part}" for name in args.tasks for part in TASKS[name].inputs()
        ]
        learn = partial(learn_encoding, sentences, args.learn_bpe)
        steps.run("learn-bpe", sentences, [folder / name for name in BPE_FILES], {"merges": args.learn_bpe}, learn)
        return folder
    folder = args.bpe_dir or fetch_all(REMOTES, steps)
    if missing := [name for name in BPE_FILES if not (folder / name).is_file()]:
        raise UserError(f"--bpe-dir {folder} has no {missing[0]}: get it from {SOURCE + missing[0]}.")
    return folder


def check_others(out: Path, tasks: list[str]) -> None:
    """Whether no other task is left in an encoding that is learned anew. Its dictionary would not show it.

    Raises:
        UserError: ``out`` holds other tasks, and an encoding that was learned from them
    """
    others = [name for name in TASKS if name not in tasks and (out / name / "bin").exists()]
    if others and (out / "bpe").exists():
        raise UserError(
            f"--out {out} holds {' and '.join(others)} in the encoding that --learn-bpe would replace: name them in"
            " --tasks, too, or give another --out."
        )


def learn_encoding(sentences: list[Path], merges: int, encoder_file: Path, merges_file: Path, dict_file: Path) -> str:
    """Learn a byte pair encoding and write it as GPT-2's files. For small texts: each merge counts all words again."""
    from fairseq.data.encoders.gpt2_bpe_utils import Encoder  # imported here, since the import takes seconds

    bytes_only = Encoder(encoder={}, bpe_merges=[])
    symbols = list(bytes_only.byte_encoder.values())
    pieces = (bytes_only.pat.findall(line) for path in sentences for line in raw_text.read_lines(path))
    counts = Counter(chain.from_iterable(pieces))
    words = {tuple(bytes_only.byte_encoder[b] for b in word.encode()): number for word, number in counts.items()}
    learned = []
    while len(learned) < merges:
        pairs = Counter()
        for word, number in words.items():
            for pair in pairwise(word):
                pairs[pair] += number
        if not pairs:
            break
        learned.append(max(pairs, key=lambda pair: (pairs[pair], pair)))
        words = {merge(word, learned[-1]): number for word, number in words.items()}
    symbols += ["".join(pair) for pair in learned]
    encoder_file.write_text(json.dumps({symbol: number for number, symbol in enumerate(symbols)}), encoding="utf-8")
    raw_text.write_lines(merges_file, ["#version: 0.2", *map(" ".join, learned)])
    raw_text.write_lines(dict_file, [f"{number} 1" for number in range(len(symbols))])
    return f"{merges} merges requested, {len(learned)} learned"


def merge(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    merged = []
    for symbol in word:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return tuple(merged)


@lru_cache
def _encoder(folder: str):
    from fairseq.data.encoders.gpt2_bpe_utils import get_encoder

    return get_encoder(os.path.join(folder, "encoder.json"), os.path.join(folder, "vocab.bpe"))


def encode(sentence: str, folder: str) -> str:
    """The numbers of a sentence's symbols, separated by spaces."""
    return " ".join(map(str, _encoder(folder).encode(sentence)))


def encode_text(steps: Steps, name: str, split: str, bpe_dir: Path, workers: int) -> None:
    """Encode ``OUT/TASK/text/SPLIT.input*`` into ``OUT/TASK/bpe``."""

    def work(*outputs):
        _encoder(str(bpe_dir))  # read it once, before other processes start
        lines = [
            raw_text.map_lines(partial(encode, folder=str(bpe_dir)), *pair, workers) for pair in zip(sources, outputs)
        ]
        return f"{lines[0]} lines in, {lines[-1]} out"

    folder, inputs = steps.out / name, TASKS[name].inputs()
    sources, encoded = ([folder / kind / f"{split}.{part}" for part in inputs] for kind in ("text", "bpe"))
    files = [bpe_dir / file for file in BPE_FILES]
    steps.run(f"encode-{name}-{split}", [*sources, *files], encoded, {}, work)


def binarise_task(steps: Steps, name: str, bpe_dir: Path) -> None:
    """Write ``OUT/TASK/bin``, with a folder for each sentence and one for the label."""

    def work(destination):
        reports = []
        for part, prefix in prefixes.items():
            texts, made = [prefix / f"{split}.{part}" for split in SPLITS], destination / part
            made.mkdir(parents=True)
            if part == "label":
                binarise.write_dictionary(made / "dict.txt", binarise.count(texts[:1]), multiple=8)
            else:
                shutil.copyfile(bpe_dir / "dict.txt", made / "dict.txt")
            indices = binarise.Indices(made / "dict.txt")
            reports.append(f"{part} dictionary {len(indices)} types")
            for text in texts:
                result = binarise.binarise(text, made / text.stem, indices)
                reports.append(f"{text.name} {result.lines} lines, {result.percent_unknown:.3}% unknown")
        return "; ".join(reports)

    folder = steps.out / name
    prefixes = {part: folder / "bpe" for part in TASKS[name].inputs()} | {"label": folder / "text"}
    files = [prefix / f"{split}.{part}" for part, prefix in prefixes.items() for split in SPLITS]
    steps.run(f"binarise-{name}", [*files, bpe_dir / "dict.txt"], [folder / "bin"], {}, work)
    print(f"ready: fairseq-train {folder / 'bin'} --task sentence_prediction", flush=True)


if __name__ == "__main__":
    command_line(main)
