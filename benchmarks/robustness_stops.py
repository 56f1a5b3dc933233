"""A training that stopped somewhere, and went on with the same command, against one that never stopped.

    python benchmarks/robustness_stops.py
    python benchmarks/robustness_stops.py --training translation --stops "at its end"

Every kind of training is stopped in every way. It has to end with exactly the weights of the one that never stopped,
and to read in each epoch exactly the samples that that one reads. ``tests/cli/test_resumed_epochs.py`` tries some.
"""

import argparse
import copy
import json
import multiprocessing
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from paths import ROOT

# isort: split
import fairseq  # noqa: F401  (so that fairseq_plugins patches it now)
import fairseq_cli.train
import torch
import torch._dynamo  # noqa: F401  (every optimiser of torch imports it)
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from fairseq_cli import preprocess
from omegaconf import DictConfig, OmegaConf
from reversals import write_reversals

import fairseq_plugins  # noqa: F401

PAIRS, EPOCHS = 30, 3
PROCESSES = multiprocessing.get_context("fork")  # everything is imported by then


class Stop(NamedTuple):
    """A way to stop a training whose epochs have U updates, as options of its command."""

    options: Callable[[int], list[dict]]  # U -> for each part of the training before the last
    killed_at: Callable[[int], int | None] = lambda updates: None  # the update in which the first part is killed


