"""Watch an agent play: a trained one, one that takes a shortest way, or one that acts at random.

    python -m fairseq_plugins.tools.watch runs/maze/checkpoint_best.pt --out episode.gif
    python -m fairseq_plugins.tools.watch runs/maze/checkpoint_best.pt --text --episodes 100
    python -m fairseq_plugins.tools.watch --agent best --environment fairseq_plugins/WaterMaze-v1 --episodes 100

Prints the mean reward of the episodes, and its standard error; --json writes them into a file. --out draws the first
episode, from its first state to its last, as an animated picture; --text prints it. The best agent takes a shortest way
to the next reward; only environments of this suite have one.
"""

import math
import statistics
from contextlib import closing
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile

from fairseq_plugins.errors import UserError, one_line
from fairseq_plugins.files.reading import checkpoint
from fairseq_plugins.files.whole import write_json, write_whole
from fairseq_plugins.options.ranges import SEED, whole
from fairseq_plugins.tools.lib.command import Command
from fairseq_plugins.tools.lib.out_file import ANIMATION

AGENTS = ("best", "random")
COPIES = 64  # environments at a time
MILLISECONDS = 120  # between two pictures
LARGEST_GIF = 65535  # points; its headers have 16 bits for each side


def main():
    parser = Command(__doc__)
    parser.add_argument("checkpoint", type=checkpoint, nargs="?", help="of an agent, or its folder")
    parser.add_argument("--agent", choices=AGENTS, help="an agent without a checkpoint")
    parser.option("--environment", str, None, "ID", "environment (default: as in training)")
    parser.option("--environment-settings", str, None, "JSON", "its arguments (default: as in training)")
    parser.option("--episodes", whole(1), 1, "N", "number of episodes")
    parser.option("--out", ANIMATION, None, "FILE", "animated picture of the first episode (.gif)")
    parser.switch("--text", "print the first episode")
    parser.add_json("write the mean reward, for tools.plot rewards")
    parser.option("--seed", SEED, 1, "SEED", "of the environments and the agent")
    parser.add_cpu()
    args = parser.parse()
    check(args)
    rewards = play(load_agent(args) if args.checkpoint else None, args)
    found = {"reward": round(statistics.mean(rewards), 4), "episodes": len(rewards)}
    said = f"mean reward of {len(rewards)} episodes: {found['reward']:.3f}"
    if len(rewards) > 1:
        found["standard_error"] = round(statistics.stdev(rewards) / math.sqrt(len(rewards)), 4)
        said += f", standard error {found['standard_error']:.3f}"
    print(said)
    if args.json:
        write_json(args.json, found)


def check(args) -> None:
    """
    Raises:
        UserError: flags do not go together, or the results of the episodes could not be written
    """
    if (args.checkpoint is None) == (args.agent is None):
        raise UserError("give a checkpoint, or --agent best, or --agent random.")
    if args.agent and not args.environment:
        raise UserError(f"--agent {args.agent} needs --environment; add it.")
    if args.out and args.text:
        raise UserError("--out and --text exclude each other; choose one.")
    if args.out and not find_spec("PIL"):
        raise UserError("--out needs Pillow: pip install pillow; or print the episode with --text.")
    for path in filter(None, (args.out, args.json)):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=path.parent).close()
        except OSError as error:
            raise UserError(f"{path} could not be written ({error.strerror or error}).") from error


def load_agent(args):
    """The model of the checkpoint and its task; fills in the environment that it was trained in."""
    from fairseq_plugins.tools.lib.load import load

    module, _, _ = (args.environment or "").rpartition(":")
    try:
        if module:  # of "module:name"; it registers the environment
            import_module(module)
    except Exception as error:  # whatever the module raises
        told = f"{module} cannot be imported: {one_line(error)}"
        raise UserError(f"--environment {args.environment}: {told}") from error
    model, cfg, task = load(args.checkpoint, {}, args.cpu)
    if not hasattr(model, "start_acting"):
        raise UserError(f"{args.checkpoint} holds no agent; give one of --task reinforcement_learning.")
    if args.environment is None:
        args.environment = cfg.task.environment
        if args.environment_settings is None:
            args.environment_settings = cfg.task.environment_settings
    return model, task


