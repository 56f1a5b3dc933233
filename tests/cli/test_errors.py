"""Wrong input through the real commands: refused at start with one sentence that names the flag or file.

These are faults that no advice mends, one for each check; test_ways_out.py has the others. What a check says of other
values is in tests/compat, tests/test_ranges.py and tests/test_combinations.py.
"""

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

from fairseq_plugins.error_messages import sentence
from fairseq_plugins.errors import UserError


class RunsCode:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


class Site:
    """A folder with a checkpoint that a case may damage, and the commands.

    Args:
        data: the binarised data
        flags: those of a training
    """

    def __init__(self, folder: Path, data: Path, checkpoint: Path, flags: list, user_dir: Path):
        self.folder, self.data, self.flags, self.user_dir = folder, data, flags, ["--user-dir", user_dir]
        self.checkpoint = Path(shutil.copy(checkpoint, folder / "model.pt"))

    def train(self, *flags, data=None):
        command = ["fairseq-train", data or self.data, *self.user_dir, *self.flags, "--max-update", 2]
        return [*command, "--save-dir", self.folder / "save", *flags]

    def restore(self):
        return self.train("--restore-file", self.checkpoint, "--max-update", 14)

    def generate(self, *flags, command="fairseq-generate", path=None):
        return [command, self.data, *self.user_dir, "--cpu", "--path", path or self.checkpoint, *flags]

    def validate(self):
        return self.generate("--task", "translation", "--max-tokens", 600, command="fairseq-validate")

    def preprocess(self):
        words = ["fairseq-preprocess", *self.user_dir, "--source-lang", "src", "--only-source", "--trainpref", "none"]
        return [*words, "--srcdict", self.data / "dict.src.txt", "--destdir", self.folder]


def cut(site):
    os.truncate(site.checkpoint, 5000)


def cut_last(site):
    (site.folder / "save").mkdir()
    os.truncate(shutil.copy(site.checkpoint, site.folder / "save/checkpoint_last.pt"), 5000)


def lose_last(site):
    (site.folder / "save").mkdir()
    shutil.copy(site.checkpoint, site.folder / "save/checkpoint1.pt")


def evil(site):
    torch.save({"model": {}, "args": argparse.Namespace(), "x": RunsCode(site.folder / "ran")}, site.checkpoint)


def changed(change):
    """Damage: something in the state of the checkpoint is changed."""

    def damage(site):
        state = torch.load(site.checkpoint, weights_only=False)
        change(state)
        torch.save(state, site.checkpoint)

    return damage


def spoil_weights(state):
    next(weights for name, weights in state["model"].items() if name.endswith("fc1.weight"))[0, 0] = math.nan


infinite = changed(lambda state: [w.fill_(math.inf) for w in state["model"].values() if w.is_floating_point()])
no_settings = changed(lambda state: state.update(cfg="text", args=None))
layers_are_text = changed(lambda state: setattr(state["cfg"]["model"], "encoder_layers", "x"))
no_task = changed(lambda state: state["cfg"].update(task={"_name": "nonsense"}))
no_place = changed(lambda state: state["extra_state"].pop("train_iterator"))
task_is_text = changed(lambda state: state.update(task_state="abc"))
no_meter = changed(lambda state: state["extra_state"].update(metrics={"default": [(0, "x", "time", {})]}))
optimizer_of_numbers = changed(lambda state: state.update(last_optimizer_state={"state": 3}))
other_shapes = changed(lambda state: state["last_optimizer_state"]["state"][0].update(exp_avg=torch.zeros(3)))

