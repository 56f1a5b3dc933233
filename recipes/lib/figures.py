"""Read the figures of a recipe's table from the files that its commands have written.

    python recipes/lib/figures.py updates runs/x/feedback/train.log --plus 1000 --else 15000

A figure is called by its name, that of a function below, with its arguments, mostly files. In a table row (row.py) the
call follows an @. With @? it becomes "-" if its file is missing. On the command line, --else gives the text that is
printed if its file is missing, as in a dry run.
"""

import argparse
import glob
import json
import math
import re
import shlex
from itertools import pairwise
from pathlib import Path
from statistics import mean, median_low

import say

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools.lib.log_lines import read_line


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
    if name not in FIGURES:
        say.stop(f"{name} is no figure: there are {', '.join(FIGURES)}.")
    return FIGURES[name](*arguments)


def text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from None


def last(path: str, pattern: str) -> str:
    """The group of the pattern, where it matches last."""
    if not (found := re.findall(pattern, text_of(path), re.MULTILINE)):
        raise UserError(f"{path} holds nothing like {pattern!r}.")
    return found[-1]


def field(path: str, *keys: str) -> str:
    """A value of a JSON file, with the digits that are there."""
    content = json.loads(text_of(path), parse_float=str)
    for key in keys:
        if key not in content:
            raise UserError(f"{path} has no {key}.")
        content = content[key]
    return str(content)


def logged(path: str, kind: str, name: str) -> list[float]:
    """A metric in the log of a training. The kind is "inner" or "valid", as in log_lines.py, or "" for any."""
    entries = filter(None, map(read_line, text_of(path).splitlines()))
    numbers = (entry.values.get(name, math.nan) for entry in entries if kind in ("", entry.kind))
    if not (found := [*filter(math.isfinite, numbers)]):
        raise UserError(f"{path} has no {name}: the log of a training has it.")
    return found


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
    return f"{int(last(path, r'num[.] (?:shared )?model params: ([0-9,]+)').replace(',', '')) / 1e6:.2f}M"


# Trainings, from their logs


def updates(path: str) -> str:
    return f"{logged(path, '', 'num_updates')[-1]:.0f}"


def best_loss(path: str) -> str:
    return str(logged(path, "valid", "best_loss")[-1])


def least_loss(*choices: str) -> str:
    """Of several NAME=LOG, the NAME whose training has the lowest validation loss."""
    logs = dict(choice.split("=", 1) for choice in choices)
    return min(logs, key=lambda name: min(logged(logs[name], "valid", "loss")))


def training_speed(path: str) -> str:
    """The median speed, in words per second."""
    return f"{median_low(logged(path, 'inner', 'wps')):.10g}"


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
    walls = [[*logged(path, "inner", "wall"), 0.0] for path in paths]
    return sum(before for each in walls for before, after in pairwise(each) if after < before)


def gpu_memory(path: str) -> str:
    """The most memory of the last GPU listed that a training has taken, in GB. A log of a CPU has none."""
    return f"{float(last(path, r'total memory = ([0-9.]+) GB')) - min(logged(path, 'inner', 'gb_free')):.1f}"


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


def generation_speed(path: str) -> str:
    """In tokens per second, as fairseq-generate says."""
    return last(path, r"([\d.]+) tokens/s")


# Several files


def ratio(name: str, one: str, other: str, *arguments: str) -> str:
    """The ratio of the same figure of two files."""
    return f"{float(read(name, one, *arguments)) / float(read(name, other, *arguments)):.2f}"


def mean_of(key: str, *paths: str) -> str:
    return f"{mean(float(field(path, key)) for path in paths):.2f}"


def best_of(key: str, *paths: str) -> str:
    return max((field(path, key) for path in paths), key=float)


def rewards(paths: tuple[str, ...]) -> list[float]:
    """Of agents, from the last validations of several trainings."""
    return [logged(path, "valid", "reward")[-1] for path in paths]


def mean_reward(*paths: str) -> str:
    return f"{mean(rewards(paths)):.3f}"


def mmer(*paths: str) -> str:
    """That of POPGym's paper: the highest of all validations, averaged over the trainings, with its range."""
    found = [max(logged(path, "valid", "reward")) for path in paths]
    return f"{mean(found):.3f} ({min(found):.3f} to {max(found):.3f})"


def reward_range(*paths: str) -> str:
    return f"{min(rewards(paths)):.3f} to {max(rewards(paths)):.3f}"


def reached(what: str, pattern: str) -> str:
    """The lengths that the finished trainings of a pattern have reached: "mean", "best", or the number of "runs"."""
    logs = [Path(path).with_name("train.log") for path in sorted(glob.glob(f"{pattern}/trained"))]
    if not logs:
        raise UserError(f"there is no training in {pattern} that ended.")
    sizes = [logged(str(log), "valid", "reached")[-1] for log in logs]
    return {"mean": f"{mean(sizes):.1f}", "best": f"{max(sizes):g}", "runs": str(len(sizes))}[what]


def spread(path: str, key: str) -> str:
    """A mean and its standard deviation, as MEAN ± DEVIATION."""
    return f"{float(field(path, key)):.2f} ± {float(field(path, f'{key}_deviation')):.2f}"


def change_of_deviation(key: str, before: str, after: str) -> str:
    """The change of the standard deviation from one file to the other, in percent."""
    was, is_now = (float(field(path, f"{key}_deviation")) for path in (before, after))
    return f"{100 * (is_now / was - 1):+.0f} %" if was > 0 else "-"


FIGURES = {"json": field} | {
    function.__name__: function for function in (
        bpc, ppl, parameters, updates, best_loss, least_loss, training_speed, milliseconds, wall_time, days,
        gpu_memory, end, updates_of_epochs, flags, generation_speed, ratio, mean_of, best_of, mean_reward,
        mmer, reward_range, reached, spread, change_of_deviation,
    )
}  # fmt: skip


if __name__ == "__main__":
    main()
