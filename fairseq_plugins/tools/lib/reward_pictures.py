"""Pictures of agents' rewards over several trials, as in Figures 3, 4 and 6 of the Feedback paper."""

from math import isfinite, nan
from pathlib import Path
from statistics import fmean

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.reading import parse_json, regular
from fairseq_plugins.tools.lib import training_log
from fairseq_plugins.tools.lib.command import Command
from fairseq_plugins.tools.lib.pictures import BESIDE, by_name, finish, legend_name, new_figure, once_named
from fairseq_plugins.tools.lib.several_runs import Curve, check_common, common_places, draw_band, draw_mean, logs_of

REWARD = "reward of an episode ({}: lowest to highest trial)"


def add_curves(parser: Command) -> None:
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN", help="runs of one NAME are trials of one agent")
    add_lines(parser)


def add_lines(parser: Command) -> None:
    words = "mean rewards to compare with, of watch --json FILE"
    parser.add_argument("--line", nargs="+", default=[], metavar="NAME=FILE", help=words)


def add_sizes(parser: Command) -> None:
    parser.add_argument("runs", nargs="+", metavar="NAME=SIZE:RUN", help="runs of one NAME and SIZE are trials")
    parser.option("--size", str, "attention span, steps", "TEXT", "the name of the sizes")
    add_lines(parser)


# Reward over steps


def draw_curves(args):
    figure, ((axes,),) = new_figure()
    for number, (name, runs) in enumerate(by_name(args.runs).items()):
        common = common_places([*map(curve, logs_of(name, runs))])
        check_common(name, "steps", common)
        label = legend_name(name if len(runs) == 1 else f"{name}, {len(runs)} trials")
        alone = "o" if len(common[0]) == 1 else None
        draw_mean(axes, common, color=f"C{number}", label=label, marker=alone)
        draw_band(axes, common, f"C{number}")
    draw_means(axes, args.line)
    finish(axes, "steps of all environments, millions", REWARD.format("band"), **BESIDE)
    return figure


def curve(run: Path) -> Curve:
    """The steps of all environments so far, in millions, and the mean reward of the episodes that ended since the last
    entry."""
    steps, update = 0.0, 0.0
    places: list[float] = []
    rewards: list[float] = []
    for entry in training_log.read(run).train:
        steps += (entry["num_updates"] - update) * entry.get("wpb", 0.0)  # a resumed training may have other updates
        update = entry["num_updates"]
        if isfinite(entry.get("reward", nan)):
            places.append(steps / 1e6)
            rewards.append(entry["reward"])
    if not (rewards and steps):
        raise UserError(f"the log of {run} has no reward; give trainings of --task reinforcement_learning.")
    return places, rewards


# Reward over the size of the memory


def draw_sizes(args):
    figure, ((axes,),) = new_figure()
    for number, (name, runs) in enumerate(by_name(args.runs).items()):
        sizes = [size_and_run(name, run) for run in runs]
        rewards: dict[int, list[float]] = {size: [] for size in sorted(size for size, _ in sizes)}
        for (size, _), log in zip(sizes, logs_of(name, [run for _, run in sizes])):
            rewards[size].append(last_reward(log))
        means = [*map(fmean, rewards.values())]
        below = [mean - min(trials) for mean, trials in zip(means, rewards.values())]
        above = [max(trials) - mean for mean, trials in zip(means, rewards.values())]
        look = {"color": f"C{number}", "marker": "o", "markersize": 4, "capsize": 3}
        axes.errorbar([*rewards], means, [below, above], label=legend_name(name), **look)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    draw_means(axes, args.line)
    finish(axes, args.size, REWARD.format("bars"), **BESIDE)
    return figure


def size_and_run(name: str, argument: str) -> tuple[int, str]:
    """SIZE:RUN -> the size and the run."""
    size, _, run = argument.partition(":")
    if not (run and size.isdecimal() and int(size)):
        raise UserError(f"{name}={argument} does not have the form NAME=SIZE:RUN; write it as {name}=16:runs/a.")
    return int(size), run


def last_reward(run: Path) -> float:
    _, rewards = training_log.read(run).series("valid", "reward")
    if not (rewards and isfinite(rewards[-1])):
        raise UserError(f"the log of {run} ends with no validation with a reward; train to the end of an epoch.")
    return rewards[-1]


# Both


def draw_means(axes, lines: list[str]) -> None:
    """A dashed line for each NAME=FILE, at the mean reward in the file."""
    for number, (name, file) in enumerate(once_named(lines, "NAME=FILE", "best=best.json").items()):
        look = {"color": "black", "linestyle": ("--", ":", "-.")[number % 3]}
        axes.axhline(mean_reward(file), label=legend_name(name), **look)
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))


def mean_reward(file: Path) -> float:
    try:
        reward = float(parse_json(regular(file).read_text(encoding="utf-8"))["reward"])
        if not isfinite(reward):
            raise ValueError(f"it is {reward}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} holds no mean reward ({error}); make it with tools.watch --json {file}.") from None
    return reward
