"""Read the figures of a recipe's table from the files that its commands have written.

    python recipes/lib/figures.py updates:runs/x/feedback/train.log --plus 1000 --else 15000

A figure is written NAME:ARGUMENT:..., where the arguments are mostly files; FIGURES lists the names. In a table
row (row.py) an @ stands before it. With @? it becomes "-" if its file is missing. On the command line, --else gives the
text that is printed if its file is missing, as in a dry run.
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

from fairseq_plugins.errors import UserError


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", help="NAME:ARGUMENT:...")
    parser.add_argument("--plus", type=int, help="a number to add to the figure")
    parser.add_argument("--else", dest="otherwise", help="the text to print if there is no such figure")
    args = parser.parse_args()
    try:
        found = figure(args.figure)
        print(found if args.plus is None else int(found) + args.plus)
    except UserError as error:
        if args.otherwise is None:
            say.stop(str(error))
        print(args.otherwise)


def value(text: str) -> str:
    """The text itself, or the figure that it names after an @."""
    if not text.startswith("@"):
        return text
    try:
        return figure(text.lstrip("@?"))
    except UserError as error:
        if text.startswith("@?"):
            return "-"
        say.stop(str(error))


def figure(text: str) -> str:
    """The value of a figure.

    Raises:
        UserError: a file is missing, or it does not hold the figure
    """
    name, *arguments = text.split(":")
    if name not in FIGURES:
        say.stop(f"{name} is no figure: there are {', '.join(FIGURES)}.")
    return FIGURES[name](*arguments)


def read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from None


def all_of(path: str, pattern: str) -> list[str]:
    """The group of the pattern, for each line that matches.

    Raises:
        UserError: no line matches
    """
    if not (found := re.findall(pattern, read(path), re.MULTILINE)):
        raise UserError(f"{path} holds nothing like {pattern!r}.")
    return found


def last(path: str, pattern: str) -> str:
    return all_of(path, pattern)[-1]


def field(path: str, key: str) -> str:
    """A value of a JSON file, with its digits as they are in the file."""
    values = json.loads(read(path), parse_float=str)
    if key not in values:
        raise UserError(f"{path} has no {key}.")
    return str(values[key])


# Language models, from the log of fairseq-eval-lm: over all tokens, or "without" the end-of-line tokens


def bits_per_token(path: str, line_ends: str = "with") -> str:
    return last(path, rf"[ :]{line_ends} end-of-line: .* ([\d.]+) bits per token")


def perplexity(path: str, line_ends: str = "with") -> str:
    """The perplexity. If it is above the number of words, the user is told so."""
    found = last(path, rf"[ :]{line_ends} end-of-line: .* perplexity ([\d.]+)$")
    words = re.search(r"dictionary: (\d+) types$", read(path), re.MULTILINE)
    if words and float(found) > int(words[1]):
        say.say(f"{path}: perplexity {found} is above that of even guesses, {words[1]}: the model has learned nothing.")
    return found


def parameters(path: str) -> str:
    """The number of parameters in millions, from the log of a training or an evaluation."""
    number = all_of(path, r"num\. (?:shared )?model params: ([\d,]+)")[0]
    return f"{int(number.replace(',', '')) / 1e6:.2f}M"


# Trainings, from their logs


def updates(path: str) -> str:
    """The number of updates so far."""
    return last(path, r'"(?:train_)?num_updates": "(\d+)"')


def training_speed(path: str) -> str:
    """The median speed, in words per second."""
    speeds = sorted(all_of(path, r'(?:\bwps=|"wps": ")([\d.]+)'), key=float)
    return speeds[(len(speeds) + 1) // 2 - 1]


def milliseconds(path: str, tokens: str) -> str:
    """The median time of an update of that many tokens."""
    return f"{1000 * int(tokens) / float(training_speed(path)):.0f}"


def wall_time(*paths: str) -> str:
    """The hours and minutes of all these trainings together, with validations and checkpoints.

    The clock of a training starts at 0 again when it continues after a stop. So the last reading before every fall of
    the clock is added up.
    """
    seconds = 0.0
    for path in paths:
        walls = [*map(float, all_of(path, r'"wall": "([\d.]+)')), 0.0]
        seconds += sum(before for before, after in pairwise(walls) if after < before)
    return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02d}"


def days(*paths: str) -> str:
    """The same in days."""
    hours, minutes = wall_time(*paths).split(":")
    return f"{(int(hours) + int(minutes) / 60) / 24:.2f}"


def gpu_memory(path: str) -> str:
    """The most memory of the first GPU that a training has taken, in GB. A log of a CPU has none."""
    free = min(map(float, all_of(path, r'(?:\bgb_free=|"gb_free": ")([\d.]+)')))
    there_is = float(last(path, r"total memory = ([\d.]+) GB"))
    return f"{there_is - free:.1f}"


def best_loss(path: str) -> str:
    """The lowest validation loss, from a log of fairseq's format simple."""
    return last(path, r"\bbest_loss ([\d.]+)")


def least_loss(*choices: str) -> str:
    """Of several NAME=LOG, the NAME whose training has the lowest validation loss."""
    logs = dict(choice.split("=", 1) for choice in choices)
    return min(logs, key=lambda name: min(map(float, all_of(logs[name], r'"valid_loss": "([\d.]+)'))))


def end(path: str) -> str:
    """Where a training diverged, which is the content of the file; "all updates" if there is no file."""
    return read(path).strip() if Path(path).exists() else "all updates"


