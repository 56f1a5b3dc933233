"""Read the figures of a recipe's table from the files that its commands have written.

    python recipes/lib/figures.py updates runs/x/feedback/train.log --plus 1000 --else 15000

A figure is called by its name with its arguments, mostly files (LAST_MATCHES and FIGURES below). In a table row
(row.py) the call follows an @. With @? it becomes "-" if its file is missing. On the command line, --else gives
the text that is printed if its file is missing, as in a dry run.
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
    parser.add_argument("call", nargs="+", help="name and arguments of the figure")
    parser.add_argument("--plus", type=int, help="a number to add to the figure")
    parser.add_argument("--else", dest="otherwise", help="the text to print if there is no such figure")
    args = parser.parse_args()
    try:
        found = read(*args.call)
        print(found if args.plus is None else int(found) + args.plus)
    except UserError as error:
        if args.otherwise is None:
            say.stop(str(error))
        print(args.otherwise)


def value(text: str) -> str:
    """The text itself, or the figure that it calls after an @."""
    if not text.startswith("@"):
        return text
    try:
        return read(*shlex.split(text.lstrip("@?")))
    except UserError as error:
        if text.startswith("@?"):
            return "-"
        say.stop(str(error))


def read(name: str, *arguments: str) -> str:
    """The value of a figure.

    Raises:
        UserError: a file is missing, or it does not hold the figure
    """
    if name in LAST_MATCHES:
        return last(*arguments, LAST_MATCHES[name])
    if name not in FIGURES:
        say.stop(f"{name} is no figure: there are {', '.join([*LAST_MATCHES, *FIGURES])}.")
    return FIGURES[name](*arguments)


def text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from None


def all_of(path: str, pattern: str) -> list[str]:
    """The group of the pattern, for each line that matches.

    Raises:
        UserError: no line matches
    """
    if not (found := re.findall(pattern, text_of(path), re.MULTILINE)):
        raise UserError(f"{path} holds nothing like {pattern!r}.")
    return found


def last(path: str, pattern: str) -> str:
    return all_of(path, pattern)[-1]


def field(path: str, key: str) -> str:
    """A value of a JSON file, with the digits that are there."""
    values = json.loads(text_of(path), parse_float=str)
    if key not in values:
        raise UserError(f"{path} has no {key}.")
    return str(values[key])


# Language models, from the log of fairseq-eval-lm: over all tokens, or "without" the end-of-line tokens


def bpc(path: str, line_ends: str = "with") -> str:
    return last(path, rf"[ :]{line_ends} end-of-line: .* ([\d.]+) bits per token")


def ppl(path: str, line_ends: str = "with") -> str:
    """The perplexity. A message says if it is above the number of words."""
    found = last(path, rf"[ :]{line_ends} end-of-line: .* perplexity ([\d.]+)$")
    words = re.search(r"dictionary: (\d+) types$", text_of(path), re.MULTILINE)
    if words and float(found) > int(words[1]):
        say.say(f"{path}: perplexity {found} is above that of even guesses, {words[1]}: the model has learned nothing.")
    return found


def parameters(path: str) -> str:
    """The number of parameters in millions, from the log of a training or an evaluation."""
    number = all_of(path, r"num\. (?:shared )?model params: ([\d,]+)")[0]
    return f"{int(number.replace(',', '')) / 1e6:.2f}M"


# Trainings, from their logs


def training_speed(path: str) -> str:
    """The median speed, in words per second."""
    speeds = sorted(all_of(path, r'(?:\bwps=|"wps": ")([\d.]+)'), key=float)
    return speeds[(len(speeds) + 1) // 2 - 1]


def milliseconds(path: str, tokens: str) -> str:
    """The median time of an update of that many tokens."""
    return f"{1000 * int(tokens) / float(training_speed(path)):.0f}"


def wall_time(*paths: str) -> str:
    """The hours and minutes of all these trainings together, with validations and checkpoints."""
    minutes = seconds(*paths) // 60
    return f"{minutes // 60:.0f}:{minutes % 60:02.0f}"


def days(*paths: str) -> str:
    """The same in days."""
    return f"{seconds(*paths) // 60 / 60 / 24:.2f}"


def seconds(*paths: str) -> float:
    """The sum of the last readings before each fall of the clock, which starts again when a training continues."""
    walls = [[*map(float, all_of(path, r'"wall": "([\d.]+)')), 0.0] for path in paths]
    return sum(before for each in walls for before, after in pairwise(each) if after < before)


def gpu_memory(path: str) -> str:
    """The most memory of the first GPU that a training has taken, in GB. A log of a CPU has none."""
    free = min(map(float, all_of(path, r'(?:\bgb_free=|"gb_free": ")([\d.]+)')))
    return f"{float(last(path, r'total memory = ([0-9.]+) GB')) - free:.1f}"


def least_loss(*choices: str) -> str:
    """Of several NAME=LOG, the NAME whose training has the lowest validation loss."""
    logs = dict(choice.split("=", 1) for choice in choices)
    return min(logs, key=lambda name: min(map(float, all_of(logs[name], r'"valid_loss": "([\d.]+)'))))


def end(path: str) -> str:
    """The update at which a training diverged, which is the content of the file; "all updates" if there is no file."""
    return text_of(path).strip() if Path(path).exists() else "all updates"


def updates_of_epochs(labels: str, epochs: str, batch: str, divisor: str = "1") -> str:
    """The number of updates in so many epochs over the lines of a file, divided by the divisor."""
    return str(math.ceil(int(epochs) * text_of(labels).count("\n") / int(batch)) // int(divisor))


# Generation


def flags(path: str) -> str:
    """The flags that tune_length_penalty printed."""
    return " ".join(shlex.split(text_of(path)))


def ratio(name: str, one: str, other: str, *arguments: str) -> str:
    """The ratio of the same figure of two files."""
    return f"{float(read(name, one, *arguments)) / float(read(name, other, *arguments)):.2f}"


# Several runs


def mean_of(key: str, *paths: str) -> str:
    return f"{mean(float(field(path, key)) for path in paths):.2f}"


def best_of(key: str, *paths: str) -> str:
    return max((field(path, key) for path in paths), key=float)


def rewards(paths: tuple[str, ...]) -> list[float]:
    """Of agents, from the last validations of several trainings."""
    return [float(last(path, r'"valid_reward": "([-\d.]+)')) for path in paths]


def mean_reward(*paths: str) -> str:
    return f"{mean(rewards(paths)):.3f}"


def reward_range(*paths: str) -> str:
    return f"{min(rewards(paths)):.3f} to {max(rewards(paths)):.3f}"


def reached(what: str, pattern: str) -> str:
    """The lengths that the finished trainings of a pattern have reached: "mean", "best", or the number of "runs"."""
    logs = [Path(path).with_name("train.log") for path in sorted(glob.glob(f"{pattern}/trained"))]
    sizes = [last(str(log), r'"valid_reached": "([\d.]+)') for log in logs]
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


# Other tools, from their output


def grid(path: str, layer: str, column: str) -> str:
    """One cell of head_pruning's table: the row is a layer; the column is H1, H2 ... or stddev."""
    if layer not in (cells := grid_column(path, column)):
        raise UserError(f"{path} has no layer {layer}.")
    return cells[layer]


