"""How much each head contributes: evaluate a language model with one head pruned at a time.

    python -m fairseq_plugins.tools.head_pruning runs/a/checkpoint_best.pt --data data/bin --split valid

Prints a table of layers and heads, counted from 1. An entry is the increase of the perplexity (with --metric bpc, of
the bits per token) without the head. The last column and row are standard deviations over the heads of a layer and over
all heads (of a sample, with n - 1), as in Table 3 of the Skip Cross-Head paper. Every token of the split is scored
once. The numbers are exact with --batch-size 1; else each stream starts from an empty memory. The file of --json holds
the columns by layer, and the mean deviation of a layer's heads.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.reading import checkpoint
from fairseq_plugins.files.whole import write_json
from fairseq_plugins.options.combinations import dictionary
from fairseq_plugins.options.ranges import whole
from fairseq_plugins.tools.lib import markdown_text
from fairseq_plugins.tools.lib.command import Command, tell

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fairseq_plugins.modules.span.attention import SpanAttention
    from fairseq_plugins.modules.transformer_xl.attention import XLAttention

METRICS = {
    "ppl": math.exp,
    "bpc": lambda nats: nats / math.log(2),
}  # functions of the mean negative log-probability in nats


def main():
    parser = Command(__doc__)
    parser.add_argument("checkpoint", type=checkpoint)
    parser.option("--data", Path, None, "DIR", "binarised data (default: as in training)")
    parser.add_argument("--split", default="valid", help="split to evaluate (%(default)s)")
    parser.add_argument("--metric", choices=METRICS, default="ppl", help="perplexity, or bits per token (%(default)s)")
    parser.option("--batch-size", whole(1), 1, "B", "number of streams")
    parser.option("--tokens-per-sample", whole(1), None, "M", "tokens of a block (default: as in training)")
    parser.option("--model-overrides", str, "{}", "DICT", "as in fairseq-eval-lm")
    parser.add_json("write the table there, too")
    parser.add_cpu()
    args = parser.parse()
    model, task = load_split(args)
    measure = METRICS[args.metric]
    nats = score(model, task, args)
    with_all = measure(nats)
    rises = [
        [measure(score(model, task, args)) - with_all for _ in each_head_pruned(attention)]
        for attention in tqdm(attentions(model), desc="layers", leave=False)
    ]
    print(table(rises))
    if args.json:
        write_json(args.json, by_layer(rises))
    print(f"\nwith all heads: {args.metric} {with_all:.4f}")
    if nats > math.log(words := len(task.source_dictionary)):
        even = measure(math.log(words))
        tell(f"This is above {even:.4g}, that of even guesses: the rises say nothing yet.")


def load_split(args):
    """The model of a checkpoint, and its task with the split loaded."""
    from fairseq_plugins.tasks.streaming_language_modeling import StreamingLanguageModelingTask
    from fairseq_plugins.tools.lib.load import load

    given = {"data": args.data and str(args.data), "tokens_per_sample": args.tokens_per_sample}
    overrides = dictionary("model_overrides", args.model_overrides)
    overrides |= {name: value for name, value in given.items() if value is not None}
    model, _, task = load(args.checkpoint, overrides, args.cpu)
    if type(task) is not StreamingLanguageModelingTask:  # others have no text to be scored
        raise UserError(f"{args.checkpoint} is no model of --task streaming_language_modeling; give one that is.")
    if not attentions(model):
        raise UserError(
            f"{args.checkpoint} has no heads that can be pruned; give a checkpoint of a Transformer-XL or of a model"
            " with span attention."
        )
    task.load_dataset(args.split)
    return model, task


def attentions(model: nn.Module) -> list[XLAttention | SpanAttention]:
    """The attention modules of all layers, in order."""
    from fairseq_plugins.modules.span.attention import SpanAttention
    from fairseq_plugins.modules.transformer_xl.attention import XLAttention

    return [module for module in model.modules() if isinstance(module, XLAttention | SpanAttention)]


def each_head_pruned(attention: XLAttention | SpanAttention) -> Iterator[None]:
    """Yields once for each head, while the output of this head is set to zero."""
    columns = attention.out_proj.weight.data.view(len(attention.out_proj.weight), attention.cross_head.heads, -1)
    for head in tqdm(range(columns.size(1)), desc="heads", leave=False):
        with zeroed(columns[:, head]):
            yield


@contextmanager
def zeroed(weights: Tensor):
    before = weights.clone()
    weights.zero_()
    yield
    weights.copy_(before)


def score(model, task, args) -> float:
    """The mean negative log-probability of the tokens of the split, in nats."""
    import torch

    from fairseq_plugins.tools.lib.load import on_device

    with torch.no_grad():
        evaluation = task.eval_lm_dataloader(task.dataset(args.split), batch_size=args.batch_size, num_workers=0)
        for sample in evaluation:
            sample = on_device(model, sample)
            nll = model.token_nll(model(**sample["net_input"]), sample["target"])
            evaluation.figures.add(-nll, sample["target"])
        task.memories.clear()
        return evaluation.figures.all.mean


def table(rises: list[list[float]]) -> str:
    """In Markdown. ``rises`` holds a row of values for each layer."""
    heads = [f"H{head}" for head in range(1, len(rises[0]) + 1)]
    rows = [[str(layer), *(f"{rise:.4f}" for rise in [*row, deviation(row)])] for layer, row in enumerate(rises, 1)]
    every = deviation([rise for row in rises for rise in row])
    return markdown_text.table(["layer", *heads, "stddev"], [*rows, ["all", *[""] * len(heads), f"{every:.4f}"]])


def by_layer(rises: list[list[float]]) -> dict[str, dict[str, float]]:
    """The columns of each layer; "mean" has the mean deviation."""
    columns = {
        str(layer): {f"H{head}": round(rise, 4) for head, rise in enumerate(row, 1)}
        | {"stddev": round(deviation(row), 4)}
        for layer, row in enumerate(rises, 1)
    }
    return columns | {"mean": {"stddev": round(statistics.mean(map(deviation, rises)), 4)}}


def deviation(values: list[float]) -> float:
    """The standard deviation of a sample; nan for a single value."""
    return statistics.stdev(values) if len(values) > 1 else math.nan


if __name__ == "__main__":
    main()
