"""Wrong input through the real commands: refused at start with one sentence that names the flag or file."""

import argparse
import logging
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairseq_plugins.errors import UserError
from fairseq_plugins.startup.error_messages import sentence
from fairseq_plugins.synthetic.synthetic_stream import SyntheticStreamConfig


class Site:
    """What a case works on: copies of the data and of a checkpoint that it may damage, and the commands."""

    def __init__(self, folder: Path, data: Path, checkpoint: Path, flags: list, user_dir: Path):
        self.folder, self.flags, self.user_dir = folder, flags, ["--user-dir", user_dir]
        self.data = shutil.copytree(data, folder / "bin")
        self.checkpoint = shutil.copy(checkpoint, folder / "model.pt")

    def train(self, *flags, data=None):
        command = ["fairseq-train", data or self.data, *self.user_dir, *self.flags, "--max-update", 2]
        return [*command, "--save-dir", self.folder / "save", *flags]

    def use(self, command, *flags, data=None, path=None):
        return [command, data or self.data, *self.user_dir, "--cpu", "--path", path or self.checkpoint, *flags]

    def generate(self, *flags, **kwargs):
        return self.use("fairseq-generate", *flags, **kwargs)


def without(site, *names):
    for name in names:
        (site.data / name).unlink()


def change(site, what):
    """Save the checkpoint again with something in it changed."""
    state = torch.load(site.checkpoint, weights_only=False)
    what(state)
    torch.save(state, site.checkpoint)


def spoil_weights(state):
    next(weights for name, weights in state["model"].items() if name.endswith("fc1.weight"))[0, 0] = math.nan


def spoil_optimizer(state):
    state["last_optimizer_state"]["state"][0]["exp_avg"] = torch.zeros(3)


def lose_parameter(state):
    state["last_optimizer_state"]["param_groups"][0]["params"].pop()


def cut(file: Path, size: int) -> Path:
    os.truncate(file, size)
    return file


def write(file: Path, text: bytes) -> Path:
    file.write_bytes(text)
    return file


def more_words(site):
    for side in ("src", "tgt"):
        with open(site.data / f"dict.{side}.txt", "a") as dictionary:
            dictionary.write("z 1\n")


def fewer_words(site):
    for side in ("src", "tgt"):
        write(site.data / f"dict.{side}.txt", b"a 1\nb 1\n")


class RunsCode:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def evil(site):
    torch.save({"model": {}, "args": argparse.Namespace(), "x": RunsCode(site.folder / "ran")}, site.checkpoint)


def interrupted_copy(site):
    """A save folder whose checkpoint_last.pt is half a file."""
    (site.folder / "save").mkdir()
    cut(Path(shutil.copy(site.checkpoint, site.folder / "save" / "checkpoint_last.pt")), 5000)


def lost_last(site):
    (site.folder / "save").mkdir()
    shutil.copy(site.checkpoint, site.folder / "save" / "checkpoint1.pt")


