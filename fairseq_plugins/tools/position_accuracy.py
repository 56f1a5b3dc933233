"""Plot the accuracy of labels by their position in an episode, from files of tools/label_accuracy --json.

    python -m fairseq_plugins.tools.position_accuracy feedback=a/test.json lstm=b/test.json --out positions.png

Each NAME=FILE becomes a line with this name. Where episodes differ in length, few are very long: positions that have
less than a twentieth of the labels of the fullest one are left out.
"""

from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.reading import parse_json, regular
from fairseq_plugins.tools.lib.command import Command
from fairseq_plugins.tools.lib.pictures import add_out, finish, legend_name, new_figure, once_named, save


def main():
    parser = Command(__doc__)
    parser.add_argument("runs", nargs="+", metavar="NAME=FILE")
    add_out(parser)
    args = parser.parse()
    save(draw(by_name(args.runs)), args.out)


def by_name(runs: list[str]) -> dict[str, dict]:
    """The metrics of NAME=FILE... by name.

    Raises:
        UserError: a name is given twice, or a file has other content
    """
    return {name: read(file) for name, file in once_named(runs, "NAME=FILE", "feedback=runs/walk/test.json").items()}


def read(file: Path) -> dict:
    """The metrics in a file of label_accuracy."""
    regular(file)
    try:
        metrics = parse_json(file.read_text(encoding="utf-8"))
        return checked(*(metrics[key] for key in ("span", "by_position", "labels_by_position")))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} is not a file of tools/label_accuracy --json; write it again.") from error


def checked(span: int, accuracy: list[float | None], labels: list[int]) -> dict:
    """The metrics that a picture needs.

    Raises:
        ValueError or TypeError: label_accuracy cannot have written them
    """
    right = all(value is None or 0 <= value <= 100 for value in accuracy)
    if not (right and span >= 1 and labels and min(labels) >= 0 and len(labels) == len(accuracy)):
        raise ValueError("the numbers are not from label_accuracy")
    return {"span": span, "by_position": accuracy, "labels_by_position": labels}


def draw(runs: dict[str, dict]):
    """A picture with a line for each run."""
    figure, ((axes,),) = new_figure()
    for name, metrics in runs.items():
        axes.plot(*zip(*points(metrics)), label=legend_name(name))
    axes.set_ylim(0, 101)
    finish(axes, "position in the episode, tokens", "labels right, %")
    return figure


def points(metrics: dict) -> list[tuple[int, float]]:
    """Each position that has labels enough, in tokens, and the accuracy there."""
    labels = metrics["labels_by_position"]
    enough = max(1, max(labels) / 20)
    return [
        (place * metrics["span"], value)
        for place, value in enumerate(metrics["by_position"])
        if labels[place] >= enough
    ]


if __name__ == "__main__":
    main()