# name: (site -> None, the damage; site -> the command; words of the sentence)
CASES = {
    "no data folder": (None, lambda s: s.train(data="nowhere"), "nowhere.*No such file"),
    "no such split": (None, lambda s: s.generate("--gen-subset", "dev"), "no split dev.*--gen-subset"),
    "folder for checkpoint": (None, lambda s: s.generate(path=s.folder), "Is a directory"),
    "truncated checkpoint": (cut, Site.generate, "model.pt is damaged"),
    "checkpoint that runs code": (evil, Site.generate, r"model.pt holds a \w+\.mkdir"),
    "half of checkpoint_last.pt": (cut_last, Site.train, "checkpoint_last.pt is damaged.*--restore-file"),
    "checkpoint_last.pt lost": (lose_last, Site.train, "no checkpoint_last.pt.*--restore-file .*checkpoint1.pt"),
    "a number that does not fit": (None, lambda s: s.train("--lr", -1), "--lr -1 does not fit; give .* at least 0"),
    "fp16 on a CPU": (None, lambda s: s.train("--fp16"), "--fp16 needs a GPU"),
    "a full disk": (lambda s: (s.folder / "dict.src.txt").symlink_to("/dev/full"), Site.preprocess,
                    r"--destdir \S+( or standard output)? could not be written \(No space left on device\); make room"),
    # the content of a checkpoint
    "nan among the weights": (changed(spoil_weights), Site.generate, r"holds weights .* \(nan in \S+fc1.weight\)"),
    "going on from nan": (changed(spoil_weights), Site.restore, "model.pt holds weights that are not numbers"),
    "infinite weights": (infinite, Site.generate, r"model.pt holds weights that are not numbers \(inf in "),
    "going on from infinity": (infinite, Site.restore, r"model.pt holds weights that are not numbers \(inf in "),
    "settings that are text": (no_settings, Site.generate, "model.pt does not hold the settings of its model"),
    "layers that are text": (layers_are_text, Site.generate, r"does not hold the content of fairseq \(TypeError: "),
    "a task of nobody's": (no_task, Site.validate, r"model.pt does not hold the content of fairseq \(\w+: .*nonsense"),
    "a task's state that is text": (task_is_text, Site.generate, "does not hold the task_state that fairseq saves"),
    "no place": (no_place, Site.restore, "model.pt does not hold the position of its training in the data"),
    "a meter of no kind": (no_meter, Site.restore, r"the content of fairseq \(TypeError: 'module' object .*\)"),
    "optimiser of numbers": (optimizer_of_numbers, Site.restore, r"of fairseq \(KeyError: 'param_groups'\)"),
    "optimiser of other parameters": (other_shapes, Site.restore, "optimiser for other parameters.* --reset-optimizer"),
}  # fmt: skip


@pytest.fixture
def site(reverse_corpus, trained, tiny_flags, user_dir, tmp_path):
    return Site(tmp_path, reverse_corpus.bin, trained.checkpoint, tiny_flags, user_dir)


@pytest.mark.parametrize("damage, command, words", CASES.values(), ids=CASES)
def test_one_sentence(damage, command, words, site, warm):
    if damage:
        damage(site)
    done = warm(*command(site), log=site.folder / "log")
    assert done.verdict == "refused", done.output[-3000:]
    assert re.search(words, done.told[0])
    assert not list((site.folder / "save").glob("checkpoint_best.pt")), "trained all the same"
    assert not (site.folder / "ran").exists(), "ran code"


@pytest.mark.parametrize("case", ["no such split", "a number that does not fit"])
def test_one_sentence_of_a_command_of_its_own(case, site, run):
    """The others share a process that has imported everything."""
    _, command, words = CASES[case]
    done = run(*command(site), check=False, input="")
    told = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert told.startswith("fairseq_plugins: error: ") and re.search(words, told)
    assert "Traceback" not in done.stderr


def test_what_a_command_does_not_read_may_be_anything(site, warm):
    """The first update of a new training, with no other part of the old one than the weights."""
    optimizer_of_numbers(site)
    done = warm(*site.train("--finetune-from-model", site.checkpoint), log=site.folder / "log")
    assert done.verdict == "honoured", done.output[-3000:]


def test_the_traceback_on_demand(site, run):
    done = run(*site.generate(path="none.pt"), check=False, env={"FAIRSEQ_PLUGINS_TRACEBACK": "1"})
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
