"""Read the command line of a recipe and print it as shell assignments.

    eval "$(python recipes/lib/options.py recipes/feedback/table2_wmt14.sh --smoke --out runs/try -- --dropout 0.2)"

They set RECIPE (its name), PAPER (the file of its paper), PUBLISHED (the numbers in that file), CALL (the command
without variables), SMOKE, DRY_RUN, COMMANDS, GPUS, PRECISION, RAW, DATA, OUT, and EXTRA (the flags after ``--``). A
wrong option is refused in one sentence, with status 2. --help prints the recipe's header.
"""

import itertools
import os
import re
import shlex
import sys
from pathlib import Path

import say

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "fairseq_plugins/tools"))
import published  # noqa: E402  by path: it also runs with Pythons that are too old for the package

VARIABLES = {
    "GPUS": "--gpus", "PRECISION": "--precision", "RAW": "--raw", "DATA": "--data", "OUT": "--out", "SMOKE": "--smoke",
}  # fmt: skip
SWITCHES = ("--smoke", "--dry-run")
TAKE_A_VALUE = ("--commands", "--gpus", "--precision", "--raw", "--data", "--out")
DRY = ("--dry-run", "--commands")
PRECISIONS = ("fp16", "bf16", "fp32", "tf32")
FLAGS_OF_PRECISION = {"--fp16", "--bf16", "--amp", "--memory-efficient-fp16", "--memory-efficient-bf16"}
HELP = """options:
  --smoke     run the same code with small numbers on generated text, on the CPU: two minutes at most
  --dry-run   check every command with its own parser and print it; RECIPE --dry-run | bash does the work
  --commands FILE  as --dry-run, but check nothing; write every command into FILE, each after its line of the recipe
  --gpus N    GPUs to train on (default: all of this machine; 0: the CPU)
  --precision fp16|bf16|fp32|tf32  numbers of a training (default: the paper's on GPUs, fp32 on the CPU); tf32 is fp32
              with products of TF32, fp32 is without
  --raw DIR   a folder with the raw text, instead of downloading it
  --data DIR  the prepared corpus, shared by recipes (default: runs/data/CORPUS)
  --out DIR   everything else (default: runs/ and the recipe's path in recipes/)
  -- FLAGS    flags of fairseq-train, added to every training
language models: streams that do not fit into memory train in N groups; SPLIT_STREAMS=N sets N (default: as needed)
several nodes: set NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT as for torchrun, and share --data and --out;
on a SLURM cluster: sbatch recipes/slurm.sh RECIPE OPTIONS"""


def main():
    script, *words = sys.argv[1:]
    os.environ["RECIPE"] = Path(script).stem
    if "--help" in itertools.takewhile(lambda word: word != "--", words):
        print(f"cat <<'END_OF_HELP'\n{header(Path(script))}\n\n{HELP}\nEND_OF_HELP\nexit 0")
        return
    for name in VARIABLES:
        if os.environ.get(name):
            say.say(f"the variable {name} is ignored: give {VARIABLES[name]}.")
    print(assignments(read(words, Path(script)) | {"CALL": call(script, words)}))


def header(script: Path) -> str:
    """The comment at the top of a script, without the line that names the shell."""
    comment = itertools.takewhile(lambda line: line.startswith("#"), script.read_text().splitlines()[1:])
    return "\n".join(re.sub("^# ?", "", line) for line in comment)


def call(script: str, words: list[str]) -> str:
    """The command for the table, without the options of dry runs: the table shows the command of the real run."""
    before = ["", *words]
    real = [word for last, word in zip(before, words) if last != "--commands" and word not in DRY]
    return shlex.join([relative(script, ROOT), *real])


def read(words: list[str], script: Path) -> dict:
    """The values of the shell's variables, by name. ``words`` may end in ``--`` and flags for every training."""
    words, extra = say.split(words) if "--" in words else (words, [])
    for flag in FLAGS_OF_PRECISION.intersection(word.partition("=")[0] for word in extra):
        say.stop(f"{flag}: give --precision fp16, bf16, fp32 or tf32 before -- in place of this flag.")
    given, rest = {}, iter(words)
    for word in rest:
        if word in SWITCHES:
            given[word] = 1
        elif word in TAKE_A_VALUE:
            given[word] = next(rest, "--")
            if given[word].startswith("--"):
                say.stop(f"{word} needs a value: --help lists the options.")
        else:
            say.stop(f"there is no option {word}: --help lists the options.")
    return checked(given, script) | {"EXTRA": extra}


def checked(given: dict, script: Path) -> dict:
    """The values of the shell's variables, for options that passed every check."""
    gpus, commands, precision = (given.get(option, "") for option in ("--gpus", "--commands", "--precision"))
    raw, data, out = (absolute(given.get(option, "")) for option in ("--raw", "--data", "--out"))
    if not re.fullmatch(r"\d*", gpus):
        say.stop(f"--gpus {gpus} is no number.")
    if precision and precision not in PRECISIONS:
        say.stop(f"--precision {precision} is none of {', '.join(PRECISIONS)}.")
    if raw and not os.path.isdir(raw):
        say.stop(f"--raw {raw} does not exist: name the folder that holds the raw text.")
    if commands and (not os.path.isdir(os.path.dirname(commands) or ".") or os.path.isdir(commands)):
        say.stop(f"--commands {commands} cannot be written: name another file.")
    if ":" in out:
        say.stop(f"--out {out} has a colon in it, which separates folders for fairseq: choose another folder.")
    out = out or "runs/" + relative(script, ROOT / "recipes").removesuffix(".sh")
    smoke = given.get("--smoke", 0)
    if smoke and data:
        say.stop("--smoke prepares generated text in the folder of --out: leave --data out.")
    if smoke:  # apart from the files of a real run
        out += "/smoke"
        data = f"{out}/data"
    return {
        "RECIPE": script.stem, "PAPER": str(script.resolve().parent / "paper.json"), "SMOKE": smoke,
        "DRY_RUN": int("--dry-run" in given or bool(commands)), "COMMANDS": commands and os.path.realpath(commands),
        "GPUS": gpus, "PRECISION": precision, "RAW": raw, "DATA": data, "OUT": out,
        "PUBLISHED": published_beside(script),
    }  # fmt: skip


def published_beside(script: Path) -> dict[str, str]:
    """The numbers of the recipe's paper, by TABLE|ROW|COLUMN."""
    paper = script.resolve().parent / "paper.json"
    numbers = published.published(paper.read_text(encoding="utf-8")) if paper.exists() else {}
    return {"|".join(name): str(number) for name, number in numbers.items()}


def absolute(path: str) -> str:
    """The absolute path. It is taken now, because the recipe leaves the caller's folder. Links stay links."""
    return path and os.path.abspath(path)


def relative(path: str | Path, folder: Path) -> str:
    return os.path.relpath(os.path.realpath(path), folder)


def assignments(values: dict) -> str:
    """Shell code that sets the variables."""
    return "\n".join(f"{name}={shell_value(value)}" for name, value in values.items())


def shell_value(value) -> str:
    """A list becomes an array, and a dictionary becomes an associative array."""
    if isinstance(value, dict):
        return f"({' '.join(f'[{shlex.quote(name)}]={shlex.quote(text)}' for name, text in value.items())})"
    return f"({shlex.join(value)})" if isinstance(value, list) else shlex.quote(str(value))


if __name__ == "__main__":
    main()
