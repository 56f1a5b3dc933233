"""Run one training of a recipe, log it, and continue it if it was stopped.

    python recipes/lib/training.py runs/x/feedback --data runs/data/x --settings "UPDATES='100'" -- fairseq-train ...

A folder with the file ``trained`` is done and is skipped. A training that was stopped continues from its last
checkpoint, but only with the variables and the data that it started with. A training over streams that runs out of
memory continues with more groups of streams (--split-streams), unless the command has their number. Everything that
the command prints goes to FOLDER/train.log. The terminal shows the figures of validations, how far the training is, and
the time left.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

import commands
import progress
import records
import say

from fairseq_plugins.files.whole import write_text

WAY_OUT = "give an --out elsewhere, or remove that folder of the training."
OF_MACHINE = {
    "--batch-size", "--batch-size-valid", "--bf16", "--cpu", "--device-id", "--distributed-world-size", "--fp16",
    "--fp16-init-scale", "--fp16-scale-window", "--log-format", "--log-interval", "--master_addr", "--master_port",
    "--max-tokens", "--max-tokens-valid", "--nnodes", "--no-python", "--node_rank", "--nproc_per_node",
    "--num-workers", "--save-dir", "--split-streams", "--standalone", "--threshold-loss-scale", "--update-freq",
    "--user-dir",
}  # fmt: skip
HALF = ("fp16", "bf16")
DIVERGED = re.compile("diverged at update [0-9]*")
SPLIT = "--split-streams"
MORE_GROUPS = re.compile(rf"memory ran out .* with {SPLIT} ([0-9]+)")  # fairseq_plugins/streams/groups.py


def read(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options, and the command after them."""
    own, command = say.split(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="--save-dir of the command")
    parser.add_argument("--settings", nargs="*", default=[], help="NAME=VALUE of each variable that the user has set")
    parser.add_argument("--data", default="", help="folder of the prepared corpus, if there is one")
    parser.add_argument("--precision", default="", help="fp16, bf16, fp32 or tf32")
    parser.add_argument("--rank", type=int, default=0, help="number of this node; node 0 marks the end")
    parser.add_argument("--start", default="", help="flags of the first start only, as one argument")
    parser.add_argument("--may-diverge", action="store_true", help="record divergence, instead of failing")
    return parser.parse_args(own), command


def main():
    args, command = read(sys.argv[1:])
    args.folder.mkdir(parents=True, exist_ok=True)
    check_settings(args, "\n".join(args.settings))
    check_flags(args, command)
    if (args.folder / "trained").exists():
        say.say(f"{args.folder} is trained")
        return
    check_precision(args)
    status, errors = run_in_groups(args, commands.resolved(command), log_of(args))
    if status and not (args.may_diverge and record_divergence(args.folder, errors)):
        sys.exit(status)
    if not args.rank:
        (args.folder / "trained").touch()


def log_of(args) -> Path:
    return args.folder / (f"train.node{args.rank}.log" if args.rank else "train.log")


def script(words: list[str]) -> tuple[list[str], list[str]]:
    """The command, and the lines of a shell script for a new folder: they pass the flags of the first start."""
    args, command = read(words)
    command += shlex.split(args.start)
    folder, log = (commands.typed([str(path)]) for path in (args.folder, log_of(args)))
    may_diverge = f" || grep -m1 -o '{DIVERGED.pattern}' {log} >{folder}/diverged" if args.may_diverge else ""
    lines = [f"mkdir -p {folder}", f"{commands.typed(command)} 2>&1 | tee -a {log}{may_diverge}"]
    return command, lines + [f"touch {folder}/trained"] * (not args.rank)  # the first node writes the checkpoints


def check_settings(args, settings: str) -> None:
    """Refuse to continue a training that was started with other variables or on other data."""
    before = recorded(args, "settings", settings)
    if records.resolved(shlex.split(before)) != records.resolved(shlex.split(settings)):
        earlier, now = ({*text.split("\n")} - {""} for text in (before, settings))
        refuse(args.folder, *(" ".join(sorted(each)) or "the defaults" for each in (earlier - now, now - earlier)))
    if args.data and records.differs_from_training(args.folder, args.data):
        say.stop(f"{args.folder.resolve()} was begun on other data than those in {args.data}: {WAY_OUT}")
    if args.data:
        recorded(args, "data", records.data_checksum(args.data))


def refuse(folder: Path, before: str, now: str) -> NoReturn:
    say.stop(f"{folder.resolve()} was begun with {before}, this call has {now}: {WAY_OUT}")


