"""Speed of training agents: steps of the environments a second, the Feedback agent and the LSTM beside the Transformer.

    python benchmarks/agent_speed.py                                       # sizes of Water Maze, 64 environments
    python benchmarks/agent_speed.py --output benchmarks/agent_speed.md
    python benchmarks/agent_speed.py --device cuda --size maze --environments 1024      # as in the paper's Table 5

The two of a row run in turn in one process (A B A B ...) and the ratio is the median over the pairs, so that a drift of
the machine's speed hits both. A run is some updates in Maze Navigation: acting for a block of steps, forward, backward
and Adam step. The environments alone, with actions at random, run after the agents.
"""

import argparse
import datetime
import os
import platform
import sys
from pathlib import Path

import paths  # noqa: F401  finds the suite
import timing
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

import fairseq_plugins  # noqa: F401  patches fairseq
from fairseq_plugins.agents.a2c import A2CCriterion
from fairseq_plugins.agents.actor import Actor, make_environments
from fairseq_plugins.agents.task import (
    ReinforcementLearningConfig,
    ReinforcementLearningTask,
)

ENVIRONMENT = "fairseq_plugins/MazeNavigation-v0"
ROWS = {  # architecture -> the paper's ratio (Table 5) to the Transformer's speed
    "feedback_agent": "22.3K / 22.3K = 1.00",
    "lstm_agent": "not given",
}


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="water_maze", help="maze, water_maze or tiny (%(default)s)")
    for name, value in dict(environments=64, bptt=100).items():
        parser.add_argument(f"--{name}", type=int, default=value, help="(%(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")
    parser.add_argument("--updates", type=int, default=4, help="in a run (%(default)s)")
    parser.add_argument("--pairs", type=int, default=9, help="measured pairs of runs (%(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the CPU (%(default)s)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the table there too (Markdown)")
    return parser


def main():
    args = options().parse_args()
    torch.set_num_threads(args.threads)
    timing.report((part(args) for part in (header, table)), args.output)


def header(args) -> list[str]:
    device = torch.cuda.get_device_name() if args.device == "cuda" else f"CPU, {args.threads} threads"
    return [
        "# Speed of training agents",
        "",
        "**Question.** Does a Feedback agent train as fast as a Transformer agent?",
        "**Set-up.** "
        f"{datetime.date.today()}, {device} ({platform.machine()}), float32, Python {platform.python_version()}, "
        f"torch {torch.__version__}. Maze Navigation, sizes of `_{args.size}`, {args.environments} environments, "
        f"blocks of {args.bptt} steps. "
        f"Medians of {args.pairs} pairs of runs of {args.updates} updates; in brackets the smallest and largest ratio.",
        "",
        f"    {' '.join(['python', 'benchmarks/agent_speed.py', *sys.argv[1:]])}",
        "",
    ]


def table(args) -> list[str]:
    columns = ["agent", "Transformer, steps a second", "agent, steps a second", "agent / Transformer", "the paper"]
    columns += ["time in the environments"]
    rows = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    transformer, environments = Training(args, "span_transformer_agent"), Environments(args)
    environments()
    for name, paper in ROWS.items():
        both = timing.compare(transformer, Training(args, name), args.pairs)
        share = both.ours / max(timing.tokens_per_second(environments) for _ in range(3))
        rows.append(
            f"| {name} | {both.baseline:.0f} | {both.ours:.0f} | **{both.ratio:.3f}** ({both.low:.3f} to "
            f"{both.high:.3f}) | {paper} | {share:.1%} |"
        )
    return rows


def build(architecture: str, task):
    model = ARCH_MODEL_REGISTRY[architecture]
    options = getattr(model, "__dataclass")()
    ARCH_CONFIG_REGISTRY[architecture](options)
    return model.build_model(options, task)


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
            self.optimizer.zero_grad()
            (loss / steps).backward()
            self.optimizer.step()
        return self.updates * steps


class Environments:
    """As many steps of the environments alone, with actions at random."""

    def __init__(self, args):
        self.actor, self.steps = new_actor(args), args.updates * args.bptt
        self.logits = torch.zeros(self.actor.copies, int(self.actor.environments.single_action_space.n))

    def __call__(self) -> int:
        for _ in range(self.steps):
            self.actor.step(self.actor.choose(self.logits))
        return self.steps * self.actor.copies


if __name__ == "__main__":
    main()