def updates_of_epochs(labels: str, epochs: str, batch: str, divisor: str = "1") -> str:
    """The number of updates in so many epochs over the lines of a file, divided by the divisor."""
    sentences = read(labels).count("\n")
    return str(math.ceil(int(epochs) * sentences / int(batch)) // int(divisor))


# Generation, from the log of fairseq-generate


def generation_speed(path: str) -> str:
    """The speed, in words per second."""
    return last(path, r"([\d.]+) tokens/s")


def ratio(name: str, one: str, other: str) -> str:
    """The ratio of the same figure of two files."""
    return f"{float(FIGURES[name](one)) / float(FIGURES[name](other)):.2f}"


# Several runs


def mean_of(key: str, *paths: str) -> str:
    return f"{mean(float(field(path, key)) for path in paths):.2f}"


def best_of(key: str, *paths: str) -> str:
    return max((field(path, key) for path in paths), key=float)


def mean_reward(*paths: str) -> str:
    """Of agents, from the last validations of several trainings."""
    return f"{mean(last_rewards(paths)):.3f}"


def reward_range(*paths: str) -> str:
    rewards = last_rewards(paths)
    return f"{min(rewards):.3f} to {max(rewards):.3f}"


def last_rewards(paths: tuple[str, ...]) -> list[float]:
    return [float(last(path, r'"valid_reward": "([-\d.]+)')) for path in paths]


def reached(what: str, pattern: str) -> str:
    """The lengths that the finished trainings of a pattern have reached: "mean", "best", or the number of "runs"."""
    logs = [f"{path.removesuffix('trained')}train.log" for path in sorted(glob.glob(f"{pattern}/trained"))]
    sizes = [last(log, r'"valid_reached": "([\d.]+)') for log in logs]
    if not sizes:
        raise UserError(f"there is no training in {pattern} that ended.")
    if what == "mean":
        return f"{mean(map(float, sizes)):.1f}"
    return max(sizes, key=float) if what == "best" else str(len(sizes))


def spread(path: str, key: str) -> str:
    """A mean and its standard deviation, as MEAN ± DEVIATION."""
    return f"{float(field(path, key)):.2f} ± {float(field(path, f'{key}_deviation')):.2f}"


def change_of_deviation(key: str, before: str, after: str) -> str:
    """The change of the standard deviation from one file to the other, in percent."""
    was, is_now = (float(field(path, f"{key}_deviation")) for path in (before, after))
    return f"{100 * (is_now / was - 1):+.0f} %" if was > 0 else "-"


# Other tools, from what they print


def grid(path: str, layer: str, column: str) -> str:
    """One cell of head_pruning's table: the row is a layer; the column is H1, H2 ... or stddev."""
    column_of = grid_column(path, column)
    if layer not in column_of:
        raise UserError(f"{path} has no layer {layer}.")
    return column_of[layer]


def mean_of_grid(path: str, column: str) -> str:
    """The mean of a column over the layers."""
    return f"{mean(float(value) for layer, value in grid_column(path, column).items() if layer != 'all'):.4f}"


def grid_column(path: str, column: str) -> dict[str, str]:
    """A column by layer."""
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in read(path).splitlines() if "|" in line]
    if len(rows) < 3 or column not in rows[0]:
        raise UserError(f"{path} has no {column}.")
    return {row[0]: row[rows[0].index(column)] for row in rows[2:]}


def ratio_in_grids(one: str, other: str, layer: str, column: str) -> str:
    return f"{float(grid(one, layer, column)) / float(grid(other, layer, column)):.2f}"


def skipped_layers(path: str) -> str:
    return last(path, r"expected share.*: (.*)")


def context_factor(path: str) -> str:
    return last(path, r"context factor.*: (.*)")


def drawn_head(path: str, number: str) -> str:
    """The name of a head that was drawn. `tools.plot attention` prints LAYER.HEAD=SHARE for each."""
    layer, head = drawn(path, number)[0].split(".")
    return f"layer {layer}, head {head}"


def context_share(path: str, number: str) -> str:
    return drawn(path, number)[1]


def drawn(path: str, number: str) -> tuple[str, str]:
    head, share = read(path).split()[int(number) - 1].split("=")
    return head, share


def chosen_flags(path: str) -> str:
    """The flags that tune_length_penalty printed."""
    return " ".join(shlex.split(read(path)))


FIGURES = {
    "json": field, "bpc": bits_per_token, "ppl": perplexity, "parameters": parameters, "updates": updates,
    "training_speed": training_speed, "milliseconds": milliseconds, "wall_time": wall_time, "days": days,
    "gpu_memory": gpu_memory, "best_loss": best_loss,
    "least_loss": least_loss, "end": end, "updates_of_epochs": updates_of_epochs,
    "generation_speed": generation_speed, "ratio": ratio,
    "mean_of": mean_of, "best_of": best_of, "mean_reward": mean_reward, "reward_range": reward_range,
    "reached": reached, "spread": spread,
    "change_of_deviation": change_of_deviation,
    "grid": grid, "mean_of_grid": mean_of_grid, "ratio_in_grids": ratio_in_grids,
    "skipped_layers": skipped_layers, "context_factor": context_factor, "drawn_head": drawn_head,
    "context_share": context_share, "flags": chosen_flags,
}  # fmt: skip


if __name__ == "__main__":
    main()
