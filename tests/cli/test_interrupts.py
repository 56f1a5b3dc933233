"""Ctrl-C, and standard input and output that are closed or full: a line or none, no traceback."""

import os
import signal
import subprocess
import sys

import limits
import pytest
from fairseq.trainer import Trainer
from trainings import assert_same_weights

from fairseq_plugins.error_messages import sentence

FULL = "standard output could not be written (No space left on device)"
CLOSED = "standard output could not be written (Bad file descriptor)"


def shell(program: str, redirections: str = "", **variables) -> subprocess.CompletedProcess:
    """Run a program that has the error hook, as all have that import fairseq and the suite."""
    hooked = f"from fairseq_plugins.startup import error_hook\nerror_hook.install()\n{program}"
    words = ["bash", "-c", f'exec "$0" -c "$1" {redirections}', sys.executable, hooked]
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, **variables})


def test_an_interrupt_is_one_line_and_the_signal_ends_the_process():
    done = shell("import os, signal\nos.kill(os.getpid(), signal.SIGINT)")
    assert done.stderr == "fairseq_plugins: interrupted\n" and done.returncode == -signal.SIGINT  # 130 in a shell


@pytest.mark.parametrize(
    "redirection, said",
    [(">/dev/full", FULL), (">&-", CLOSED), ("<&- >&- 2>&-", None), ("2>&-", None), ("| true", None)],
)
@pytest.mark.parametrize(
    "program, buffered",
    [("print('text')", ""), ("print('text')", "1"), ("import sys; sys.stdout.buffer.write(b'a')", "")],
)
def test_output_that_goes_nowhere_is_said_once(redirection, said, program, buffered):
    done = shell(program, redirection, PYTHONUNBUFFERED=buffered)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    if said:
        assert done.stderr.startswith(f"fairseq_plugins: error: {said}") and done.stderr.count("\n") == 1
        assert done.returncode


def test_nothing_can_be_read_from_a_closed_input():
    done = shell("import sys; sys.stdin.read()", "<&-")
    assert done.returncode == 1
    assert done.stderr == (
        "fairseq_plugins: error: cannot use standard input or output: Bad file descriptor; it is closed: give it a file"
        " or a pipe.\n"
    )


def test_a_file_does_not_take_the_number_of_a_closed_output(tmp_path):
    shell(f"import os\nfile = open({str(tmp_path / 'file')!r}, 'w')\nassert file.fileno() > 2\nprint('text')", ">&-")
    assert (tmp_path / "file").read_text() == ""


def test_an_interrupted_training_goes_on_as_if_it_had_not_been(trained, reverse_corpus, user_dir, tmp_path):
    """With workers that read the data."""
    words = [*trained.command[:-1], 6, "--num-workers", 2, "--save-interval-updates", 2, "--no-epoch-checkpoints"]

    def at_the_fourth_update():
        train_step, updates = Trainer.train_step, iter(range(9))

        def interrupted(*args, **kwargs):
            if next(updates) == 3:
                os.kill(os.getpid(), signal.SIGINT)
            return train_step(*args, **kwargs)

        Trainer.train_step = interrupted

    whole = limits.run(None, tmp_path, *words, "--save-dir", tmp_path / "whole")
    assert whole.verdict == "honoured", whole.output[-3000:]
    stopped = limits.run(None, tmp_path, *words, "--save-dir", tmp_path / "stopped", before=at_the_fourth_update)
    assert stopped.returncode == 130 and stopped.output.endswith("fairseq_plugins: interrupted\n")
    assert "Traceback" not in stopped.output
    assert limits.run(None, tmp_path, *words, "--save-dir", tmp_path / "stopped").verdict == "honoured"
    assert_same_weights(tmp_path / "whole", tmp_path / "stopped")


def test_what_the_system_says_without_a_name_names_the_outputs(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tool", "in.txt", "--json=a.json", "--save-dir", "runs"])
    for error in (OSError(28, "No space left"), OSError("4096 requested and 0 written")):
        assert sentence(error).startswith("--json a.json or --save-dir runs")
    assert sentence(OSError(40, "loop", "a")) == (
        "cannot use a: Too many levels of symbolic links; its links lead in a circle: check the path."
    )
    spawned = RuntimeError("Process 1 terminated:\nTraceback ...\nOSError: [Errno 30] Read-only file system: '/a/b'\n")
    assert sentence(spawned) == "/a/b could not be written (Read-only file system); choose another folder."
    assert sentence(ConnectionRefusedError(111, "Connection refused")) is None
