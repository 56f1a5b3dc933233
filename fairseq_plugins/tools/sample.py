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

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.reading import checkpoint
from fairseq_plugins.options.ranges import LENGTH, RANGES, SEED, TOP_K, TOP_P, whole
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.reading import read_text
from fairseq_plugins.tools.lib.command import Command, tell
from fairseq_plugins.tools.lib.language_model import add_options, keeps_memory, load_language_model

if TYPE_CHECKING:
    from fairseq.data import Dictionary

NAMED = 10  # unknown symbols in the message


def main():
    parser = Command(__doc__)
    parser.option("--path", checkpoint, None, "CKPT", "a checkpoint, or its folder", required=True)
    beginning = parser.add_mutually_exclusive_group()
    beginning.add_argument("--prompt", default="", help="the beginning of the text (default: the beginning of a line)")
    beginning.add_argument("--prompt-file", type=Path, metavar="FILE", help="file with the beginning of the text")
    parser.option("--length", LENGTH, 200, "N", "number of tokens to sample")
    parser.option("--samples", whole(1), 1, "N", "number of texts")
    parser.option("--temperature", RANGES["temperature"], 1.0, "T", "values below 1 give more likely text")
    parser.option("--top-k", TOP_K, -1, "K", "sample from the K most likely tokens; -1: from all")
    parser.option("--top-p", TOP_P, -1.0, "P", "sample from the most likely tokens whose probabilities sum to P")
    parser.option("--seed", SEED, 1, "SEED", "of the random numbers")
    add_options(parser)
    args = parser.parse()
    if args.top_k > 0 and args.top_p > 0:
        raise UserError("--top-k and --top-p exclude each other; choose one.")
    import torch

    torch.manual_seed(args.seed)
    model, cfg, task, text = load_language_model(args.path, args.data, args.tokens, args.cpu, args.int8)
    model.prepare_for_inference_(cfg)
    # every editor writes a newline at the end of a file, which does not belong to the prompt
    prompt = "".join(read_text(args.prompt_file, text.errors)).removesuffix("\n") if args.prompt_file else args.prompt
    start = encode(prompt, task.dictionary, text, newlines=not getattr(cfg.task, "no_end_of_line", False))
    for number, tokens in enumerate(sample(task, model, start, args), start=1):
        heading = f"--- {number}\n" if args.samples > 1 else ""
        said = heading + continued(prompt, start, tokens, task.dictionary, text) + "\n"
        sys.stdout.buffer.write(said.encode(errors="surrogateescape"))  # bytes that are no text come out as they were
        sys.stdout.flush()


def encode(prompt: str, dictionary: Dictionary, text: PreparedText, newlines: bool = True) -> list[int]:
    """Indices of a prompt's symbols, with end-of-line between its lines if ``newlines`` are tokens."""
    tokens: list[int] = []
    unknown: list[str] = []
    for number, line in enumerate(prompt.split("\n")):
        symbols = text.encode(line).split()
        tokens += [dictionary.eos()] * (newlines and number > 0)
        tokens += map(dictionary.index, symbols)
        unknown += [symbol for symbol in symbols if dictionary.index(symbol) == dictionary.unk()]
    if unknown:
        names = list(dict.fromkeys(text.decode(symbol) for symbol in unknown))
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        tell(
            f"the model does not know {len(unknown)} of the prompt's {len(tokens)} symbols:"
            f" {' '.join(names[:NAMED])}{more}"
        )
    return tokens


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
