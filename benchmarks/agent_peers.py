"""Agents with an LSTM, by PPO: this suite beside sb3-contrib's recurrent PPO. Speed, and what they learn.

    python benchmarks/agent_peers.py                     # steps of training a second, in pairs
    python benchmarks/agent_peers.py --learn 1228800     # the peer's mean reward after so many steps, three seeds

Both have 2 layers of 64, 64 environments, blocks of 128 steps, four updates from each over the whole block, and the
last action among what they see. The peer is installed in the versions of PINNED, into a folder of its own.
"""

import argparse
import statistics
import warnings
from pathlib import Path

import gymnasium
import pinned
import timing
import torch
from agent_speed import build
from page import table

import fairseq_plugins  # noqa: F401  patches fairseq
from fairseq_plugins.agents.criterions.ppo import PPOCriterion
from fairseq_plugins.agents.task import ReinforcementLearningConfig, ReinforcementLearningTask

PINNED = "sb3-contrib==2.9.2", "stable-baselines3==2.9.2"
ENVIRONMENT = "popgym:popgym-RepeatPreviousEasy-v0"
COPIES, STEPS, PASSES, RATE, CLIP, SEEDS = 64, 128, 4, 0.001, 0.5, (1, 2, 3)


def options() -> argparse.ArgumentParser:
    parser = timing.options(__doc__, dict(updates=4), pairs=9, dtypes=False)
    parser.add_argument("--learn", type=int, metavar="STEPS", help="train the peer, in place of a measurement of speed")
    parser.add_argument("--site", type=Path, default="runs/peers/site", help="folder of the packages (%(default)s)")
    return parser


def main():
    args = options().parse_args()
    pinned.install(PINNED, args.site)
    warnings.simplefilter("ignore")
    timing.main(args, [head, learned if args.learn else compared])


def head(args) -> str:
    return timing.head(
        args,
        "Agents beside another package",
        "How fast does an agent with an LSTM train, and what does it learn, beside sb3-contrib's recurrent PPO?",
        f"{', '.join(PINNED)}. {ENVIRONMENT}, {COPIES} environments, blocks of {STEPS} steps, {PASSES} updates of each."
        f" Medians of {args.pairs} pairs of runs of {args.updates} blocks; in brackets the smallest and largest ratio.",
    )


def compared(args) -> str:
    both = timing.compare(Theirs(1, args.updates), Ours(args.updates), args.pairs)
    return table(["sb3-contrib, steps/s", "ours, steps/s", "ours / sb3-contrib"], [[*both.speeds(), both.told()]])


def learned(args) -> str:
    rewards = []
    for seed in SEEDS:
        peer = Theirs(seed, args.learn // (COPIES * STEPS), falls=True)
        peer()
        rewards.append(statistics.mean(episode["r"] for episode in peer.agent.ep_info_buffer))
    told = f"{statistics.mean(rewards):.3f} ({min(rewards):.3f} to {max(rewards):.3f})"
    return table(["steps", "sb3-contrib: mean reward of the last 100 episodes, three seeds"], [[str(args.learn), told]])


class Ours:
    """Some blocks of training; a call returns the number of steps."""

    def __init__(self, blocks: int):
        torch.manual_seed(1)
        self.blocks = blocks
        options = {"environment": ENVIRONMENT, "bptt": STEPS, "batch_size": COPIES, "max_tokens": None}
        task = ReinforcementLearningTask.setup_task(ReinforcementLearningConfig(**options))
        self.actor, self.agent = task.new_actor(seed=1, copies=COPIES), build("lstm_agent_water_maze", task).train()
        self.criterion = PPOCriterion(task, discount=0.99, entropy_cost=0.01, value_cost=0.5, updates_per_block=PASSES)
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=RATE)

    def __call__(self) -> int:
        for _ in range(self.blocks):
            sample = {"rollout": self.actor.roll(self.agent, STEPS), "episodes": self.actor.take_finished()}
            for _ in range(PASSES):
                loss, steps, _ = self.criterion(self.agent, sample)
                self.optimizer.zero_grad()
                (loss / steps).backward()
                torch.nn.utils.clip_grad_norm_(self.agent.parameters(), CLIP)
                self.optimizer.step()
            self.actor.memory = sample["memory"]
        return self.blocks * COPIES * STEPS


def seen_with_action() -> gymnasium.Env:
    """Observation and last action as one vector, by POPGym's own wrappers, which its paper has, too."""
    from popgym.wrappers import Antialias, Flatten, PreviousAction

    return Flatten(Antialias(PreviousAction(gymnasium.make(ENVIRONMENT).unwrapped)))


class Theirs:
    """The same with sb3-contrib; ``falls``: the rate falls to 0, as in recipes/agents.sh."""

    def __init__(self, seed: int, blocks: int, falls: bool = False):
        from sb3_contrib import RecurrentPPO
        from stable_baselines3.common.env_util import make_vec_env

        self.steps = blocks * COPIES * STEPS
        made = make_vec_env(seen_with_action, COPIES, seed=seed)
        network = dict(lstm_hidden_size=64, n_lstm_layers=2, shared_lstm=True, enable_critic_lstm=False, net_arch=[])
        network["optimizer_kwargs"] = {"eps": 1e-8}  # torch's, as ours
        self.agent = RecurrentPPO(
            "MlpLstmPolicy",
            made,
            learning_rate=(lambda left: RATE * left) if falls else RATE,
            n_steps=STEPS,
            batch_size=COPIES * STEPS,
            n_epochs=PASSES,
            ent_coef=0.01,
            max_grad_norm=CLIP,
            policy_kwargs=network,
            seed=seed,
            device="cpu",
        )

    def __call__(self) -> int:
        self.agent.learn(self.steps, reset_num_timesteps=False)
        return self.steps


if __name__ == "__main__":
    main()