def mean_of_grid(path: str, column: str) -> str:
    """The mean of a column over the layers."""
    return f"{mean(float(value) for layer, value in grid_column(path, column).items() if layer != 'all'):.4f}"


def grid_column(path: str, column: str) -> dict[str, str]:
    """A column by layer."""
    rows = [
        [cell.strip() for cell in line.strip("| \n").split("|")] for line in text_of(path).splitlines() if "|" in line
    ]
    if len(rows) < 3 or column not in rows[0]:
        raise UserError(f"{path} has no {column}.")
    return {row[0]: row[rows[0].index(column)] for row in rows[2:]}


def drawn(path: str, number: str) -> list[str]:
    """A head that was drawn, and its share. `tools.plot attention` prints LAYER.HEAD=SHARE for each."""
    return text_of(path).split()[int(number) - 1].split("=")


def drawn_head(path: str, number: str) -> str:
    layer, head = drawn(path, number)[0].split(".")
    return f"layer {layer}, head {head}"


def context_share(path: str, number: str) -> str:
    return drawn(path, number)[1]


LAST_MATCHES = {  # figures that are the last match in a file
    "updates": r'"(?:train_)?num_updates": "(\d+)"',  # so far, of a training
    "best_loss": r"\bbest_loss ([\d.]+)",  # of the validations, in a log of fairseq's format simple
    "generation_speed": r"([\d.]+) tokens/s",  # of fairseq-generate
    "skipped_layers": r"expected share.*: (.*)",  # of skip_schedule, as the next one
    "context_factor": r"context factor.*: (.*)",
}
FIGURES = {"json": field} | {  # other figures by name; their arguments and results are texts
    function.__name__: function for function in (
        bpc, ppl, parameters, training_speed, milliseconds, wall_time, days, gpu_memory, least_loss, end,
        updates_of_epochs, flags, ratio, mean_of, best_of, mean_reward, reward_range, reached, spread,
        change_of_deviation, grid, mean_of_grid, drawn_head, context_share,
    )
}  # fmt: skip


if __name__ == "__main__":
    main()
