"""Run a command that makes a file, unless the file is there.

    python recipes/lib/step.py runs/x/average.pt --after runs/x/trained -- python -m ...average_checkpoints ...
    python recipes/lib/step.py runs/x/test.txt --after runs/x/average.pt --capture -- fairseq-generate ...

The command runs again if the file is older than one of the files of --after, or if one of these changed meanwhile, if
another command made it, or one that was stopped, or if the data of --data have changed.

With --capture the file gets what the command prints, but only if the command succeeds. Its stderr is written beside
the file, with the suffix .log. The terminal shows how far it is, and what is no record of a log. Two calls for one file
wait for one another. In a folder that cannot be written no file of --stamp is made.
"""

import argparse
import fcntl
import glob
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import commands
import data_checksum
import places
import progress
import say

from fairseq_plugins.files.whole import replacing

UNFINISHED = "unfinished"  # in the place of a command, until that has ended


def read(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options, and the command after them."""
    own, command = say.split(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="the file that the command makes")
    parser.add_argument("--after", type=Path, nargs="*", default=[], metavar="FILE", help="files that it is made from")
    parser.add_argument("--stamp", action="store_true", help="write an empty file when the command has ended")
    parser.add_argument("--always", action="store_true", help="remove the file first, so the command runs")
    parser.add_argument("--if", dest="needed", type=Path, metavar="FILE", help="do nothing unless this file exists")
    parser.add_argument("--data", default="", help="folder of the prepared corpus that the command reads")
    parser.add_argument("--capture", action="store_true", help="the command prints the content of the file")
    return parser.parse_args(own), command


def main():
    args, command = read(sys.argv[1:])
    if args.needed and not args.needed.exists():
        return
    if args.stamp and args.file.parent.exists() and not os.access(args.file.parent, os.W_OK):
        # the command finds that all is done, or says what is not
        sys.exit(subprocess.run(commands.resolved(command)).returncode)
    args.file.parent.mkdir(parents=True, exist_ok=True)
    record = args.file.with_name(args.file.name + ".command")
    with alone_with(record):
        make(args, record, commands.resolved(command))


def make(args, record: Path, command: list[str]) -> None:
    if args.always:
        args.file.unlink(missing_ok=True)
    made_by = shlex.join(places.resolved(command)) + data_checksum.line(args.data)
    if args.file.exists() and not older(args.file, args.after) and is_by(record, made_by):
        say.say(f"{args.file} is there")
        return
    if data_checksum.differs_from_training(args.file.parent, args.data):
        say.stop(f"{args.data} has other data than {args.file.parent} was trained on; give another --data or --out.")
    say.say(commands.typed(command))
    record.write_text(f"{UNFINISHED}\n")
    before = [*map(state, args.after)]
    if args.capture:
        capture(command, args.file)
    elif status := subprocess.run(command).returncode:
        sys.exit(status)
    if changed := [file for file, earlier in zip(args.after, before) if state(file) != earlier]:
        say.stop(f"{changed[0]} changed while {args.file} was made from it: give the same command again.")
    if args.stamp:
        args.file.touch()
    record.write_text("" if args.stamp else f"{made_by}\n")


@contextmanager
def alone_with(record: Path) -> Iterator[None]:
    """Wait until no other call is at work on this file."""
    with open(record, "a") as file:
        with suppress(OSError):  # a file system without locks
            lock(file, record)
        yield


def lock(file, record: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say.say(f"waiting for another call, which is at work on {record.with_suffix('')}")
        fcntl.flock(file, fcntl.LOCK_EX)


def script(words: list[str]) -> tuple[list[str], list[str]]:
    """The command, and the lines of a shell script that makes the file even if it is there."""
    args, command = read(words)
    file, log = (commands.typed([str(path)]) for path in (args.file, args.file.with_suffix(".log")))
    before = f"test ! -e {commands.typed([str(args.needed)])} || " if args.needed else ""
    folder = [f"mkdir -p {commands.typed([str(args.file.parent)])}"] * args.capture
    after = f" 2>{log} >{file}" if args.capture else ""
    return command, [*folder, f"{before}{commands.typed(command)}{after}", *[f"touch {file}"] * args.stamp]


def older(file: Path, than: list[Path]) -> bool:
    return any(each.exists() and newer(each, file) for each in than)


def is_by(record: Path, made_by: str) -> bool:
    """Whether the record says this, or nothing, as of what a dry run's script made. Records of earlier versions have no
    line for the data."""
    if not (said := record.read_text().strip()):
        return True
    before, now = (text.split("\ndata ") for text in (said, made_by))
    same_data = len(before) == 1 or before[1:] == now[1:]
    return same_data and places.resolved(shlex.split(before[0])) == places.resolved(shlex.split(now[0]))


def state(file: Path) -> tuple[int, int] | None:
    return (file.stat().st_size, file.stat().st_mtime_ns) if file.exists() else None


def newer(one: Path, other: Path) -> bool:
    return one.stat().st_mtime_ns > other.stat().st_mtime_ns


def capture(command: list[str], file: Path) -> None:
    """Run the command. Its output becomes the file. If the command fails, this program ends with its status."""
    for left in file.parent.glob(f"{glob.escape(file.name)}.*.partial"):  # by a call that was killed
        left.unlink()
    work = progress.Steps(name_of(command))
    with (
        replacing(file) as temporary,
        open(temporary, "w") as out,
        open(file.with_suffix(".log"), "w", buffering=1, errors="replace") as log,
        progress.Display(work) as display,
    ):
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True, errors="replace")
        for line in process.stderr:  # a bar's carriage return ends a line, too
            log.write(line)
            if shown := work.read(line):
                display.line(shown.rstrip("\n"))
        if status := process.wait():
            sys.exit(status)


def name_of(command: list[str]) -> str:
    """fairseq-generate, or the name of the module or of the script that Python runs"""
    first, *others = [Path(word).name for word in command if word != "-m"]
    return others[0].rpartition("tools.")[2] if first.startswith("python") and others else first


if __name__ == "__main__":
    say.run(main)
