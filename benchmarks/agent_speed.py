"""Speed of training agents: steps of the environments a second, Feedback, LSTM and GRU beside the Transformer.

    python benchmarks/agent_speed.py                                       # sizes of the maze, 64 and 256 environments
    python benchmarks/agent_speed.py --size water_maze                     # 64 wide
    python benchmarks/agent_speed.py --output benchmarks/agent_speed.md
    python benchmarks/agent_speed.py --device cuda --environments 1024     # as in the paper's Table 5

The two of a row run in turn in one process (A B A B ...) and the ratio is the median over the pairs, so that a drift of
the machine's speed hits both. A run is some updates in Maze Navigation: acting for a block of steps, forward, backward
and Adam step. The environments alone, with actions at random, run after the agents.
"""

import argparse
from collections.abc import Iterator

import paths  # noqa: F401  finds the suite
import timing
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from page import table

import fairseq_plugins  # noqa: F401  patches fairseq
from fairseq_plugins.agents.actor import Actor, make_environments
from fairseq_plugins.agents.criterions.a2c import A2CCriterion
from fairseq_plugins.agents.task import (
    ReinforcementLearningConfig,
    ReinforcementLearningTask,
)

ENVIRONMENT = "fairseq_plugins/MazeNavigation-v0"
ROWS = {  # architecture -> the paper's ratio (Table 5) to the Transformer's speed
    "feedback_agent": "22.3K / 22.3K = 1.00",
    "lstm_agent": "not given",
    "gru_agent": "not given",
}


def options() -> argparse.ArgumentParser:
    parser = timing.options(__doc__, dict(bptt=100), pairs=9, dtypes=False)
    parser.add_argument("--environments", type=int, nargs="+", default=[64, 256], metavar="N", help="(%(default)s)")
    parser.add_argument("--size", default="maze", help="maze, water_maze or tiny (%(default)s)")
    parser.add_argument("--updates", type=int, default=4, help="in a run (%(default)s)")
    return parser


def main():
    timing.main(options().parse_args(), [head, comparison])


def head(args) -> str:
    return timing.head(
        args,
        "Speed of training agents",
        "Does a Feedback agent train as fast as a Transformer agent?",
        f"Maze Navigation, sizes of `_{args.size}`, blocks of {args.bptt} steps in each environment. "
        f"Medians of {args.pairs} pairs of runs of {args.updates} updates; in brackets the smallest and largest ratio.",
    )


def comparison(args) -> str:
    columns = ["agent", "environments", "Transformer, steps a second", "agent, steps a second", "agent / Transformer"]
    rows = [row for size in sizes(args) for row in compared(size)]
    return table([*columns, "the paper", "time in the environments"], rows)


def sizes(args) -> list[argparse.Namespace]:
    """The options with each number of environments."""
    return [argparse.Namespace(**vars(args) | {"environments": count}) for count in args.environments]


def compared(args) -> Iterator[list[str]]:
    transformer, environments = Training(args, "span_transformer_agent"), Environments(args)
    environments()
    for name, paper in ROWS.items():
        both = timing.compare(transformer, Training(args, name), args.pairs)
        share = both.ours / max(timing.tokens_per_second(environments) for _ in range(3))
        yield [name, f"{args.environments}", *both.speeds(), both.told(3), paper, f"{share:.1%}"]


def build(architecture: str, task):
    model, sizes = ARCH_MODEL_REGISTRY[architecture], argparse.Namespace()
    ARCH_CONFIG_REGISTRY[architecture](sizes)  # sets what is not set yet
    return model.build_model(getattr(model, "__dataclass")(**vars(sizes)), task)


def new_actor(args) -> Actor:
    return Actor(make_environments(ENVIRONMENT, args.environments), seed=1)


class Training:
    """Some updates of an agent; a call trains and returns the number of steps."""

    def __init__(self, args, architecture: str):
        torch.manual_seed(1)
        self.updates, self.bptt, self.actor = args.updates, args.bptt, new_actor(args)
        options = {"environment": ENVIRONMENT, "bptt": args.bptt, "batch_size": args.environments, "max_tokens": None}
        task = ReinforcementLearningTask.setup_task(ReinforcementLearningConfig(**options))
        self.model = build(f"{architecture}_{args.size}", task).to(args.device).train()
        self.criterion = A2CCriterion(task, discount=0.99, entropy_cost=0.0005, value_cost=0.5)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self()  # a full memory

    def __call__(self) -> int:
        for _ in range(self.updates):
            sample = {"rollout": self.actor.roll(self.model, self.bptt), "episodes": self.actor.take_finished()}
            loss, steps, _ = self.criterion(self.model, sample)
            self.actor.memory = sample["memory"]
            timing.update(self.optimizer, loss / steps)
        return self.updates * steps


class Environments:
    """As many steps of the environments alone, with actions at random."""

    def __init__(self, args):
        self.actor, self.steps = new_actor(args), args.updates * args.bptt
        self.logits = torch.zeros(self.actor.copies, self.actor.distribution.parameters)

    def __call__(self) -> int:
        for _ in range(self.steps):
            self.actor.step(self.actor.choose(self.logits))
        return self.steps * self.actor.copies


if __name__ == "__main__":
    main()