def check_flags(args, command: list[str]) -> None:
    """Refuse to take the training of another recipe for this one's. Flags that differ by machine may differ."""
    now = flags_of(records.resolved(["$(...)" if commands.is_late(word) else word for word in command]))
    before = json.loads(recorded(args, "flags", json.dumps(now, indent=1)))
    if differing := [name for name in before | now if before.get(name) != now.get(name)]:
        shown = [[" ".join([name, *flags[name]]) for name in differing if name in flags] for flags in (before, now)]
        refuse(args.folder, *(" ".join(each) or "no such flag" for each in shown))


def check_precision(args) -> None:
    """Refuse to go on in half precision with a training that began in float32, or the other way: fairseq
    has another optimiser for it, which cannot load the state of the one before."""
    before = recorded(args, "precision", args.precision) if args.precision else ""
    if (before in HALF) != (args.precision in HALF):
        say.stop(f"{args.folder.resolve()} was begun in {before}: give --precision {before}, or {WAY_OUT}")


def flags_of(command: list[str]) -> dict[str, list[str]]:
    """The flags and their values; where a flag is given twice, the last one counts."""
    flags, values = {}, []
    for word in command:
        if word.startswith("--"):
            values = flags[word] = []
        else:
            values.append(word)
    return {name: values for name, values in flags.items() if name not in OF_MACHINE}


def recorded(args, name: str, text: str) -> str:
    """The content of the file of this name. If there is none yet, it is the text, which the first node writes there."""
    file = args.folder / name
    if file.exists():
        return file.read_text().rstrip("\n")
    if not args.rank:
        write_text(file, f"{text}\n")
    return text


def first_flags(folder: Path, start: list[str]) -> list[str]:
    """The flags that choose where the training starts.

    There are none if checkpoint_last.pt exists: fairseq loads it. The training may have been killed before it copied
    its first checkpoint there; then that checkpoint is named. A new training gets ``start``.
    """
    if (folder / "checkpoint_last.pt").exists():
        return []
    for checkpoint in sorted(folder.glob("checkpoint*.pt")):
        return ["--restore-file", str(checkpoint)]
    return start


def run_in_groups(args, command: list[str], log: Path) -> tuple[int, str]:
    """Run the command, and again with more groups of streams as long as memory runs out. Returns the last run's status
    and stderr. FOLDER/split_streams notes the number, so that another call begins with it."""
    while True:
        groups = noted_groups(args.folder, command)
        whole = command + [SPLIT, str(groups)] * (groups > 1) + first_flags(args.folder, shlex.split(args.start))
        say.say(commands.typed(whole))
        status, errors = run(whole, log)
        found = MORE_GROUPS.search(errors)
        if not status or not found or is_split(command) or int(found[1]) <= groups:
            return status, errors
        if progress.number_after("--nnodes", command) > 1:
            say.say(f"on several nodes recipes do not choose {SPLIT}: set SPLIT_STREAMS={found[1]} on all of them.")
            return status, errors
        say.say(f"memory ran out: {args.folder.name} goes on with {SPLIT} {found[1]}")
        write_text(args.folder / "split_streams", f"{found[1]} groups of {streams(command)} streams\n")


def noted_groups(folder: Path, command: list[str]) -> int:
    """The groups of streams that memory has been found to need; 1 for other numbers of streams than the command's."""
    file = folder / "split_streams"
    words = file.read_text().split() if file.exists() else []
    return int(words[0]) if not is_split(command) and words[3:4] == [str(streams(command))] else 1


def is_split(command: list[str]) -> bool:
    return progress.number_after(SPLIT, command) > 0


def streams(command: list[str]) -> int:
    return int(progress.number_after("--batch-size", command))


def run(command: list[str], log: Path) -> tuple[int, str]:
    """Run the command and add everything that it prints to the log. Returns its status and its stderr."""
    errors, work = [], progress.Training(log.parent.name, command)
    with open(log, "a", buffering=1, errors="replace") as file, progress.Display(work) as display:
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
        with subprocess.Popen(command, **pipe) as process:
            thread = threading.Thread(target=pass_errors, args=(process.stderr, file, errors, display))
            thread.start()
            for line in process.stdout:
                file.write(line)
                if shown := work.read(line):
                    display.line(f"{say.recipe()}: {shown}")
            thread.join()
    return process.returncode, "".join(errors)


def pass_errors(lines, file, errors: list[str], display: progress.Display) -> None:
    for line in lines:
        file.write(line)
        display.line(line.rstrip("\n"))
        errors.append(line)


def record_divergence(folder: Path, errors: str) -> bool:
    """Whether the training diverged. If so, FOLDER/diverged says at which update."""
    found = DIVERGED.search(errors)
    if found:
        write_text(folder / "diverged", f"{found[0]}\n")
    return bool(found)


if __name__ == "__main__":
    say.run(main)
