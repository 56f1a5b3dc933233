"""The receptive field of a model with active memory.

    python -m fairseq_plugins.tools.receptive_field --kernel-size 20 --layers 8
    python -m fairseq_plugins.tools.receptive_field --kernel-size 20 --layers 4 --bidirectional
    python -m fairseq_plugins.tools.receptive_field --kernel-size 20 --layers 8 --mixer cgru

Causal convolutions cover a token and those to its left: 153 tokens with 8 layers of kernel size 20. For bidirectional
convolutions the paper gives the token and those to its left, too: 37 with 4 layers of kernel size 20. A CGRU has two
convolutions, one after the other.
"""

import argparse

from fairseq_plugins.options.ranges import whole
from fairseq_plugins.tools.lib.command import Command


def main():
    parser = Command(__doc__)
    parser.option("--kernel-size", whole(1), 20, "K", "tokens that a convolution covers")
    parser.option("--layers", whole(1), 8, "N", "number of layers")
    parser.option("--mixer", mixer, "convolution", "KIND", "as in fairseq-train")
    words = "not causal, as for the algorithmic tasks"
    parser.add_argument("--bidirectional", "--both-sides", action="store_true", help=words)
    args = parser.parse()
    print(report(args.mixer, args.kernel_size, args.layers, causal=not args.bidirectional))


def mixer(name: str) -> str:
    from fairseq_plugins.modules.active_memory.mixers import MIXERS

    if name not in MIXERS:
        raise argparse.ArgumentTypeError(f"{name} is no kind of layers; choose from {', '.join(MIXERS)}")
    return name


def receptive_field(mixer: str, kernel_size: int, layers: int, causal: bool) -> tuple[int, int] | None:
    """The numbers of tokens to the left and to the right that an output of the top layer depends on; None: all
    tokens."""
    from fairseq_plugins.modules.active_memory.convolution import reach
    from fairseq_plugins.modules.active_memory.mixers import ATTENTION, MEMORIES, MIXERS

    if ATTENTION in MIXERS[mixer]:
        return None
    memory = MIXERS[mixer][0]  # there is one
    left, right = (layers * MEMORIES[memory].DEPTH * side for side in reach(kernel_size, causal))
    return left, right


def report(mixer: str, kernel_size: int, layers: int, causal: bool) -> str:
    seen = receptive_field(mixer, kernel_size, layers, causal)
    if seen is None:
        return f"{mixer}: all tokens" + " up to its own" * causal
    left, right = seen
    return f"{mixer}: {left} to the left + itself = {left + 1}, {right} to the right, {left + 1 + right} in all"


if __name__ == "__main__":
    main()
