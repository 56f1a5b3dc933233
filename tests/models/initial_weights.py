"""The distributions of the initial weights in the papers' public code, and its first losses.

For each code there is a list of patterns of parameter names, each with a distribution; the first pattern that fits
counts. The names are this suite's. recipes/PAPER/paper.json says under "initial weights" which architecture follows
which code, or that something is ours.
"""

from fnmatch import fnmatchcase
from typing import NamedTuple

import torch
from torch import Tensor

PADDING = 1  # its row in fairseq's embeddings


class Normal(NamedTuple):
    std: float
    mean: float = 0.0

    def fits(self, x: Tensor) -> bool:
        """Whether x may be drawn from it: within 5 standard errors, and with values that no uniform draw has."""
        x = x - self.mean
        return near(x, self.std) and (x.numel() < 500 or bool(x.abs().max() > 2 * self.std))


class Padded(Normal):
    """A normal distribution, but zeros for padding."""

    def fits(self, x):
        others = torch.arange(len(x)) != PADDING
        return not x[PADDING].any() and Normal.fits(self, x[others])


class Uniform(NamedTuple):
    """U(-bound, bound)"""

    bound: float

    def fits(self, x: Tensor) -> bool:
        return bool(x.abs().max() <= self.bound * (1 + 1e-6)) and near(x, self.bound * 3**-0.5)


class Constant(NamedTuple):
    value: float

    def fits(self, x: Tensor) -> bool:
        return bool(x.eq(self.value).all())


def near(x: Tensor, std: float) -> bool:
    return abs(x.square().mean().sqrt().item() / std - 1) < 5 * (2 * x.numel()) ** -0.5


class Place(NamedTuple):
    """A parameter's place in a model.

    Attributes:
        shape: of the parameter
        inputs: width of the inputs of its layer; of a bias, the width of the weights beside it
        branches: how many residual branches of pre-norm the model has; 1 with post-norm
    """

    shape: torch.Size
    inputs: int
    branches: int


Distribution = Normal | Uniform | Constant


def normal(std: float, mean: float = 0.0):
    return lambda place: Normal(std, mean)


def zero(place: Place) -> Distribution:
    return Constant(0.0)


def one(place: Place) -> Distribution:
    return Constant(1.0)


def linear(place: Place) -> Distribution:
    """Weights and biases of torch's linear layers, LSTMs too."""
    return Uniform(place.inputs**-0.5)


def end_of_branch(place: Place) -> Distribution:
    """The last linear layer of a residual branch, which pre-norm divides by the root of their number."""
    return Uniform((place.inputs * place.branches) ** -0.5)


def glorot(place: Place) -> Distribution:
    return Uniform((6 / (place.shape[0] + place.inputs)) ** 0.5)


def glorot_convolution(place: Place) -> Distribution:
    """Weights [outputs, kernel size, inputs] and biases, which TensorFlow takes for square matrices. A convolution has
    as many outputs as inputs; several may stand one below the other."""
    kernel = place.shape[1] if len(place.shape) == 3 else 1
    return Uniform((3 / (kernel * place.inputs)) ** 0.5)


def glorot_of_a_third(place: Place) -> Distribution:
    """fairseq's queries, keys and values: as if they were one matrix, which is twice as high as wide on average."""
    return Uniform((3 / (place.shape[0] + place.inputs)) ** 0.5)


def inverse_root(dimension: int, kind: type[Normal] = Normal):
    """N(0, 1/n), where n is this dimension of the parameter."""
    return lambda place: kind(place.shape[dimension] ** -0.5)