# name: (site -> what to damage first, site -> command, what the sentence says)
CASES = {
    # data
    "no data folder": (None, lambda s: s.train(data="nowhere"), "nowhere.*No such file"),
    "empty data folder": (None, lambda s: s.train(data=s.folder), "data folder.*--source-lang"),
    "no dictionary": (
        lambda s: without(s, "dict.tgt.txt"),
        lambda s: s.train(),
        "dictionary .*dict.tgt.txt is missing",
    ),
    "wrong language": (None, lambda s: s.train("--source-lang", "xx", "--target-lang", "tgt"), "dict.xx.txt"),
    "no such split": (None, lambda s: s.generate("--gen-subset", "dev"), "no split dev.*--gen-subset"),
    "no training split": (None, lambda s: s.train("--train-subset", "all"), "no split all.*--train-subset"),
    "no .bin": (lambda s: without(s, "valid.src-tgt.tgt.bin"), lambda s: s.train(), "valid.src-tgt.tgt.bin is missing"),
    "no .idx": (lambda s: without(s, "valid.src-tgt.src.idx"), lambda s: s.train(), "no split valid, or lacks"),
    "truncated .bin": (
        lambda s: cut(s.data / "train.src-tgt.tgt.bin", 900),
        lambda s: s.train(),
        "tgt.bin has 900 bytes",
    ),
    "truncated .idx": (lambda s: cut(s.data / "train.src-tgt.src.idx", 900), lambda s: s.train(), "src.idx is damaged"),
    "stub of an .idx": (
        lambda s: cut(s.data / "test.src-tgt.src.idx", 3),
        lambda s: s.generate(),
        "src.idx is damaged",
    ),
    "empty .bin": (lambda s: cut(s.data / "test.src-tgt.src.bin", 0), lambda s: s.generate(), "src.bin is damaged"),
    "smaller dictionary": (fewer_words, lambda s: s.train(), "holds token .* dictionary has 6 entries"),
    "dictionary without counts": (
        lambda s: write(s.data / "dict.src.txt", b"a\nb\n"),
        lambda s: s.train(),
        "dictionary .* has the line 'a'",
    ),
    "word twice": (lambda s: write(s.data / "dict.src.txt", b"a 1\na 1\n"), lambda s: s.train(), "has 'a' twice"),
    "dictionary of bytes": (
        lambda s: write(s.data / "dict.src.txt", b"\xff\xfe 1\n"),
        lambda s: s.train(),
        "dict.src.txt is not UTF-8",
    ),
    "sentences longer than the model": (None, lambda s: s.train("--max-source-positions", 4), "--max-source-positions"),
    "batches shorter than a sentence": (None, lambda s: s.train("--max-tokens", 1), "raise --max-tokens"),
    # checkpoints
    "no checkpoint": (None, lambda s: s.generate(path="none.pt"), "none.pt does not exist"),
    "folder for checkpoint": (None, lambda s: s.generate(path=s.folder), "Is a directory"),
    "no --path": (None, lambda s: s.generate()[:-2], "--path is missing"),
    "nothing to validate": (
        None,
        lambda s: s.use("fairseq-validate", "--max-tokens", 99, "--task", "translation", path="none.pt"),
        "none.pt",
    ),
    "translation model as language model": (None, lambda s: s.use("fairseq-eval-lm"), "dict.txt is missing"),
    "overrides that are no dictionary": (
        None,
        lambda s: s.generate("--model-overrides", "beam=5"),
        "--model-overrides beam=5 is not a dictionary",
    ),
    "overrides of no option": (
        None,
        lambda s: s.generate("--model-overrides", "{'memory': 5}"),
        "the checkpoint has no option memory",
    ),
    "no input file": (None, lambda s: s.use("fairseq-interactive", "--input", "none.txt"), "none.txt.*No such file"),
    "truncated checkpoint": (lambda s: cut(Path(s.checkpoint), 5000), lambda s: s.generate(), "model.pt is damaged"),
    "text as checkpoint": (
        lambda s: write(Path(s.checkpoint), b"hello\n"),
        lambda s: s.train("--restore-file", s.checkpoint),
        "model.pt is damaged",
    ),
    "checkpoint that runs code": (evil, lambda s: s.generate(), r"model.pt holds a \w+\.mkdir"),
    "half of checkpoint_last.pt": (
        interrupted_copy,
        lambda s: s.train(),
        "checkpoint_last.pt is damaged.*--restore-file",
    ),
    "checkpoint_last.pt lost": (
        lost_last,
        lambda s: s.train(),
        "no checkpoint_last.pt.*--restore-file .*checkpoint1.pt",
    ),
    "nothing to restore": (
        None,
        lambda s: s.train("--restore-file", "none.pt"),
        "--restore-file none.pt does not exist",
    ),
    "nothing to finetune": (
        None,
        lambda s: s.train("--finetune-from-model", "none.pt"),
        "--finetune-from-model none.pt",
    ),
    "another depth": (
        None,
        lambda s: s.train("--restore-file", s.checkpoint, "--encoder-layers", 3),
        "model.pt has another architecture",
    ),
    "another architecture": (
        None,
        lambda s: s.train("--restore-file", s.checkpoint, "--arch", "transformer_tiny"),
        "has another architecture",
    ),
    "model of another dictionary": (
        more_words,
        lambda s: s.generate(),
        r"model.pt is of a text with other symbols than .*, as their dict.\w+.txt shows",
    ),
    "another optimizer": (
        None,
        lambda s: s.train("--restore-file", s.checkpoint, "--optimizer", "sgd"),
        "--reset-optimizer",
    ),
    "not a number among the weights": (
        lambda s: change(s, spoil_weights),
        lambda s: s.generate(),
        r"model.pt holds weights that are not numbers \(nan in \S+fc1.weight\)",
    ),
    "going on from what is not a number": (
        lambda s: change(s, spoil_weights),
        lambda s: s.train("--restore-file", s.checkpoint),
        "model.pt holds weights that are not numbers",
    ),
    "settings that are text": (
        lambda s: change(s, lambda state: state.update(cfg="text", args=None)),
        lambda s: s.generate(),
        "model.pt does not hold the settings of its model",
    ),
    "settings without a model": (
        lambda s: change(s, lambda state: state["cfg"].pop("model")),
        lambda s: s.generate(),
        "model.pt does not hold the settings of its model",
    ),
    "settings of no model": (
        lambda s: change(s, lambda state: state["cfg"].update(model=None)),
        lambda s: s.generate(),
        "model.pt is .*not a checkpoint of fairseq",
    ),
    "an architecture of somebody else's": (
        lambda s: change(s, lambda state: setattr(state["cfg"]["model"], "_name", "theirs")),
        lambda s: s.generate(),
        "model.pt has the architecture theirs, .* --user-dir",
    ),
    "no model": (
        lambda s: change(s, lambda state: state.update(model=None)),
        lambda s: s.generate(),
        "model.pt holds no model",
    ),
    "no optimiser state": (
        lambda s: change(s, lambda state: state.pop("last_optimizer_state")),
        lambda s: s.train("--restore-file", s.checkpoint),
        "model.pt holds no state of the optimiser: start .*--reset-optimizer",
    ),
    "optimiser state of other parameters": (
        lambda s: change(s, spoil_optimizer),
        lambda s: s.train("--restore-file", s.checkpoint, "--max-update", 14),
        "model.pt holds the state of an optimiser for other parameters.* --reset-optimizer",
    ),
    "optimiser state of fewer parameters": (
        lambda s: change(s, lose_parameter),
        lambda s: s.train("--restore-file", s.checkpoint, "--max-update", 14),
        "optimiser state of the checkpoint is for another model.* --reset-optimizer",
    ),
    # numbers and combinations: the first of each kind, the others are in test_ranges and test_combinations
    "a number that does not fit": (None, lambda s: s.train("--lr", -1), "--lr -1 does not fit; give .* at least 0"),
    "a number that kills": (
        None,
        lambda s: s.train("--required-batch-size-multiple", 0),
        "--required-batch-size-multiple 0 does not fit",
    ),
    "nan for a number": (None, lambda s: s.generate("--lenpen", "nan"), "--lenpen nan does not fit"),
    "options that exclude each other": (
        None,
        lambda s: s.generate("--diverse-beam-groups", 3),
        "--diverse-beam-groups 3 does not divide --beam 5",
    ),
    "wrong numbers in --model-overrides": (
        None,
        lambda s: s.generate("--model-overrides", "{'dropout': 5}"),
        "--model-overrides: --dropout 5 does not fit",
    ),
    "wrong numbers for the validation": (
        None,
        lambda s: s.train("--eval-bleu", "--eval-bleu-args", '{"beam": 0}'),
        "--eval-bleu-args: --beam 0 does not fit",
    ),
    "outputs longer than the model's": (
        None,
        lambda s: s.generate("--min-len", 1500, "--max-len-b", 2000),
        "--min-len 1500 is above the 1023 tokens that the model takes; lower it to 1023",
    ),
    "a missing package": (None, lambda s: s.train("--optimizer", "lamb"), "package that is missing .*apex"),
    "a choice that there is not": (
        None,
        lambda s: s.train("--arch", "mine"),
        "--arch.* invalid choice: 'mine'; --help",
    ),
    "a flag that there is not": (None, lambda s: s.train("--learning-rate", 1), "unrecognized .* --learning-rate 1"),
    "training that diverges": (
        None,
        lambda s: s.train("--lr", 1e30, "--max-update", 20),
        "training diverged.*lower --lr",
    ),
    "a full disk": (
        lambda s: os.symlink("/dev/full", s.folder / "dict.src.txt"),
        lambda s: [
            *("fairseq-preprocess", "--user-dir", s.user_dir[1], "--source-lang", "src", "--only-source"),
            *("--srcdict", s.data / "dict.src.txt", "--trainpref", s.data / "none", "--destdir", s.folder),
        ],
        r"--destdir \S+( or standard output)? could not be written \(No space left on device\); make room",
    ),
    # flags
    "no batch size": (lambda s: drop(s.flags, "--max-tokens"), lambda s: s.train(), "--max-tokens or --batch-size"),
    "buffer smaller than batch": (None, lambda s: s.use("fairseq-interactive", "--batch-size", 4), "--buffer-size"),
    "replace-unk": (None, lambda s: s.use("fairseq-interactive", "--replace-unk"), "--replace-unk does not work"),
    "unequal embeddings": (None, lambda s: s.train("--share-all-embeddings", "--decoder-embed-dim", 48), "--share-all"),
    "heads that do not divide": (None, lambda s: s.train("--encoder-attention-heads", 3), "--encoder-attention-heads"),
    "fp16 on a CPU": (None, lambda s: s.train("--fp16"), "--fp16 needs a GPU"),
    "two processes without torchrun": (
        None,
        lambda s: s.train("--distributed-world-size", 2),
        "torchrun --nproc_per_node 2",
    ),
    "a file for a folder": (None, lambda s: s.train("--save-dir", s.checkpoint), "model.pt.*check the path"),
    "adaptive loss": (None, lambda s: s.train("--criterion", "adaptive_loss"), "--ddp-backend legacy_ddp"),
    "segments without their model": (
        None,
        lambda s: s.generate("--bpe", "sentencepiece"),
        "sentencepiece_model is missing",
    ),
}


