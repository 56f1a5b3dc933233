"""Watch an agent play, or one that knows everything, or one that acts at random.

    python -m fairseq_plugins.tools.watch runs/maze/checkpoint_best.pt --out episode.gif
    python -m fairseq_plugins.tools.watch runs/maze/checkpoint_best.pt --text --episodes 100
    python -m fairseq_plugins.tools.watch --agent best --environment fairseq_plugins/WaterMaze-v0 --episodes 100

Prints the mean reward of the episodes, and its standard error; --json writes them into a file. --out draws the first
episode as an animated picture, --text prints it. The best agent takes a shortest way to the next reward; only
environments of this suite have one.
"""

import argparse
import json
import logging
import math
import statistics
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.whole import write_whole
from fairseq_plugins.ranges import SEED, whole

AGENTS = ("best", "random")
COPIES = 64  # environments at a time
MILLISECONDS = 120  # between two pictures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, nargs="?", help="of an agent")
    parser.add_argument("--agent", choices=AGENTS, help="an agent without a checkpoint")
    parser.add_argument("--environment", metavar="ID", help="environment (default: as in training)")
    parser.add_argument("--environment-settings", metavar="JSON", help="its arguments (default: as in training)")
    parser.add_argument("--episodes", type=whole(1), default=1, metavar="N", help="number of episodes (%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="animated picture of the first episode (.gif)")
    parser.add_argument("--text", action="store_true", help="print the first episode")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the mean reward, for tools.plot rewards")
    parser.add_argument("--seed", type=SEED, default=1, help="(%(default)s)")
    parser.add_argument("--cpu", action="store_true", help="use the CPU even if there is a GPU")
    args = parser.parse_args()
    if (args.checkpoint is None) == (args.agent is None):
        raise UserError("give a checkpoint, or --agent best, or --agent random.")
    if args.agent and not args.environment:
        raise UserError(f"--agent {args.agent} needs --environment; add it.")
    if args.out and args.text:
        raise UserError("--out and --text exclude each other; choose one.")
    logging.disable(logging.INFO)
    model = load_agent(args) if args.checkpoint else None
    rewards = play(model, args)
    found = {"reward": round(statistics.mean(rewards), 4), "episodes": len(rewards)}
    if len(rewards) > 1:
        found["standard_error"] = round(statistics.stdev(rewards) / math.sqrt(len(rewards)), 4)
    error = f", standard error {found['standard_error']:.3f}" if len(rewards) > 1 else ""
    print(f"mean reward of {len(rewards)} episodes: {found['reward']:.3f}{error}")
    if args.json:
        write_whole(args.json, lambda path: path.write_text(json.dumps(found) + "\n", encoding="utf-8"))


def load_agent(args):
    """The model of the checkpoint; fills in the environment that it was trained in."""
    from fairseq_plugins.tools.lib.load import load

    model, cfg, _ = load(args.checkpoint, {}, args.cpu)
    if not hasattr(model, "start_acting"):
        raise UserError(f"{args.checkpoint} holds no agent; give one of --task reinforcement_learning.")
    if args.environment is None:
        args.environment = cfg.task.environment
        if args.environment_settings is None:
            args.environment_settings = cfg.task.environment_settings
    return model


def play(model, args) -> list[float]:
    """The rewards of the episodes. Draws or prints the first one."""
    from fairseq_plugins.reinforcement.actor import Actor, make_environments

    each = -(-args.episodes // COPIES)  # as many of each environment: long episodes must count as well as short ones
    copies = -(-args.episodes // each)
    mode = "rgb_array" if args.out else "ansi" if args.text else None
    environments = make_environments(args.environment, copies, args.environment_settings or "", render_mode=mode)
    actor, rewards = Actor(environments, args.seed), [[] for _ in range(copies)]
    choose = chooser(model, args, actor)
    frames, watching = [], mode is not None
    while min(map(len, rewards)) < each:
        if watching:
            frames.append(environments.render()[0])
        _, ends = actor.step(choose())
        finished = actor.take_finished()
        for copy, (reward, _) in zip(ends.nonzero()[0], finished):
            rewards[copy].append(reward)
        watching = watching and not ends[0]
    if args.out:
        draw(frames, args.out)
    if args.text:
        print("\n\n".join(frames))
    return [reward for copy in rewards for reward in copy[:each]][: args.episodes]


def chooser(model, args, actor):
    """A function that says the next actions of all environments [N]."""
    import torch

    if args.agent == "best":
        world = getattr(actor.environments, "world", None)
        if world is None:
            raise UserError(f"--agent best: nobody knows the best actions in {args.environment}.")
        return world.best_actions
    if args.agent == "random":
        return lambda: actor.choose(torch.zeros(actor.copies, int(actor.environments.single_action_space.n)))
    actions = int(actor.environments.single_action_space.n)
    if actions != model.policy.out_features:
        raise UserError(
            f"--environment {args.environment} has {actions} actions, the agent was trained with"
            f" {model.policy.out_features}."
        )
    acting = model.start_acting(None, actor.copies, 1)
    return lambda: actor.choose(acting.logits(actor.now(model.device)))


def draw(frames: list, path: Path) -> None:
    from PIL import Image

    first, *others = map(Image.fromarray, frames)

    def save(temporary: Path) -> None:
        first.save(temporary, "GIF", save_all=True, append_images=others, duration=MILLISECONDS, loop=0)

    write_whole(path, save)


if __name__ == "__main__":
    main()
