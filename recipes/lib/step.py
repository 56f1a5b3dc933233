"""Run a command that makes a file, unless the file is there.

    python recipes/lib/step.py runs/x/average.pt --after runs/x/trained -- python -m ...average_checkpoints ...
    python recipes/lib/step.py runs/x/test.txt --after runs/x/average.pt --capture -- fairseq-generate ...

The command runs again if one of the files of --after, the command itself or the data of --data have changed, if the
file has changed, or if the command was stopped (fairseq_plugins/files/steps.py). Two calls for one file wait for one
another.

With --capture the file gets the command's output, but only if the command succeeds. Its stderr is written beside the
file, with the suffix .log; the terminal shows how far the command is, and the lines that are no records of a log. In a
folder that cannot be written no file of --stamp is made.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import commands
import progress
import records
import say

from fairseq_plugins.files.steps import Step


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
        # the command finds everything done, or names the missing part
        sys.exit(subprocess.run(commands.resolved(command)).returncode)
    command = commands.resolved(command)
    options = {"command": records.resolved(command), "data": records.data_checksum(args.data)}
    step = Step(args.file.name, args.file.parent, args.after, [args.file], options)
    if not args.always and step.done():  # also where no lock can be written, on a read-only disk
        return say.say(f"{args.file} is there")
    ours = step.lock.exists() or earlier_record(args.file).exists()
    with step.locked(say.say):
        if args.always:
            args.file.unlink(missing_ok=True)
        elif args.file.exists() and not ours and not older(args.file, args.after):
            step.write("by the script of a dry run")
        if step.done():
            say.say(f"{args.file} is there")
        else:
            make(args, step, command)


def earlier_record(file: Path) -> Path:
    """The stamp that earlier versions wrote, which is not read: the file is made again."""
    return file.with_name(f"{file.name}.command")


def make(args, step: Step, command: list[str]) -> None:
    if args.data and records.other_data(records.training(args.file.parent).options.get("data", ""), args.data):
        say.stop(f"{args.data} has other data than {args.file.parent} was trained on; give another --data or --out.")
    say.say(commands.typed(command))
    if args.capture:
        step.run(lambda temporary: capture(command, args.file, temporary))
    else:
        step.run(lambda: call(command, args.file if args.stamp else None), whole=False)


def call(command: list[str], stamp: Path | None) -> None:
    if status := subprocess.run(command).returncode:
        sys.exit(status)
    if stamp:
        stamp.touch()


def script(words: list[str]) -> tuple[list[str], list[str]]:
    """The command, and the lines of a shell script that makes the file even if it is there."""
    args, command = read(words)
    file, log = (commands.typed([str(path)]) for path in (args.file, args.file.with_suffix(".log")))
    before = f"test ! -e {commands.typed([str(args.needed)])} || " if args.needed else ""
    folder = [f"mkdir -p {commands.typed([str(args.file.parent)])}"] * args.capture
    after = f" 2>{log} >{file}" if args.capture else ""
    return command, [*folder, f"{before}{commands.typed(command)}{after}", *[f"touch {file}"] * args.stamp]


def older(file: Path, than: list[Path]) -> bool:
    return any(each.exists() and each.stat().st_mtime_ns > file.stat().st_mtime_ns for each in than)


def capture(command: list[str], file: Path, temporary: Path) -> None:
    """Run the command. Its output becomes the file. If the command fails, this program ends with its status."""
    work = progress.Bars(f"{say.recipe()}: {name_of(command)}")
    with open(temporary, "w") as out:
        status, _ = progress.run(command, work, file.with_suffix(".log"), "wb", out)
    if status:
        sys.exit(status)


def name_of(command: list[str]) -> str:
    """fairseq-generate, or the name of the module or of the script that Python runs"""
    first, *others = [Path(word).name for word in command if word != "-m"]
    return others[0].rpartition("tools.")[2] if first.startswith("python") and others else first


if __name__ == "__main__":
    say.run(main)
