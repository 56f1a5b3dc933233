"""Run one training of a recipe, log it, and continue it if it was stopped.

    python recipes/lib/training.py runs/x/feedback --data runs/data/x --settings "UPDATES='100'" -- fairseq-train ...

A folder with the file ``trained`` is done and is skipped. A training that was stopped continues from its last
checkpoint, but only with the variables and the data that it started with. A training over streams that runs out of
memory continues with more groups of streams (--split-streams), unless the command has their number. Everything that
the command prints goes to FOLDER/train.log. The terminal shows the figures of validations, how far the training is, and
the time left.
"""

import argparse
import re
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn

import commands
import progress
import records
import say

from fairseq_plugins.files.steps import Step
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
    trained = args.folder / "trained"
    args.folder.mkdir(parents=True, exist_ok=True)
    # other nodes train together with the first one, and a finished folder may be on a read-only disk
    with nullcontext() if args.rank or trained.exists() else records.training(args.folder).locked(say.say):
        step = records.training(args.folder)
        begun = check(args, command, step.options)
        if begun != step.options:
            note(args, step, begun)
        if trained.exists():
            say.say(f"{args.folder} is trained")
            return
        check_precision(args, begun["precision"])
        status, errors = run_in_groups(args, commands.resolved(command), step)
        if status and not (args.may_diverge and record_divergence(args.folder, errors)):
            sys.exit(status)
        if not args.rank:
            trained.touch()


def note(args, step: Step, options: dict) -> None:
    """Write the record, on the first node."""
    step.options = options
    if not args.rank:
        step.write(None)


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


def check(args, command: list[str], begun: dict) -> dict:
    """Refuse to continue a training that began with other variables, on other data or by another recipe. Returns what
    it began with, which is that of this call if the record lacks it. Flags that differ by machine may differ."""
    flags = flags_of(records.resolved(["$(...)" if commands.is_late(word) else word for word in command]))
    now = {"settings": args.settings, "flags": flags, "data": records.data_checksum(args.data)}
    before = now | {"precision": args.precision, "groups": {}} | begun
    if words_of(before["settings"]) != words_of(args.settings):
        earlier, later = set(before["settings"]), set(args.settings)
        refuse(args.folder, *(" ".join(sorted(each)) or "the defaults" for each in (earlier - later, later - earlier)))
    if args.data and records.other_data(before["data"], args.data):
        say.stop(f"{args.folder.resolve()} was begun on other data than those in {args.data}: {WAY_OUT}")
    both = before["flags"], flags
    if differing := [name for name in both[0] | flags if both[0].get(name) != flags.get(name)]:
        shown = [[" ".join([name, *each[name]]) for name in differing if name in each] for each in both]
        refuse(args.folder, *(" ".join(each) or "no such flag" for each in shown))
    return before


def check_precision(args, before: str) -> None:
    """Refuse to go on in half precision with a training that began in float32, or the other way: fairseq
    has another optimiser for it, which cannot load the state of the one before."""
    if before and args.precision and (before in HALF) != (args.precision in HALF):
        say.stop(f"{args.folder.resolve()} was begun in {before}: give --precision {before}, or {WAY_OUT}")


def words_of(settings: list[str]) -> list[str]:
    return records.resolved(shlex.split(" ".join(settings)))


def refuse(folder: Path, before: str, now: str) -> NoReturn:
    say.stop(f"{folder.resolve()} was begun with {before}, this call has {now}: {WAY_OUT}")


def flags_of(command: list[str]) -> dict[str, list[str]]:
    """The flags and their values; where a flag is given twice, the last one counts."""
    flags, values = {}, []
    for word in command:
        if word.startswith("--"):
            values = flags[word] = []
        else:
            values.append(word)
    return {name: values for name, values in flags.items() if name not in OF_MACHINE}


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


def run_in_groups(args, command: list[str], step: Step) -> tuple[int, str]:
    """Run the command, and again with more groups of streams as long as memory runs out. Returns the last run's status
    and stderr. The record keeps the groups that a number of streams needs, so that another call begins with them."""
    while True:
        groups = 1 if is_split(command) else step.options["groups"].get(streams(command), 1)
        whole = command + [SPLIT, str(groups)] * (groups > 1) + first_flags(args.folder, shlex.split(args.start))
        say.say(commands.typed(whole))
        work = progress.Training(f"{say.recipe()}: {args.folder.name}", whole)
        status, errors = progress.run(whole, work, log_of(args), "ab")
        found = MORE_GROUPS.search(errors)
        if not status or not found or is_split(command) or int(found[1]) <= groups:
            return status, errors
        if progress.number_after("--nnodes", command) > 1:
            say.say(f"on several nodes recipes do not choose {SPLIT}: set SPLIT_STREAMS={found[1]} on all of them.")
            return status, errors
        say.say(f"memory ran out: {args.folder.name} goes on with {SPLIT} {found[1]}")
        note(args, step, step.options | {"groups": step.options["groups"] | {streams(command): int(found[1])}})


def is_split(command: list[str]) -> bool:
    return progress.number_after(SPLIT, command) > 0


def streams(command: list[str]) -> str:
    return str(int(progress.number_after("--batch-size", command)))


def record_divergence(folder: Path, errors: str) -> bool:
    """Whether the training diverged. If so, FOLDER/diverged says at which update."""
    found = DIVERGED.search(errors)
    if found:
        write_text(folder / "diverged", f"{found[0]}\n")
    return bool(found)


if __name__ == "__main__":
    say.run(main)
