r"""Accuracy, F1 and Matthews correlation of sentence classifiers: their mean and standard deviation over seeds.

    python -m fairseq_plugins.tools.score_sentences data/glue/MRPC/bin \
        --path runs/mrpc-seed1/checkpoint_last.pt runs/mrpc-seed2/checkpoint_last.pt --json scores.json

For models of fairseq's task sentence_prediction. fairseq-train logs the same figures of one model, but rounded to a
tenth of a percent, which can be more than the difference between seeds. All figures are in percent. F1 (of the label 1)
and Matthews correlation need the labels 0 and 1. The standard deviation is that of a sample (n - 1).
"""

import statistics
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.reading import checkpoint
from fairseq_plugins.files.whole import write_json
from fairseq_plugins.options.ranges import whole
from fairseq_plugins.tools.lib.command import Command, each_once

BINARY = {"0", "1"}


def main():
    parser = Command(__doc__)
    parser.add_argument("data", type=Path, help="data folder of the task, which contains input0 and label")
    parser.option("--path", checkpoint, None, "FILE", "checkpoints, one per seed", nargs="+", required=True)
    parser.add_argument("--split", default="valid", help="split to score (%(default)s)")
    parser.option("--batch-size", whole(1), 32, "N", "sentences in a step")
    parser.add_cpu()
    parser.add_json()
    args = parser.parse()
    paths = each_once("--path", args.path)
    runs = [score(*predict(path, args.data, args.split, args.batch_size, args.cpu)) for path in paths]
    figures = over_seeds(runs)
    for name in runs[0]:
        print(f"{name} = {spread(figures, name)} ({', '.join(f'{run[name]:.2f}' for run in runs)})")
    if args.json:
        write_json(args.json, figures)


def predict(path: Path, data: Path, split: str, batch_size: int, cpu: bool) -> tuple[list[str], list[str]]:
    """The predicted and the right labels of the sentences of a split."""
    import torch

    from fairseq_plugins.tools.lib.load import batches, load

    def check(task):
        if task._name != "sentence_prediction":
            raise UserError(f"{path} is not a sentence classifier; give a checkpoint of --task sentence_prediction.")

    with torch.no_grad():
        model, _, task = load(path, {"data": str(data)}, cpu, check)
        task.load_dataset(split)
        predicted, right = [], []
        head = {"features_only": True, "classification_head_name": task.cfg.classification_head_name}
        limits = {"max_sentences": batch_size, "max_positions": task.max_positions()}
        for batch in batches(model, task, task.dataset(split), **limits):
            scores, _ = model(**batch["net_input"], **head)
            predicted += scores.argmax(dim=1).tolist()
            right += batch["target"].view(-1).tolist()
        symbols = task.label_dictionary
        names = [[symbols[symbols.nspecial + label] for label in labels] for labels in (predicted, right)]
        return names[0], names[1]


def score(predicted: list[str], right: list[str]) -> dict[str, float]:
    """Figures in percent; F1 and Matthews correlation only if the labels are 0 and 1."""
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef  # as in fairseq's criterion

    figures = {"accuracy": accuracy_score(right, predicted)}
    if {*predicted, *right} <= BINARY:
        figures["f1"] = f1_score(right, predicted, pos_label="1", zero_division=0)
        figures["matthews"] = matthews_corrcoef(right, predicted)
    return {name: 100 * float(figure) for name, figure in figures.items()}


def over_seeds(runs: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each figure; with several runs also its standard deviation, as NAME_deviation."""
    figures = {name: statistics.mean(run[name] for run in runs) for name in runs[0]}
    if len(runs) > 1:
        figures |= {f"{name}_deviation": statistics.stdev(run[name] for run in runs) for name in runs[0]}
    return figures


def spread(figures: dict[str, float], name: str) -> str:
    deviation = figures.get(f"{name}_deviation")
    return f"{figures[name]:.2f}" + (f" ± {deviation:.2f}" if deviation is not None else "")


if __name__ == "__main__":
    main()
