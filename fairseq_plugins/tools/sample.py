"""Sample text from a language model.

    python -m fairseq_plugins.tools.sample --path runs/ptb/checkpoint_best.pt --prompt "the company said" --length 300
    python -m fairseq_plugins.tools.sample --path model.pt --prompt "" --samples 3 --temperature 0.8 --top-p 0.9 --seed
    2

Prompt and output are raw text: prepared_text.json beside the checkpoint, or in the data folder, says how symbols are
made of it. Without that file the dictionary tells whether symbols are bytes, characters or words. The prompt is printed
as it was given; a message names the symbols in it that the model does not know. A model of single lines (--task
language_modeling --sample-break-mode eos) samples up to the end of a line, and at most --length tokens.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.reading import checkpoint
from fairseq_plugins.options.ranges import LENGTH, RANGES, SEED, TOP_K, TOP_P, whole
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.reading import read_text
from fairseq_plugins.tools.lib.language_model import add_options, keeps_memory, load_language_model
from fairseq_plugins.tools.lib.out_file import refuse_inputs

if TYPE_CHECKING:
    from fairseq.data import Dictionary

logger = logging.getLogger(__name__)
NAMED = 10  # unknown symbols in the message


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=checkpoint, required=True, metavar="CKPT", help="a checkpoint, or its folder")
    beginning = parser.add_mutually_exclusive_group()
    beginning.add_argument("--prompt", default="", help="the beginning of the text (default: the beginning of a line)")
    beginning.add_argument("--prompt-file", type=Path, metavar="FILE", help="file with the beginning of the text")
    parser.add_argument(
        "--length", type=LENGTH, default=200, metavar="N", help="number of tokens to sample (%(default)s)"
    )
    parser.add_argument("--samples", type=whole(1), default=1, metavar="N", help="number of texts (%(default)s)")
    parser.add_argument(
        "--temperature",
        type=RANGES["temperature"],
        default=1.0,
        help="values below 1 give more likely text (%(default)s)",
    )
    parser.add_argument("--top-k", type=TOP_K, default=-1, metavar="K", help="sample from the K most likely tokens")
    parser.add_argument(
        "--top-p",
        type=TOP_P,
        default=-1.0,
        metavar="P",
        help="sample from the most likely tokens whose probabilities sum to P",
    )
    parser.add_argument("--seed", type=SEED, default=1, help="(%(default)s)")
    add_options(parser)
    args = parser.parse_args()
    if args.top_k > 0 and args.top_p > 0:
        raise UserError("--top-k and --top-p exclude each other; choose one.")
    refuse_inputs(args)
    import torch

    logging.basicConfig(format="%(message)s")
    logging.disable(logging.INFO)  # print the text only
    torch.manual_seed(args.seed)
    model, cfg, task, text = load_language_model(args.path, args.data, args.tokens, args.cpu)
    model.prepare_for_inference_(cfg)
    # every editor writes a newline at the end of a file, which does not belong to the prompt
    prompt = "".join(read_text(args.prompt_file)).removesuffix("\n") if args.prompt_file else args.prompt
    start = encode(prompt, task.dictionary, text)
    for number, tokens in enumerate(sample(task, model, start, args), start=1):
        if args.samples > 1:
            print(f"--- {number}")
        print(continued(prompt, start, tokens, task.dictionary, text))


def encode(prompt: str, dictionary: Dictionary, text: PreparedText) -> list[int]:
    """Indices of a prompt's symbols, with end-of-line between its lines, but not after the last."""
    tokens, unknown = [], []
    for line in prompt.split("\n"):
        symbols = text.encode(line).split()
        tokens += [*map(dictionary.index, symbols), dictionary.eos()]
        unknown += [symbol for symbol in symbols if dictionary.index(symbol) == dictionary.unk()]
    if unknown:
        names = list(dict.fromkeys(text.decode(symbol) for symbol in unknown))
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        logger.warning(
            f"the model does not know {len(unknown)} of the prompt's {len(tokens) - 1} symbols:"
            f" {' '.join(names[:NAMED])}{more}"
        )
    return tokens[:-1]


def continued(prompt: str, start: list[int], tokens: list[int], dictionary: Dictionary, text: PreparedText) -> str:
    """The prompt as it was given, and its continuation.

    Args:
        start: the tokens of the prompt
        tokens: those of the whole text
    """
    given, whole = decode(start, dictionary, text), decode(tokens, dictionary, text)
    if not whole.startswith(given):
        return whole
    rest = whole.removeprefix(given)
    if prompt.endswith(" ") and not given.endswith(" "):  # the level has no symbol for a space at the end
        rest = rest.removeprefix(" ")
    return prompt + rest


def decode(tokens: list[int], dictionary: Dictionary, text: PreparedText) -> str:
    symbols = " ".join("\n" if token == dictionary.eos() else dictionary[token] for token in tokens)
    return "\n".join(text.decode(line) for line in symbols.split("\n"))


def sample(task, model, prompt: list[int], args) -> list[list[int]]:
    """--samples texts: the prompt, then --length sampled tokens."""
    from fairseq_plugins.models.common import sampling

    if not keeps_memory(task) and task.dictionary.eos() in prompt:
        raise UserError("--prompt has several lines, but the model is for single lines; give one line.")
    return sampling.sample(
        task, [model], prompt, args.length, args.temperature, args.top_k, args.top_p, samples=args.samples
    )


if __name__ == "__main__":
    main()
