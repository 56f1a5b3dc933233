"""The loss of a language model of single lines (--task language_modeling --sample-break-mode eos).

    python -m fairseq_plugins.tools.score_lines data/bin --path runs/lines/checkpoint_last.pt
    python -m fairseq_plugins.tools.score_lines data/bin --path model.pt --split valid --json valid.json

Two figures are printed. The first is the loss in nats per token, end-of-line tokens included, where every line is
scored once. The second is the figure of Table 1 of the active-memory paper, which is not a loss per token: it is the
mean over all positions of padded batches, padding included, of lines with at most --longest tokens. The authors' code
scores 100 batches of 64 lines at the end of a training. Here the lines are drawn at random (--seed), and a batch is as
long as its longest line. As in that code, the first token of a line is not counted, although it is predicted in
training.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.reading import checkpoint
from fairseq_plugins.files.whole import write_json
from fairseq_plugins.options.ranges import SEED, whole
from fairseq_plugins.tools.lib.command import Command

if TYPE_CHECKING:
    import numpy as np


class Lines(NamedTuple):
    """For every line: its loss in nats, the part of its first token, and its number of tokens."""

    nats: np.ndarray
    first: np.ndarray
    tokens: np.ndarray


def main():
    parser = Command(__doc__)
    parser.add_argument("data", type=Path, help="output folder of fairseq-preprocess")
    parser.option("--path", checkpoint, None, "CKPT", "a checkpoint, or its folder", required=True)
    parser.add_argument("--split", default="test", help="split to score (%(default)s)")
    parser.option("--longest", whole(1), 300, "N", "most tokens of a line in the second figure")
    parser.option("--batch", whole(1), 64, "N", "lines of a padded batch")
    parser.option("--batches", whole(1), 100, "N", "number of padded batches")
    parser.option("--seed", SEED, 1, "SEED", "of the padded batches")
    parser.option("--max-tokens", whole(1), 4000, "N", "tokens in a step")
    parser.add_json()
    parser.add_cpu()
    args = parser.parse()
    found = figures(score(args), args)
    print(
        "every line: {lines} lines, {tokens} tokens, {nats:.4f} nats per token, perplexity {perplexity:.2f}\n"
        "as in Table 1, without first tokens: {padded:.4f} nats per position, padding included; {left_out} longer lines"
        " left out".format(**found)
    )
    if args.json:
        write_json(args.json, found)


def score(args) -> Lines:
    """Score every line of the split."""
    import numpy as np
    import torch

    from fairseq_plugins.tools.lib.load import batches, load

    with torch.no_grad():
        model, cfg, task = load(args.path, {"data": str(args.data)}, args.cpu)
        if getattr(cfg.task, "sample_break_mode", None) != "eos":
            raise UserError(f"{args.path} was not trained on single lines; use fairseq-eval-lm.")
        task.load_dataset(args.split)
        dataset = task.dataset(args.split)
        longest = int(dataset.sizes.max())
        nats, first, tokens = np.zeros(len(dataset)), np.zeros(len(dataset)), np.zeros(len(dataset), dtype=int)
        for sample in batches(model, task, dataset, max_tokens=max(args.max_tokens, longest)):
            lines = sample["id"].cpu().numpy()
            real = sample["target"].ne(task.dictionary.pad())
            tokens[lines] = real.sum(1).cpu().numpy()
            log_probs = model.get_normalized_probs(model(**sample["net_input"]), log_probs=True)
            nll = -log_probs.gather(-1, sample["target"].unsqueeze(-1)).squeeze(-1).masked_fill(~real, 0)
            nats[lines] = nll.sum(1, dtype=torch.float64).cpu().numpy()
            first[lines] = nll[:, 0].cpu().numpy()
        return Lines(nats, first, tokens)


def figures(lines: Lines, args) -> dict[str, float]:
    per_token = lines.nats.sum() / lines.tokens.sum()
    return {
        "lines": len(lines.tokens),
        "tokens": int(lines.tokens.sum()),
        "nats": float(per_token),
        "perplexity": math.exp(per_token),
        "padded": padded(lines, args.longest, args.batch, args.batches, args.seed),
        "left_out": int((lines.tokens > args.longest).sum()),
    }


def padded(lines: Lines, longest: int, batch: int, batches: int, seed: int) -> float:
    """Nats per position, first tokens left out: the mean over padded batches.

    Args:
        longest: most tokens of a line
        batch: lines of a batch
        batches: number of batches
    """
    import numpy as np

    (short,) = np.nonzero(lines.tokens <= longest)
    if not len(short):
        raise UserError(f"no line has --longest {longest} tokens or fewer; raise it.")
    draw = np.random.default_rng(seed)
    drawn = [draw.choice(short, min(batch, len(short)), replace=False) for _ in range(batches)]
    rest = lines.nats - lines.first
    return float(np.mean([rest[rows].sum() / (len(rows) * max(lines.tokens[rows].max() - 1, 1)) for rows in drawn]))


if __name__ == "__main__":
    main()
