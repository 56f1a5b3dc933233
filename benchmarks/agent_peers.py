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
import numpy
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


class WithAction(gymnasium.Wrapper):
    """Observation and last action as one vector of zeros and ones, as this suite embeds them."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        self.sizes = int(env.observation_space.n), int(env.action_space.n)
        self.observation_space = gymnasium.spaces.Box(0, 1, (sum(self.sizes),))

    def seen(self, observation, action=None):
        vector = numpy.zeros(sum(self.sizes), dtype=numpy.float32)
        vector[observation] = 1
        if action is not None:
            vector[self.sizes[0] + action] = 1
        return vector

    def reset(self, **options):
        observation, info = self.env.reset(**options)
        return self.seen(observation), info

    def step(self, action):
        observation, *rest = self.env.step(action)
        return self.seen(observation, action), *rest


class Theirs:
    """The same with sb3-contrib; ``falls``: the rate falls to 0, as in recipes/agents.sh."""

    def __init__(self, seed: int, blocks: int, falls: bool = False):
        from sb3_contrib import RecurrentPPO
        from stable_baselines3.common.env_util import make_vec_env

        self.steps = blocks * COPIES * STEPS
        made = make_vec_env(lambda: WithAction(gymnasium.make(ENVIRONMENT)), COPIES, seed=seed)
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
