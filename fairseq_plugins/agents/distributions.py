"""Action spaces of gymnasium as distributions, of which the policy gives the parameters.

N agents, P parameters of a distribution, K parts of an action, [...] any leading dimensions. An action of Discrete is
one number [...], any other has K of them [..., K].
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from fairseq_plugins.errors import UserError

WIDEST = 10**6  # range of a number that is scaled; wider ones are the limits of a type, and mean none
LEAST, MOST = -5.0, 2.0  # limits of the logarithm of a standard deviation
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(64)  # Gauss-Hermite quadrature: a mean over a standard Gaussian


class Distribution(ABC):
    """
    Attributes:
        parameters: P
        shape: of an action, () or (K,)
        sizes: how many values each of its whole numbers has; none if they are other numbers
        numbers: how many other numbers it has
    """

    parameters: int
    shape: tuple[int, ...]
    sizes: list[int]
    numbers: int = 0

    @abstractmethod
    def sample(self, parameters: Tensor, draws: np.ndarray) -> np.ndarray:
        """Actions of parameters [N, P] and of draws from an even distribution over 0 to 1 [N, K]."""

    @abstractmethod
    def log_prob(self, parameters: Tensor, actions: Tensor) -> Tensor:
        """Of actions, with parameters [..., P] -> [...]"""

    @abstractmethod
    def entropy(self, parameters: Tensor) -> Tensor:
        """[..., P] -> [...]"""

    @abstractmethod
    def seen(self, actions: np.ndarray) -> np.ndarray:
        """Actions as the agent sees them afterwards. 0 is no action."""

    @abstractmethod
    def done(self, actions: np.ndarray) -> np.ndarray:
        """Actions as the environments take them."""


@dataclass
class Categorical(Distribution):
    """One of ``values`` whole numbers from ``start`` on. The parameters are their logits."""

    values: int
    start: int = field(default=0, compare=False)

    def __post_init__(self):
        self.shape, self.parameters, self.sizes = (), self.values, [self.values]

    def __str__(self):
        return f"{self.values} actions"

    def sample(self, parameters, draws):
        chances = parameters.double().softmax(-1).cumsum(-1).cpu().numpy()
        return (draws * chances[:, -1:] >= chances[:, :-1]).sum(1)

    def log_prob(self, parameters, actions):
        return parameters.log_softmax(-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self, parameters):
        log_probs = parameters.log_softmax(-1)
        return -(log_probs.exp() * log_probs).sum(-1)

    def seen(self, actions):
        return actions + 1

    def done(self, actions):
        return actions + self.start


@dataclass
class Independent(Distribution):
    """K whole numbers, each with a distribution of its own: of MultiDiscrete and MultiBinary."""

    space: Any

    def __post_init__(self):
        values = getattr(self.space, "nvec", np.full(self.space.shape, 2))
        self.start = getattr(self.space, "start", 0)
        self.sizes = values.flatten().tolist()
        self.shape, self.parameters = (len(self.sizes),), sum(self.sizes)
        self.heads = [Categorical(size) for size in self.sizes]

    def __str__(self):
        return f"actions of {self.space}"

    def each(self, parameters: Tensor):
        return zip(self.heads, parameters.split(self.sizes, -1))

    def sample(self, parameters, draws):
        drawn = zip(self.each(parameters), draws.T[:, :, None])
        return np.stack([head.sample(logits, draw) for (head, logits), draw in drawn], 1)

    def log_prob(self, parameters, actions):
        parts = zip(self.each(parameters), actions.unbind(-1))
        return sum(head.log_prob(logits, part) for (head, logits), part in parts)

    def entropy(self, parameters):
        return sum(head.entropy(logits) for head, logits in self.each(parameters))

    def seen(self, actions):
        return actions + 1

    def done(self, actions):
        return actions.reshape(-1, *self.space.shape) + self.start


@dataclass
class SquashedGaussian(Distribution):
    """K numbers, the tanh of those of a Gaussian, between the bounds of a Box (Haarnoja et al., 2018, appendix C). The
    parameters are the means and the logarithms of the standard deviations.

    An action is kept as the Gaussian's number u: tanh(u) rounds to a bound, and its density cannot be told from that.
    """

    space: Any

    def __post_init__(self):
        self.sizes, self.numbers = [], int(np.prod(self.space.shape))
        self.shape, self.parameters = (self.numbers,), 2 * self.numbers
        self.low, self.high = (bound.flatten().astype(np.float64) for bound in (self.space.low, self.space.high))

    def __str__(self):
        return f"actions of {self.space}"

    def gaussian(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Means and logarithms of the standard deviations, both [..., K]. Half precision would round an action to its
        neighbours, of which a small deviation makes other densities."""
        mean, log_deviation = parameters.to(torch.promote_types(parameters.dtype, torch.float32)).chunk(2, -1)
        return mean, log_deviation.clamp(LEAST, MOST)

    def log_slope(self, u: Tensor) -> Tensor:
        """Logarithm of the derivative of an action with respect to u [..., K]: log(1 - tanh(u)^2) without cancellation,
        and the width of the bounds."""
        width = torch.from_numpy((self.high - self.low) / 2).to(u)
        return width.log() + 2 * (math.log(2) - u - softplus(-2 * u))

    def sample(self, parameters, draws):
        mean, log_deviation = self.gaussian(parameters.double().cpu())
        standard = torch.special.ndtri(torch.from_numpy(draws).clamp(1e-12, 1 - 1e-12))
        return (mean + log_deviation.exp() * standard).numpy()

    def log_prob(self, parameters, actions):
        mean, log_deviation = self.gaussian(parameters)
        u = actions.to(mean.dtype)
        standard = (u - mean) / log_deviation.exp()
        return (-standard.square() / 2 - log_deviation - math.log(2 * math.pi) / 2 - self.log_slope(u)).sum(-1)

    def entropy(self, parameters):
        """That of the Gaussian, and the mean of log_slope."""
        mean, log_deviation = self.gaussian(parameters)
        nodes, weights = (torch.from_numpy(x).to(mean).unsqueeze(-1) for x in (NODES, WEIGHTS / WEIGHTS.sum()))
        slopes = self.log_slope(mean.unsqueeze(-2) + log_deviation.exp().unsqueeze(-2) * nodes)
        return (log_deviation + math.log(2 * math.pi * math.e) / 2 + (weights * slopes).sum(-2)).sum(-1)

    def seen(self, actions):
        return np.tanh(actions).astype(np.float32)

    def done(self, actions):
        scaled = self.low + (np.tanh(actions) + 1) / 2 * (self.high - self.low)
        scaled = scaled.reshape(-1, *self.space.shape).astype(self.space.dtype)
        return scaled.clip(self.space.low, self.space.high)  # it may be rounded to beyond them


def distribution_of(space) -> Distribution:
    """Raises UserError for a space with other parts, or with numbers that have no bounds."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return Categorical(int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        return Independent(space)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        width = space.high.astype(np.float64) - space.low
        if ((width > 0) & (width <= WIDEST)).all():
            return SquashedGaussian(space)
    raise UserError(
        f"--environment: agents have no actions of {space}; choose an environment with Discrete, MultiDiscrete or"
        " MultiBinary actions, or with those of a Box of fractions with bounds."
    )
