"""fairseq's commands from one process that has imported everything: a copy of it (a fork) runs each command, so that a
command costs what it does and not five seconds of imports besides."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TRACEBACK = "Traceback (most recent call last)"


class Done(NamedTuple):
    """What came of a command. A ``returncode`` below 0 is a signal's number, as subprocess has it."""

    returncode: int
    output: str

    @property
    def told(self) -> list[str]:
        """The sentences for the user."""
        return [line for line in self.output.splitlines() if line.startswith("fairseq_plugins: error: ")]

    @property
    def verdict(self) -> str:
        """honoured, refused (with one sentence), or what should never happen."""
        if self.returncode < 0:
            return f"signal {signal.Signals(-self.returncode).name}"
        if TRACEBACK in self.output:
            return "traceback"
        if self.returncode == 0:
            return "honoured"
        return "refused" if len(self.told) == 1 else "no sentence"


class Warm:
    """Runs commands such as ``fairseq-train``, one at a time, as a context manager."""

    def __enter__(self):
        env = {**os.environ, "PYTHONWARNINGS": "ignore", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__]
        self.server = subprocess.Popen(command, env=env, cwd=ROOT, text=True, stdin=-1, stdout=-1, stderr=-3)
        return self

    def __exit__(self, *error):
        self.server.stdin.close()
        self.server.wait()

    def __call__(self, *command, log: Path, seconds: int = 120) -> Done:
        """Run a command with its output in ``log``; one that takes longer than ``seconds`` dies of SIGALRM."""
        request = {"command": [str(word) for word in command], "log": str(log), "seconds": seconds}
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        return Done(int(self.server.stdout.readline()), log.read_text(errors="replace"))


def serve() -> None:
    """Fork for each line of JSON on stdin, answer with the exit status on stdout."""
    sys.path.insert(0, str(ROOT))
    from fairseq_cli import eval_lm, generate, interactive, preprocess, train, validate

    mains = {
        f"fairseq-{module.__name__.rpartition('.')[2].replace('_', '-')}": module.cli_main
        for module in (eval_lm, generate, interactive, preprocess, train, validate)
    }
    from argparse import Namespace

    from fairseq import utils

    utils.import_user_module(Namespace(user_dir=str(ROOT / "fairseq_plugins")))
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            become(mains[request["command"][0]], request)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def become(main, request: dict) -> None:
    """Be the command, as Python runs a script, from its arguments to its exit status."""
    output = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.alarm(request["seconds"])
    sys.argv = request["command"]
    try:
        main()
        status = 0
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


if __name__ == "__main__":
    serve()