STOPS = {
    "within epoch 1": Stop(lambda updates: [{"max_update": 2}]),
    "at its end": Stop(lambda updates: [{"max_epoch": 1}]),
    "within epoch 2": Stop(lambda updates: [{"max_update": updates + 1}]),
    "two epochs later": Stop(lambda updates: [{"max_epoch": 1}, {"max_update": 2 * updates + 1}]),
    "after a validation": Stop(lambda updates: [{"save_interval_updates": updates + 1}], lambda updates: updates + 3),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A kind of training: its options, the folders of its data, and how many processes train."""

    options: str
    data: str = ""
    ranks: int = 1
    once: int = PAIRS  # samples that have to come once in each epoch; 0: the training counts none


TINY = "--optimizer adam --lr 0.005 --dropout 0.1"
PAIR = f"--arch feedback_transformer_tiny --criterion label_smoothed_cross_entropy --max-tokens 40 {TINY}"
LINES = (
    "--task language_modeling --sample-break-mode eos --criterion cross_entropy --arch active_memory_lm_tiny"
    f" --tokens-per-sample 16 --max-tokens 40 {TINY}"
)
SMALL = "--encoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16 --encoder-attention-heads 2"
ROBERTA = f"--arch roberta {SMALL} {TINY}"
MASKED = (
    f"--task masked_lm --criterion masked_lm --batch-size 8 --tokens-per-sample 16 --sample-break-mode eos {ROBERTA}"
)
STREAMS = f"--batch-size 4 --tokens-per-sample 16 --arch transformer_xl_lm_tiny --mem-len 16 {TINY}"
STREAMING = f"--task streaming_language_modeling --criterion streaming_lm {STREAMS}"
LABELS = f"--criterion label_cross_entropy {STREAMS}"
PLATEAU = "--lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5 --lr-threshold 0.5"

CASES = {
    "translation": Case(PAIR, "pairs"),
    "translation, fairseq's Transformer": Case(PAIR.replace("feedback_transformer_tiny", "transformer_tiny"), "pairs"),
    "translation, two shards": Case(PAIR, "pairs:others"),
    "translation, --update-freq 2": Case(f"{PAIR} --update-freq 2", "pairs"),
    "translation, --update-freq 2,1 and --skip-remainder-batch": Case(
        f"{PAIR} --update-freq 2,1 --skip-remainder-batch", "pairs", once=0
    ),
    "translation, two ranks": Case(PAIR, "pairs", ranks=2),
    "translation, two ranks and --update-freq 2": Case(f"{PAIR} --update-freq 2", "pairs", ranks=2),
    "translation, --num-workers 1": Case(f"{PAIR} --num-workers 1", "pairs"),
    "translation, --num-batch-buckets 2": Case(f"{PAIR} --num-batch-buckets 2", "pairs"),
    "translation, batches anew in each epoch": Case(
        f"{PAIR} --update-ordered-indices-seed --update-epoch-batch-itr True", "pairs"
    ),
    "translation, --update-ordered-indices-seed --curriculum 2 --valid-subset valid,train": Case(
        f"{PAIR} --update-ordered-indices-seed --curriculum 2 --valid-subset valid,train", "pairs"
    ),
    "translation, --lr-scheduler reduce_lr_on_plateau --store-ema --ema-update-freq 4": Case(
        f"{PAIR} {PLATEAU} --store-ema --ema-update-freq 4", "pairs"
    ),
    "language_modeling over lines": Case(LINES, "lines"),
    "language_modeling over blocks": Case(LINES.replace("eos", "none"), "lines", once=0),
    "language_modeling, two shards": Case(LINES, "lines:other_lines"),
    "masked_lm": Case(MASKED, "lines"),
    "multilingual_masked_lm": Case(
        MASKED.replace("task masked_lm", "task multilingual_masked_lm"), "languages", once=0
    ),
    "translation_multi_simple_epoch, --sampling-method RoundRobin": Case(
        f"--task translation_multi_simple_epoch --lang-pairs src-tgt,tgt-src --langs src,tgt --encoder-langtok src"
        f" --decoder-langtok --sampling-method RoundRobin {PAIR.replace('feedback_transformer', 'transformer')}",
        "both_ways", once=0,
    ),
    "masked_lm, --num-workers 1": Case(f"{MASKED} --num-workers 1", "lines"),
    "sentence_prediction": Case(
        f"--task sentence_prediction --criterion sentence_prediction --num-classes 2 --init-token 0 --batch-size 8"
        f" --max-positions 16 {ROBERTA}", "labelled_sentences",
    ),
    "streams": Case(STREAMING, "lines", once=0),
    "streams, two shards": Case(STREAMING, "lines:other_lines", once=0),
    "streams, --update-freq 2": Case(f"{STREAMING} --update-freq 2", "lines", once=0),
    "streams, two ranks": Case(STREAMING.replace("--batch-size 4", "--batch-size 2"), "lines", ranks=2, once=0),
    "streams, --stream-offset random and blocks of two lengths": Case(
        f"{STREAMING} --stream-offset random --block-warmup 7 --block-warmup-updates 9", "lines", once=0
    ),
    "labelled_stream": Case(f"--task labelled_stream {LABELS}", "labels", once=0),
    "synthetic_stream": Case(
        f"--task synthetic_stream --train-episodes 20 --train-length 8 --test-episodes 8 {LABELS}", once=0
    ),
    "algorithmic_curriculum": Case(
        "--task algorithmic_curriculum --criterion label_cross_entropy --arch active_memory_algorithmic --batch-size 8"
        f" --decoder-layers 1 --epoch-batches 5 --algorithm not --start-size 2 {TINY}", once=0,
    ),
    "reinforcement_learning": Case(
        "--task reinforcement_learning --criterion a2c --arch feedback_agent_tiny --bptt 6 --batch-size 4"
        " --updates-per-epoch 5 --test-episodes 4 --environment fairseq_plugins/Corridor-v0"
        " --environment-settings {\"length\":4} --optimizer rmsprop --lr 0.01", once=0,
    ),
    "reinforcement_learning, ppo": Case(
        "--task reinforcement_learning --criterion ppo --updates-per-block 3 --arch gru_agent_tiny --bptt 6"
        " --batch-size 4 --updates-per-epoch 5 --test-episodes 4 --environment fairseq_plugins/Corridor-v0"
        " --environment-settings {\"length\":4,\"max_steps\":7} --optimizer adam --lr 0.01", once=0,
    ),
}  # fmt: skip


class Trial(NamedTuple):
    """The outcome of a training that stopped.

    Attributes:
        off: the largest difference of a weight
        reads: are the samples of each epoch those of the training that did not stop?
        once: does each epoch have each sample once?
    """

    off: float
    reads: bool
    once: bool

    @property
    def equal(self) -> bool:
        return self.off == 0 and self.reads and self.once

    def __str__(self):
        faults = {
            f"weights differ by {self.off:.1g}": self.off,
            "reads other samples": not self.reads,
            "some come twice": not self.once,
        }
        return ", ".join(fault for fault, is_one in faults.items() if is_one) or "equal"


class Trials:
    """Trainings in a folder, which gets the data."""

    def __init__(self, folder: Path):
        self.folder, self.made, self.read = folder, {}, {}
        in_processes([(write_data, folder)], folder / "log")

    def whole(self, name: str) -> tuple[Path, int]:
        """The folder of the training that never stopped, and its updates in the first epoch."""
        if name not in self.made:
            save = self.folder / f"whole{len(self.made)}"
            self.train(name, save)
            self.made[name] = save, max(read for read in reads_of(save) if read[0] == 1)[1]
        return self.made[name]

    def stopped(self, name: str, stop: str) -> Trial:
        whole, updates = self.whole(name)
        save = self.folder / f"stopped{len(list(self.folder.glob('stopped*')))}"
        for options in STOPS[stop].options(updates):
            self.train(name, save, options, STOPS[stop].killed_at(updates))
        self.train(name, save)
        return compare(whole, save, CASES[name])

    def train(self, name: str, save: Path, options: dict | None = None, killed_at: int | None = None) -> None:
        """Train to the end, or as ``options`` say."""
        save.mkdir(exist_ok=True)
        cfg, ranks = self.settings(name), CASES[name].ranks
        OmegaConf.update(cfg, "checkpoint.save_dir", str(save))
        for option, value in (options or {}).items():
            part = next(part for part in ("optimization", "checkpoint") if option in cfg[part])
            OmegaConf.update(cfg, f"{part}.{option}", value)
        if ranks > 1:
            join = {"distributed_world_size": ranks, "distributed_init_method": f"file://{save}/{random.random()}"}
            OmegaConf.update(cfg, "distributed_training", join)
        works = [(train_here, cfg, save, rank, killed_at) for rank in range(ranks)]
        in_processes(works, save / "log", KILLED if killed_at else 0)

    def settings(self, name: str) -> DictConfig:
        """A copy of fairseq-train's settings for a command: hydra takes longer to make them than the training takes."""
        case = CASES[name]
        if name not in self.read:
            data = [os.pathsep.join(str(self.folder / part) for part in case.data.split(":"))] if case.data else []
            words = [*data, *COMMON.split(), *case.options.split()]
            args = fairseq.options.parse_args_and_arch(fairseq.options.get_training_parser(), words)
            self.read[name] = convert_namespace_to_omegaconf(args)
        return copy.deepcopy(self.read[name])


COMMON = (
    f"--user-dir {ROOT / 'fairseq_plugins'} --cpu --num-workers 0 --no-progress-bar --log-format simple"
    f" --required-batch-size-multiple 1 --no-epoch-checkpoints --max-epoch {EPOCHS}"
)
KILLED = 9


def in_processes(works: list[tuple], log: Path, status: int = 0) -> None:
    """Call functions, each in a process of its own."""
    processes = [PROCESSES.Process(target=with_log, args=(log, *work)) for work in works]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode != status:
            raise RuntimeError(f"{log}: exit status {process.exitcode}\n{log.read_text()[-3000:]}")


def with_log(log: Path, work, *arguments) -> None:
    with open(log, "a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    work(*arguments)


def train_here(cfg: DictConfig, save: Path, rank: int, killed_at: int | None) -> None:
    """fairseq-train in this process, which writes down what each update reads."""
    begin, step = Trainer.begin_epoch, Trainer.train_step
    epochs = []

    def begin_epoch(self, epoch):
        epochs.append(epoch)
        return begin(self, epoch)

    def train_step(self, samples, *args):
        if self.get_num_updates() + 1 == killed_at:
            os._exit(KILLED)
        with open(save / f"reads{rank}", "a") as reads:
            read = [list(map(int, sample.get("id", []))) if sample else [] for sample in samples]
            blocks = [int(sample["block"]) for sample in samples if sample and "block" in sample]
            print(json.dumps([epochs[-1], self.get_num_updates() + 1, rank, blocks or read]), file=reads)
        return step(self, samples, *args)

    Trainer.begin_epoch, Trainer.train_step = begin_epoch, train_step
    cfg.distributed_training.distributed_rank = rank
    distributed_utils.call_main(cfg, fairseq_cli.train.main)


def reads_of(save: Path) -> list:
    """[epoch, update, rank, samples of each batch] of every update; of updates that were made twice the later one."""
    last: dict = {}
    for file in save.glob("reads*"):
        for line in file.read_text().splitlines():
            epoch, update, rank, read = json.loads(line)
            last[update, rank] = [epoch, update, rank, read]
    return [last[place] for place in sorted(last)]


def compare(whole: Path, save: Path, case: Case) -> Trial:
    one, other = (weights(torch.load(each / "checkpoint_last.pt")) for each in (whole, save))
    off = max(float((one[name] - other[name]).abs().max()) for name in one)
    reads = reads_of(save)
    counts = [Counter() for _ in range(EPOCHS)]
    for epoch, _, _, read in reads:
        counts[epoch - 1].update(number for batch in read for number in batch) if case.once else None
    once = all(count == Counter(range(case.once)) for count in counts if case.once)
    return Trial(off, reads == reads_of(whole), once)


def weights(checkpoint: dict) -> dict[str, Any]:
    averages = {f"ema.{name}": value for name, value in checkpoint["extra_state"].get("ema", {}).items()}
    return {name: value.float() for name, value in {**checkpoint["model"], **averages}.items()}


def write_data(folder: Path) -> None:
    """Pairs, lines, streams with labels and sentences with labels, and others with the same dictionaries."""
    for name in ("pairs", "others"):
        raw = write_reversals(folder / f"raw_{name}", {"train": PAIRS, "valid": 12})
        if name == "others":
            for file in raw.glob("train.*"):  # the same lines, backwards: another order, other batches
                file.write_text("\n".join(file.read_text().splitlines()[::-1]) + "\n")
        sides = ["--source-lang", "src", "--target-lang", "tgt", "--joined-dictionary"]
        known = ["--srcdict", folder / "pairs/dict.src.txt"] if name == "others" else []
        binarise(*sides, *known, *prefixes(raw, ""), "--destdir", folder / name)
        lines = ["--srcdict", folder / "lines/dict.txt"] if name == "others" else []
        lines_folder = folder / ("lines" if name == "pairs" else "other_lines")
        binarise("--only-source", *lines, *prefixes(raw, ".src"), "--destdir", lines_folder)
    for language, lines_folder in {"aa": "lines", "bb": "other_lines"}.items():
        shutil.copytree(folder / lines_folder, folder / "languages" / language)
    shutil.copy(folder / "lines/dict.txt", folder / "languages")
    raw = folder / "raw_pairs"
    known = ["--srcdict", folder / "pairs/dict.src.txt", "--joined-dictionary"]
    for source, target in (("src", "tgt"), ("tgt", "src")):
        sides = ["--source-lang", source, "--target-lang", target]
        binarise(*sides, *known, *prefixes(raw, ""), "--destdir", folder / f"{source}_{target}")
        shutil.copytree(folder / f"{source}_{target}", folder / "both_ways", dirs_exist_ok=True)
    for split in ("train", "valid"):
        count = len((raw / f"{split}.src").read_text().splitlines())
        (raw / f"{split}.label").write_text("".join(f"{number % 2}\n" for number in range(count)))
    binarise("--only-source", *prefixes(raw, ".src"), "--destdir", folder / "labelled_sentences/input0")
    binarise("--only-source", *prefixes(raw, ".label"), "--destdir", folder / "labelled_sentences/label")
    labels = folder / "labels"
    binarise("--only-source", *prefixes(raw, ".src"), "--destdir", labels)
    for split in ("train", "valid"):
        for end in ("bin", "idx"):  # a token's label is the token itself
            (labels / f"{split}.labels.{end}").write_bytes((labels / f"{split}.{end}").read_bytes())


def prefixes(raw: Path, suffix: str) -> list:
    return [word for split in ("train", "valid") for word in (f"--{split}pref", f"{raw / split}{suffix}")]


def binarise(*words) -> None:
    sys.argv = ["fairseq-preprocess", *map(str, words)]
    preprocess.cli_main()


def table(folder: Path, names: list[str], stops: list[str]) -> bool:
    """Print the outcome of each training with each stop, as a table. Was every one equal?"""
    trials, right = Trials(folder), True
    print("| training |", " | ".join(stops), "|", flush=True)
    for name in names:
        cells = [trials.stopped(name, stop) for stop in stops]
        print(f"| {name} |", " | ".join(map(str, cells)), "|", flush=True)
        right &= all(trial.equal for trial in cells)
    return right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", choices=CASES, metavar="NAME", help="by default all of them")
    parser.add_argument("--stops", nargs="*", choices=STOPS, default=list(STOPS), metavar="STOP", help="(%(default)s)")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        sys.exit(not table(Path(folder), [args.training] if args.training else list(CASES), args.stops))


if __name__ == "__main__":
    main()
