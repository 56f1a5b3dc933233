"""fairseq's commands, each in a process of its own: a fork of the cell's, in which everything is imported."""

import json
import sys
from collections.abc import Callable
from multiprocessing import Process
from pathlib import Path

from fairseq_cli import preprocess, train

USER_DIR = Path(__file__).resolve().parents[2] / "fairseq_plugins"


def call(main: Callable[[], None], *words) -> None:
    """A command by its main function, with these words. Its output is the cell's."""
    process = Process(target=as_command, args=(main, list(map(str, words))))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"a command ended with status {process.exitcode}: {' '.join(map(str, words))}")


def as_command(main: Callable[[], None], words: list[str]) -> None:
    sys.argv = ["command", *words]
    main()


def fairseq_train(*words) -> None:
    call(train.cli_main, "--user-dir", USER_DIR, "--no-progress-bar", "--num-workers", 0, *words)


def fairseq_preprocess(*words) -> None:
    call(preprocess.cli_main, "--user-dir", USER_DIR, *words)


def figures(log: Path) -> list[dict[str, str]]:
    """The figures of each update in the log of a training (--log-format json), every number as text. From the second
    epoch on fairseq writes lines twice."""
    lines = log.read_text().splitlines() if log.exists() else []
    told = [json.loads(line) for line in lines if line.startswith('{"')]
    return list({figures["num_updates"]: figures for figures in told if "num_updates" in figures}.values())
