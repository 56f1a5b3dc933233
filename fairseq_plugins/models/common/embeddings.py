"""Input and output layers of language models, and the options that choose them."""

import math

from torch import nn

from fairseq_plugins.errors import UserError
from fairseq_plugins.modules.common.adaptive_io import AdaptiveInput, AdaptiveSoftmax


class ScaledEmbedding(nn.Embedding):
    """Embeddings multiplied by the square root of their width."""

    def forward(self, tokens):
        return super().forward(tokens) * math.sqrt(self.embedding_dim)


# WikiText-103, as in the code of the all-attention paper: input and output share four clusters, each four times
# narrower than the one before. The paper's text has three clusters, of 20k, 40k and 200k words. The Feedback paper
# gives no numbers.
WIKITEXT103_WORDS = {
    "adaptive_input": True,
    "adaptive_input_cutoff": "20000,40000,200000",
    "adaptive_softmax_cutoff": "20000,40000,200000",
    "tie_adaptive_weights": True,
    "tie_adaptive_proj": True,
}


def build_embeddings(
    args, vocabulary: int, embed_dim: int | None = None, tie_head: bool = True
) -> tuple[nn.Module, nn.Module]:
    """Input and output layer. Embedding tables are drawn from N(0, 1), but a plain table that the output layer shares
    has the standard deviation width^-0.5. An output layer of its own is drawn as torch's linear layers are.

    Args:
        embed_dim: width of embeddings that are projected to the model's width; None: the model's width
        tie_head: with --tie-adaptive-proj, share the projection of the first cluster, too
    """
    width = args.decoder_embed_dim
    shared = args.share_decoder_input_output_embed
    embed: AdaptiveInput | nn.Embedding
    output: AdaptiveSoftmax | nn.Linear
    if args.adaptive_input or embed_dim:
        clusters = cutoffs(args.adaptive_input_cutoff), width, args.adaptive_input_factor
        embed = AdaptiveInput(vocabulary, *clusters, embed_dim)
    else:
        embed = nn.Embedding(vocabulary, width)
    if args.adaptive_softmax_cutoff or (embed_dim and shared):
        output = AdaptiveSoftmax(
            vocabulary,
            cutoffs(args.adaptive_softmax_cutoff),
            width,
            args.adaptive_softmax_factor,
            embed if isinstance(embed, AdaptiveInput) and (args.tie_adaptive_weights or shared) else None,
            args.tie_adaptive_proj or shared,
            tie_head,
            embed_dim,
        )
    else:
        output = nn.Linear(width, vocabulary)
        if shared:
            nn.init.normal_(output.weight, std=width**-0.5)
            embed.weight = output.weight
    return embed, output


def cutoffs(text: str | None) -> list[int]:
    """ "20000,40000" -> [20000, 40000]"""
    if not text:
        return []
    try:
        return [int(number) for number in str(text).strip("[]() ").split(",")]
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not a list of cut-offs; give numbers with commas, such as 20000,40000,200000"
        ) from error


def check_adaptive_embeddings(args) -> None:
    """Raises UserError for flags of adaptive input and softmax that do not go together."""
    if args.adaptive_input != bool(args.adaptive_input_cutoff):
        raise UserError("--adaptive-input and --adaptive-input-cutoff go together; give both or neither.")
    if args.share_decoder_input_output_embed and (args.adaptive_input or args.adaptive_softmax_cutoff):
        raise UserError(
            "--share-decoder-input-output-embed is for models without --adaptive-input and --adaptive-softmax-cutoff;"
            " with these take --tie-adaptive-weights."
        )
    if args.tie_adaptive_weights and (
        args.adaptive_input_cutoff != args.adaptive_softmax_cutoff
        or args.adaptive_input_factor != args.adaptive_softmax_factor
        or not args.adaptive_input
    ):
        raise UserError(
            "--tie-adaptive-weights needs --adaptive-input, and equal cut-offs and factors: set --adaptive-input-cutoff"
            " to --adaptive-softmax-cutoff, and --adaptive-input-factor to --adaptive-softmax-factor."
        )
    if args.tie_adaptive_proj and not args.tie_adaptive_weights:
        raise UserError("--tie-adaptive-proj needs --tie-adaptive-weights; give both or leave it out.")
