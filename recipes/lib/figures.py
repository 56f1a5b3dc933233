"""Figures of a recipe's table, from the files that the commands left.

    python recipes/lib/figures.py updates:runs/x/feedback/train.log --plus 1000 --else 15000

A figure is a name and what it is of, with colons between. FIGURES lists the names. In rows of a table (row.py) an @
stands before it, or @? where the file may be missing: then the figure is "-". From the command line --else is what is
printed where there is no file yet, as in a dry run.
"""

import argparse
import glob
import json
import math
import re
import shlex
from itertools import pairwise
from pathlib import Path
from statistics import mean

import say


class NoFigure(Exception):
    """A file is missing, or it does not hold the figure."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", help="NAME:ARGUMENT:...")
    parser.add_argument("--plus", type=int, help="added to it")
    parser.add_argument("--else", dest="otherwise", help="printed where there is no such figure")
    args = parser.parse_args()
    try:
        found = figure(args.figure)
        print(found if args.plus is None else int(found) + args.plus)
    except NoFigure as error:
        if args.otherwise is None:
            say.stop(str(error))
        print(args.otherwise)


def value(text: str) -> str:
    """The text itself, or the figure that it names after an @."""
    if not text.startswith("@"):
        return text
    try:
        return figure(text.lstrip("@?"))
    except NoFigure as error:
        if text.startswith("@?"):
            return "-"
        say.stop(str(error))


def figure(text: str) -> str:
    """
    Raises:
        NoFigure: with the file
    """
    name, *arguments = text.split(":")
    if name not in FIGURES:
        say.stop(f"{name} is no figure: there are {', '.join(FIGURES)}.")
    return FIGURES[name](*arguments)


def read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise NoFigure(f"{path} cannot be read ({error.strerror}).") from None


def all_of(path: str, pattern: str) -> list[str]:
    """What a group of the pattern holds in each line that has it.

    Raises:
        NoFigure: no line has it
    """
    if not (found := re.findall(pattern, read(path), re.MULTILINE)):
        raise NoFigure(f"{path} holds nothing like {pattern!r}.")
    return found


def last(path: str, pattern: str) -> str:
    return all_of(path, pattern)[-1]


def field(path: str, key: str) -> str:
    """A value of a JSON file, as it is written there."""
    values = json.loads(read(path), parse_float=str)
    if key not in values:
        raise NoFigure(f"{path} has no {key}.")
    return str(values[key])


# Language models: the log of fairseq-eval-lm, of all tokens or "without" those that end a line


def bits_per_token(path: str, line_ends: str = "with") -> str:
    return last(path, rf"[ :]{line_ends} end-of-line: .* ([\d.]+) bits per token")


def perplexity(path: str, line_ends: str = "with") -> str:
    return last(path, rf"[ :]{line_ends} end-of-line: .* perplexity ([\d.]+)$")


def parameters(path: str) -> str:
    """Of the log of a training or an evaluation, in millions."""
    number = all_of(path, r"num\. (?:shared )?model params: ([\d,]+)")[0]
    return f"{int(number.replace(',', '')) / 1e6:.2f}M"


# Trainings: their logs


def updates(path: str) -> str:
    """How many there have been."""
    return last(path, r'"(?:train_)?num_updates": "(\d+)"')


def training_speed(path: str) -> str:
    """The median, in words a second."""
    speeds = sorted(all_of(path, r'(?:\bwps=|"wps": ")([\d.]+)'), key=float)
    return speeds[(len(speeds) + 1) // 2 - 1]


def milliseconds(path: str, tokens: str) -> str:
    """The median time of an update of so many tokens."""
    return f"{1000 * int(tokens) / float(training_speed(path)):.0f}"


def wall_time(*paths: str) -> str:
    """Hours and minutes of all these trainings, with their validations and checkpoints. One that was killed counts from
    nought when it goes on."""
    seconds = 0.0
    for path in paths:
        walls = [*map(float, all_of(path, r'"wall": "([\d.]+)')), 0.0]
        seconds += sum(before for before, after in pairwise(walls) if after < before)
    return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02d}"


def least_loss(*choices: str) -> str:
    """Of NAME=LOG, the name of the training with the least validation loss."""
    logs = dict(choice.split("=", 1) for choice in choices)
    return min(logs, key=lambda name: min(map(float, all_of(logs[name], r'"valid_loss": "([\d.]+)'))))


def end(path: str) -> str:
    """Where a training diverged: the content of that file, if there is one."""
    return read(path).strip() if Path(path).exists() else "all updates"


def updates_of_epochs(labels: str, epochs: str, batch: str, divisor: str = "1") -> str:
    """So many epochs over the lines of a file, or a part of it."""
    sentences = read(labels).count("\n")
    return str(math.ceil(int(epochs) * sentences / int(batch)) // int(divisor))


# Generation: the log of fairseq-generate


def generation_speed(path: str) -> str:
    """In words a second."""
    return last(path, r"([\d.]+) tokens/s")


def ratio(name: str, one: str, other: str) -> str:
    """Of the same figure of two files."""
    return f"{float(FIGURES[name](one)) / float(FIGURES[name](other)):.2f}"


# Several runs


def mean_of(key: str, *paths: str) -> str:
    return f"{mean(float(field(path, key)) for path in paths):.2f}"


def best_of(key: str, *paths: str) -> str:
    return max((field(path, key) for path in paths), key=float)


def reached(what: str, pattern: str) -> str:
    """The sizes that trainings have come to: "mean", "best", or how many "runs" there are. Of those whose folders match
    and which ended."""
    logs = [f"{path.removesuffix('trained')}train.log" for path in sorted(glob.glob(f"{pattern}/trained"))]
    sizes = [last(log, r'"valid_reached": "([\d.]+)') for log in logs]
    if not sizes:
        raise NoFigure(f"there is no training in {pattern} that ended.")
    if what == "mean":
        return f"{mean(map(float, sizes)):.1f}"
    return max(sizes, key=float) if what == "best" else str(len(sizes))


def spread(path: str, key: str) -> str:
    """A mean and its standard deviation."""
    return f"{float(field(path, key)):.2f} ± {float(field(path, f'{key}_deviation')):.2f}"


def change_of_deviation(key: str, before: str, after: str) -> str:
    """In percent."""
    was, is_now = (float(field(path, f"{key}_deviation")) for path in (before, after))
    return f"{100 * (is_now / was - 1):+.0f} %" if was > 0 else "-"


# Other tools: what they print


def grid(path: str, layer: str, column: str) -> str:
    """A cell of the table of head_pruning: of a layer, in the column H1, H2 ... or stddev."""
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in read(path).splitlines() if "|" in line]
    for row in rows:
        if row[0] == layer:
            return row[rows[0].index(column)]
    raise NoFigure(f"{path} has no layer {layer}.")


def ratio_in_grids(one: str, other: str, layer: str, column: str) -> str:
    return f"{float(grid(one, layer, column)) / float(grid(other, layer, column)):.2f}"


def skipped_layers(path: str) -> str:
    return last(path, r"expected share.*: (.*)")


def context_factor(path: str) -> str:
    return last(path, r"context factor.*: (.*)")


def drawn_head(path: str, number: str) -> str:
    """The name of a head, of what tools.plot attention prints: LAYER.HEAD=SHARE ..."""
    layer, head = drawn(path, number)[0].split(".")
    return f"layer {layer}, head {head}"


def context_share(path: str, number: str) -> str:
    return drawn(path, number)[1]


def drawn(path: str, number: str) -> tuple[str, str]:
    head, share = read(path).split()[int(number) - 1].split("=")
    return head, share


def chosen_flags(path: str) -> str:
    """What tune_length_penalty printed."""
    return " ".join(shlex.split(read(path)))


FIGURES = {
    "json": field, "bpc": bits_per_token, "ppl": perplexity, "parameters": parameters, "updates": updates,
    "training_speed": training_speed, "milliseconds": milliseconds, "wall_time": wall_time, "least_loss": least_loss,
    "end": end, "updates_of_epochs": updates_of_epochs, "generation_speed": generation_speed, "ratio": ratio,
    "mean_of": mean_of, "best_of": best_of, "reached": reached, "spread": spread,
    "change_of_deviation": change_of_deviation, "grid": grid, "ratio_in_grids": ratio_in_grids,
    "skipped_layers": skipped_layers, "context_factor": context_factor, "drawn_head": drawn_head,
    "context_share": context_share, "flags": chosen_flags,
}  # fmt: skip


if __name__ == "__main__":
    main()