def drop(flags, name):
    del flags[flags.index(name) : flags.index(name) + 2]


@pytest.mark.parametrize("case", CASES)
def test_one_sentence(case, warm, reverse_corpus, trained, tiny_flags, user_dir, tmp_path):
    damage, command, words = CASES[case]
    site = Site(tmp_path, reverse_corpus.bin, trained.checkpoint, list(tiny_flags), user_dir)
    if damage:
        damage(site)
    done = warm(*command(site), log=tmp_path / "log")
    assert done.verdict == "refused", done.output[-3000:]
    assert re.search(words, done.told[0])
    assert not list((tmp_path / "save").glob("checkpoint_best.pt")), "trained all the same"
    assert not (tmp_path / "ran").exists(), "ran code"


@pytest.mark.parametrize("case", ["no such split", "truncated checkpoint", "a number that does not fit"])
def test_one_sentence_of_a_command_of_its_own(case, run, reverse_corpus, trained, tiny_flags, user_dir, tmp_path):
    """The others share a process that has imported everything."""
    damage, command, words = CASES[case]
    site = Site(tmp_path, reverse_corpus.bin, trained.checkpoint, list(tiny_flags), user_dir)
    if damage:
        damage(site)
    done = run(*command(site), check=False, input="")
    told = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert told.startswith("fairseq_plugins: error: ") and re.search(words, told)
    assert "Traceback" not in done.stderr


