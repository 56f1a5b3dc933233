"""Adaptive input (Baevski & Auli, 2019) and adaptive softmax (Grave et al., 2017) as the all-attention paper uses them.

Words are sorted by falling frequency and cut into clusters. The rarer the words of a cluster, the narrower its vectors.
Unlike in fairseq's own module, every cluster has a bias and a projection, the first one too. If all clusters are as
wide as the model, there are no projections. If all have one other width, as in some models of Transformer-XL, all words
share one projection at the input.

V vocabulary, V_i size of cluster i, n tokens, C width of the model, E_i = E_0 / factor^i width of cluster i.
"""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Clusters:
    """Where the clusters begin and end, and how wide they are.

    Args:
        vocabulary: V
        cutoffs: where clusters end, cumulative: [20000, 40000, 200000] makes four clusters
        dim: C
        factor: each cluster is this many times narrower than the one before
        embed_dim: E_0; None for C

    Raises:
        ValueError: the cut-offs do not rise or lie outside the vocabulary, or a cluster has no width
    """

    def __init__(self, vocabulary: int, cutoffs: list[int], dim: int, factor: float, embed_dim: int | None = None):
        self.dim, widest = dim, dim if embed_dim is None else embed_dim
        self.bounds = [0, *cutoffs, vocabulary]
        if any(a >= b for a, b in pairwise(self.bounds)):
            raise ValueError(f"the cut-offs {cutoffs} do not rise from above 0 to below the vocabulary's {vocabulary}")
        self.widths = [int(widest // factor**i) for i in range(len(cutoffs) + 1)]
        if min(self.widths) < 1:
            raise ValueError(
                f"width {widest} is too small for {len(cutoffs) + 1} clusters, each {factor} times narrower"
            )

    def __len__(self):
        return len(self.widths)

    def sizes(self) -> list[int]:
        return [end - begin for begin, end in pairwise(self.bounds)]

    def members(self, tokens: Tensor) -> list[tuple[Tensor, Tensor]]:
        """tokens [n] -> for each cluster the places in `tokens` of those that are in it, and their numbers within it.
        The host waits for the device once, for the number of each cluster's tokens."""
        beyond = [tokens >= end for end in self.bounds[1:-1]]
        cluster = torch.stack([torch.zeros_like(tokens), *beyond]).sum(0)
        counts = torch.stack([cluster.eq(i).sum() for i in range(len(self))]).tolist()
        places = cluster.argsort(stable=True).split(counts)
        return [(own, tokens[own] - begin) for own, begin in zip(places, self.bounds)]


def linear(width: int, *shape: int) -> Tensor:
    """Initial weights or biases of torch's linear layers for inputs of this width: U(-width^-0.5, width^-0.5)"""
    return torch.empty(shape).uniform_(-(width**-0.5), width**-0.5)


def make_projections(clusters: Clusters, widths: list[int]) -> nn.ParameterList:
    """A projection [C, E] for each of these widths. There are none if all clusters have width C."""
    dim = clusters.dim
    if all(width == dim for width in clusters.widths):
        return nn.ParameterList()
    return nn.ParameterList(linear(width, dim, width) for width in widths)


class AdaptiveInput(nn.Module):
    """Embeddings that are projected to width C and multiplied by sqrt(C). The arguments are those of Clusters.

    As in the all-attention paper's code, tables [V_i, E_i] are drawn from N(0, 1), projections as weights of linear
    layers.
    """

    def __init__(self, vocabulary: int, cutoffs: list[int], dim: int, factor: float = 4, embed_dim: int | None = None):
        super().__init__()
        self.clusters, self.dim = Clusters(vocabulary, cutoffs, dim, factor, embed_dim), dim
        widths = self.clusters.widths
        self.tables = nn.ParameterList(torch.randn(*shape) for shape in zip(self.clusters.sizes(), widths))
        self.projections = make_projections(self.clusters, widths[:1] if len(set(widths)) == 1 else widths)

    def projection(self, cluster: int) -> nn.Parameter:
        """The projection of a cluster [C, E_i], if there are projections"""
        return self.projections[cluster if len(self.projections) > 1 else 0]

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens [...] -> [..., C]"""
        parts = [self.look_up(tokens, cluster) for cluster in range(len(self.clusters))]
        if len(self.projections) > 1:
            y = F.linear(torch.cat(parts, dim=-1), torch.cat(tuple(self.projections), dim=1))
        else:
            y = torch.stack(parts).sum(0)
            if self.projections:
                y = F.linear(y, self.projection(0))
        return y.to(self.tables[0].dtype) * math.sqrt(self.dim)

    def look_up(self, tokens: Tensor, cluster: int) -> Tensor:
        """tokens [...] -> their vectors [..., E_i], zeros for those of other clusters.

        All tokens are looked up in every cluster: to pick a cluster's own, the host would wait for their number.
        """
        begin, end = self.clusters.bounds[cluster : cluster + 2]
        others = (tokens < begin) | (tokens >= end)
        return F.embedding((tokens - begin).masked_fill(others, 0), self.tables[cluster]).masked_fill(
            others.unsqueeze(-1), 0
        )


class AdaptiveSoftmax(nn.Module):
    """The probability of a word is that of its cluster, times that of the word within the cluster.

    One softmax, the head, scores the words of the first cluster and, after them, the other clusters. In it cluster i is
    the i-th from the end.

    As in the all-attention paper's code, its own parameters are drawn as those of linear layers: tables for inputs of
    width E_i, scores of clusters for those of width E_0. Tables that it shares are the input's, N(0, 1).

    Args:
        vocabulary, cutoffs, dim, factor, embed_dim: as of Clusters
        tied_to: the input whose tables the softmax shares, None for tables of its own
        tie_projections: share the projections too
        tie_head: share the first cluster's projection too
    """

    def __init__(
        self,
        vocabulary: int,
        cutoffs: list[int],
        dim: int,
        factor: float = 4,
        tied_to: AdaptiveInput | None = None,
        tie_projections: bool = True,
        tie_head: bool = True,
        embed_dim: int | None = None,
    ):
        super().__init__()
        self.clusters = Clusters(vocabulary, cutoffs, dim, factor, embed_dim)
        shapes = list(zip(self.clusters.sizes(), self.clusters.widths))
        own = (linear(width, size, width) for size, width in shapes)
        self.tables = tied_to.tables if tied_to else nn.ParameterList(own)
        self.projections = make_projections(self.clusters, self.clusters.widths)
        if tied_to and tie_projections and self.projections:
            first = 0 if tie_head else 1
            shared = [tied_to.projection(cluster) for cluster in range(first, len(self.clusters))]
            self.projections = nn.ParameterList([*self.projections[:first], *shared])
        self.biases = nn.ParameterList(linear(width, size) for size, width in shapes)
        widest = self.clusters.widths[0]
        self.cluster_weight = nn.Parameter(linear(widest, len(cutoffs), widest))
        self.cluster_bias = nn.Parameter(linear(widest, len(cutoffs)))

    def head(self, hidden: Tensor) -> Tensor:
        """hidden [n, C] -> log-probabilities of the first cluster's words and of the other clusters [n, V_0 + ...]"""
        weight = torch.cat([self.tables[0], self.cluster_weight])
        bias = torch.cat([self.biases[0], self.cluster_bias])
        return log_softmax(F.linear(self.project(hidden, 0), weight, bias))

    def tail(self, hidden: Tensor, cluster: int) -> Tensor:
        """hidden [n, C] -> log-probabilities of a cluster's words within it [n, V_i]"""
        return log_softmax(F.linear(self.project(hidden, cluster), self.tables[cluster], self.biases[cluster]))

    def project(self, hidden: Tensor, cluster: int) -> Tensor:
        """hidden [n, C] -> [n, E_i]"""
        return hidden @ self.projections[cluster] if self.projections else hidden

    def log_probs(self, hidden: Tensor) -> Tensor:
        """hidden [..., C] -> log-probabilities of all words [..., V]"""
        flat = hidden.flatten(0, -2)
        head = self.head(flat)
        parts = [head[:, : self.clusters.bounds[1]]]
        parts += [head[:, -i, None] + self.tail(flat, i) for i in range(1, len(self.clusters))]
        return torch.cat(parts, dim=1).view(*hidden.shape[:-1], -1)

    def nll(self, hidden: Tensor, target: Tensor) -> Tensor:
        """hidden [..., C], target [...] -> negative log-probabilities of the targets [...]. It costs less than
        `log_probs`, as only the clusters of the targets are scored."""
        flat, words = hidden.flatten(0, -2), target.flatten()
        head = self.head(flat)
        (places, members), *rarer = self.clusters.members(words)
        nll = head.new_zeros(len(words)).index_copy(0, places, -head[places, members])
        for i, (places, members) in enumerate(rarer, start=1):
            within = self.tail(flat[places], i).gather(1, members.unsqueeze(1)).squeeze(1)
            nll = nll.index_copy(0, places, -(head[places, -i] + within))
        return nll.view(target.shape)


def log_softmax(x: Tensor) -> Tensor:
    """Logarithm of the softmax over the last dimension, in float32 at least."""
    return F.log_softmax(x, dim=-1, dtype=torch.promote_types(x.dtype, torch.float32))