NORMS = {"*norm.weight": one, "*norm.bias": zero}
STREAM = {
    "*.embed.weight": normal(1),
    "*.embed.tables.*": normal(1),
    "*.embed.projections.*": linear,
    "*.position.weight": normal(1),
    "*.span_ratio": zero,
    **NORMS,
    "*.output.*": linear,
}
LAYERS = {"*_proj.weight": linear, "*.fc?.*": linear}
PRE_NORM_LAYERS = {"*.out_proj.weight": end_of_branch, "*.fc2.*": end_of_branch, **LAYERS}
RULES = {
    # facebookresearch/adaptive-span at 27b815f: models.py, adaptive_io.py, persistent_memory.py, adaptive_span.py
    "adaptive-span": {**STREAM, "*.persistent.key": inverse_root(-1), "*.persistent.value": inverse_root(-2), **LAYERS},
    # facebookresearch/transformer-sequential at 9650fc9: models/transformer_seq.py, models/feedback.py, modules/ffn.py
    "transformer-sequential": {**STREAM, "*.layer_logits*": zero, **PRE_NORM_LAYERS},
    # kimiyoung/transformer-xl at 44781ed: pytorch/train.py
    "transformer-xl": {
        "*norm.weight": normal(0.02, mean=1),
        "*.body.biases.*": normal(0.02),
        "*.projections.*": normal(0.01),
        "*bias": zero,
        "*.output.biases.*": zero,
        "*": normal(0.02),
    },
    # vishwajit-vishnu/Memory-efficient-Stochastic-methods-for-Memory-based-Transformers at 2851692: models.py,
    # adaptive_io.py; weight_initialisation.py, of which its scripts make no use
    "skip-retain": {
        "*.embed.*": normal(1),
        "*.body.biases.*": normal(1),
        "*.output.projections.*": normal(1),
        **NORMS,
        "*.output.*": linear,
        **LAYERS,
    },
    # Anon-111/Active-Memory at 64eb01a: Utils/util_code.py, Utils/Active_Memory_Transformer.py
    "active-memory": {
        "*embed.weight": normal(1),
        "*.[qkv]_proj.weight": normal(0.1),
        "*.out_proj.weight": normal(1),
        "*.fc?.weight": normal(1),
        "*.fc?.bias": zero,
        **NORMS,
        "*.before": glorot,
        "*.behind": glorot,
        "*.mixer.*": glorot_convolution,
        "*output.weight": glorot,
        "*output.bias": lambda place: Uniform((3 / place.shape[0]) ** 0.5),
    },
    # fairseq's Transformer; a mixer of active memory in it is Glorot uniform
    "fairseq": {
        "*.embed_tokens.weight": inverse_root(-1, Padded),
        "*.output_projection.weight": inverse_root(-1),
        "*.layer_logits*": zero,
        **NORMS,
        "*.mixer.*_proj.weight": glorot,
        "*.mixer.*": glorot_convolution,
        "*.[qkv]_proj.weight": glorot_of_a_third,
        "*.[qkv]_proj.bias": linear,
        "*.out_proj.weight": glorot,
        "*.out_proj.bias": zero,
        "*.fc?.*": linear,
    },
    # fairseq's RoBERTa, whose checkpoint replaces all but the head for sentences
    "roberta": {
        "*.embed_*.weight": lambda place: Padded(0.02),
        "classification_heads.*": linear,
        **NORMS,
        "*.layernorm_embedding.weight": one,
        "*.bias": zero,
        "*.weight": normal(0.02),
    },
    # torch's LSTM, between embeddings and output of the other models
    "torch": {"*.embed.weight": normal(1), "*.lstm.*": linear, "*.output.*": linear},
    # agents: bodies as in transformer-sequential, or torch's LSTM. Three embeddings are added up, of variance 1 / width
    # together; at first all actions are equally likely
    "agents": {
        "embed.table.weight": lambda place: Normal((3 * place.shape[-1]) ** -0.5),
        "embed.project.*": linear,
        "policy.*": zero,
        "value.*": zero,
        "*.lstm.*": linear,
        "*.gru.*": linear,
        "*.layer_logits*": zero,
        "*.position.weight": normal(1),
        **NORMS,
        **PRE_NORM_LAYERS,
    },
}

# First losses in nats at the sizes of test_initial_weights.py, of random words, without dropout: means over 20 models
# of the codes themselves, if nothing else is said. The logarithm of the vocabulary is 5.32.
FIRST_LOSS = {
    ("adaptive-span", "plain"): 5.48,
    ("adaptive-span", "clusters"): 39.9,
    ("transformer-sequential", "plain"): 5.48,
    ("transformer-sequential", "clusters"): 39.9,  # as adaptive-span: both have a LayerNorm before the output
    ("transformer-xl", "plain"): 5.34,
    ("transformer-xl", "tied"): 5.34,
    ("transformer-xl", "clusters"): 7.36,
    ("skip-retain", "plain"): 5.48,
    ("skip-retain", "clusters"): 19.1,
    ("active-memory", "plain"): 5.56,  # ln V + (C * 2 / (C + V) + 1 / V) / 2: TensorFlow 1 does not run any more
    ("fairseq", "plain"): 5.79,
    ("fairseq", "tied"): 6.07,
    ("roberta", "plain"): 1.10,  # three classes
    ("torch", "plain"): 5.32,  # the outputs of an LSTM are small
}


def misfits(model: torch.nn.Module, code: str, branches: int) -> list[str]:
    """The parameters of a model that are not drawn as a code draws them, with their values and the distribution."""
    every = dict(model.named_parameters(remove_duplicate=False))
    found = []
    for name, parameter in model.named_parameters():
        x = parameter.detach()
        if not x.numel():  # of a causal convolution, which sees nothing to the right
            continue
        weights = every[beside(name, every)]
        rule = next((rule for pattern, rule in RULES[code].items() if fnmatchcase(name, pattern)), None)
        wanted = rule and rule(Place(x.shape, weights.shape[-1], branches))
        if wanted is None or not wanted.fits(x):
            found.append(f"{name}: mean {x.mean():.3g}, deviation {x.std():.3g}, largest {x.abs().max():.3g}; {wanted}")
    return found


def beside(name: str, names) -> str:
    """The weights that a bias belongs to: their name; of another parameter its own."""
    owner, _, last = name.rpartition(".")
    weights = f"{owner.replace('biases', 'tables')}.{last.replace('bias', 'weight')}"
    return weights if weights in names else name