def play(agent, args) -> list[float]:
    """The rewards of the episodes. Draws or prints the first one."""
    from fairseq_plugins.agents.actor import Actor, make_environments

    each = -(-args.episodes // COPIES)  # as many of each environment: long episodes must count as well as short ones
    copies = -(-args.episodes // each)
    mode = "rgb_array" if args.out else "ansi" if args.text else None
    if mode:
        check_drawing(args, mode)
    options = {"render_mode": mode} if mode else {}  # not all environments have this argument
    made = make_environments(args.environment, copies, args.environment_settings or "", **options)
    with closing(made) as environments:
        actor = Actor(environments, args.seed)
        rewards: list[list[float]] = [[] for _ in range(copies)]
        choose = chooser(agent, args, actor)
        film = Film(environments, args) if mode else None
        while min(map(len, rewards)) < each:
            _, ends = actor.step(choose())
            for copy, episode in zip(ends.nonzero()[0], actor.take_finished()):
                rewards[copy].append(episode.reward)
            if film and ends[0]:
                film.stop()
    if film and args.out:
        draw(film.frames, args.out)
    elif film:
        print("\n\n".join(film.frames))
    return [reward for copy in rewards for reward in copy[:each]][: args.episodes]


def check_drawing(args, mode: str) -> None:
    """Raises UserError if the environment has no such render mode."""
    from fairseq_plugins.agents.actor import make_environments

    with closing(make_environments(args.environment, 1, args.environment_settings or "")) as environments:
        if mode not in environments.metadata.get("render_modes", []):
            flag, other = ("--out", "--text") if args.out else ("--text", "--out")
            raise UserError(
                f"--environment {args.environment} has no render mode {mode}, which {flag} needs; leave out {flag}, or"
                f" choose {other}."
            )


class Film:
    """Pictures of the first environment from now on. They are taken within a step, for the step that ends an episode
    also begins the next one.

    Attributes:
        frames: pictures or texts
    """

    def __init__(self, environments, args):
        self.args = args
        world = getattr(environments, "world", None)
        self.scene = world or environments.envs[0]
        self.draw = partial(world.picture if args.out else world.text, 0) if world else self.scene.render
        self.step, self.scene.step = self.scene.step, self.take
        self.frames = [self.picture()]

    def take(self, action):
        found = self.step(action)
        self.frames.append(self.picture())
        return found

    def stop(self) -> None:
        self.scene.step = self.step

    def picture(self):
        try:
            return self.draw()
        except Exception as error:  # mostly a package that only pictures need
            raise UserError(f"--environment {self.args.environment} cannot be drawn: {one_line(error)}") from error


def chooser(agent, args, actor):
    """A function that chooses the next actions of all environments [N].

    Args:
        agent: a model and its task, or None
    """
    import torch

    from fairseq_plugins.agents.observations import layout

    if args.agent == "best":
        world = getattr(actor.environments, "world", None)
        if world is None:
            raise UserError(f"--agent best: the best actions in {args.environment} are not known.")
        return world.best_actions
    if args.agent == "random":
        return lambda: actor.choose(torch.zeros(actor.copies, actor.distribution.parameters))
    model, task = agent
    *trained_layout, trained = task.agent_sizes()
    if actor.distribution != trained:
        raise UserError(
            f"--environment {args.environment} has {actor.distribution}, but the agent was trained with {trained}."
        )
    if layout(actor.space) != tuple(trained_layout):
        raise UserError(
            f"--environment {args.environment} has other observations ({described(layout(actor.space))}) than the agent"
            f" was trained with ({described(trained_layout)}); choose its environment, with the same"
            " --environment-settings."
        )
    acting = model.start_acting(None, actor.copies, 1)
    return lambda: actor.choose(acting.logits(actor.now(model.device)))


def described(layout) -> str:
    sizes, numbers = layout
    return f"whole numbers of {sizes or 'no'} values and {numbers} other numbers"


def draw(frames: list, path: Path) -> None:
    from PIL import Image

    first, *others = map(Image.fromarray, frames)
    if max(first.size) > LARGEST_GIF:
        raise UserError(
            f"--out {path}: pictures of {first.width} x {first.height} points are too large for a GIF; use --text."
        )

    def save(temporary: Path) -> None:
        first.save(temporary, "GIF", save_all=True, append_images=others, duration=MILLISECONDS, loop=0)

    write_whole(path, save)


if __name__ == "__main__":
    main()