def test_the_traceback_on_demand(run, reverse_corpus, user_dir):
    command = ["fairseq-generate", reverse_corpus.bin, "--user-dir", user_dir, "--path", "none.pt", "--cpu"]
    done = run(*command, check=False, env={"FAIRSEQ_PLUGINS_TRACEBACK": "1"})
    assert done.returncode
    assert "Traceback" in done.stderr and "Model file not found" in done.stderr


def test_a_fault_of_the_program_keeps_its_traceback():
    assert sentence(ZeroDivisionError("division by zero")) is None


def test_the_sentence_is_found_behind_other_errors():
    try:
        try:
            raise UserError("--depth 0 is no depth.")
        except UserError as error:
            raise RuntimeError("cannot build the model") from error
    except RuntimeError as error:
        assert sentence(error) == "--depth 0 is no depth."


@pytest.mark.parametrize(
    "use, words",
    [
        (lambda cfg: cfg.task.update(test_episodes="abc"), "test_episodes .*'abc' .*Integer.* --model-overrides"),
        (lambda cfg: cfg.model.longest, "takes longest_of_all from its --task, .* another --arch"),
    ],
)
def test_what_the_configuration_cannot_hold(use, words):
    task = OmegaConf.structured(SyntheticStreamConfig())
    cfg = OmegaConf.create({"task": task, "model": {"longest": "${task.longest_of_all}"}})
    with pytest.raises(OmegaConfBaseException) as raised:
        use(cfg)
    assert re.search(words, sentence(raised.value))


def test_the_sentence_of_a_spawned_process():
    """torch hands over the traceback of a process that it started as text."""
    text = "-- Process 0 terminated with the following error:\nTraceback ...\n"
    text += "fairseq_plugins.errors.UserError: no such file.\n"
    assert sentence(RuntimeError(text)) == "no such file."


def test_a_log_on_a_full_disk_is_said_once(capsys):
    handler = logging.FileHandler("/dev/full")
    for _ in range(3):
        handler.emit(logging.LogRecord("train", logging.INFO, "", 0, "loss 3", (), None))
    assert capsys.readouterr().err == (
        "fairseq_plugins: warning: /dev/full cannot be written (No space left on device); going on.\n"
    )


def test_a_log_with_a_fault_keeps_its_traceback(capsys):
    handler = logging.StreamHandler()
    handler.emit(logging.LogRecord("train", logging.INFO, "", 0, "loss %d", ("three",), None))
    assert "Traceback" in capsys.readouterr().err


def test_nobody_has_to_read_to_the_end():
    program = "import fairseq_plugins.tools\nfor number in range(10**6): print(number)"
    writing = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    writing.stdout.readline()
    writing.stdout.close()
    assert writing.stderr.read() == b"" and writing.wait() == 1
