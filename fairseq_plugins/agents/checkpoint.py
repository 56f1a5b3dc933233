"""The state of this rank's environments and agents, in a file beside each checkpoint (streams/rank_files.py)."""

import logging
from pathlib import Path

import numpy as np
import torch

from fairseq_plugins.agents.actor import Actor, Episode
from fairseq_plugins.agents.observations import Observations
from fairseq_plugins.agents.rollout import CutOff, Learning, Rollout, Steps
from fairseq_plugins.errors import UserError
from fairseq_plugins.random_states import restore_random_state
from fairseq_plugins.streams.rank_files import RankFiles

logger = logging.getLogger(__name__)

WAY_OUT = "begin new episodes with --reset-dataloader"


class ActorCheckpoints(RankFiles):
    """Saves and restores an actor. Environments that cannot say their state begin new episodes when a training is
    resumed; those of this suite can.

    Args:
        environment: its name and its settings in JSON; a training is resumed in the same one
    """

    what, anew = "state of the environments", "begin new episodes"
    way_out = WAY_OUT

    def __init__(self, actor: Actor, environment: tuple[str, str]):
        self.actor, self.environment = actor, list(environment)

    def state(self) -> dict:
        return {"environment": self.environment, "actor": plain(actor_state(self.actor))}

    def after_loading(self, checkpoint: Path, trainer, epoch_itr) -> None:
        if epoch_itr.epoch == 1 and not epoch_itr.iterations_in_epoch:  # --reset-dataloader, --finetune-from-model
            logger.info("new episodes begin")
            return
        if (state := self.find(checkpoint, trainer)) is None:
            raise self.missing(checkpoint, trainer)
        with self.content_errors(checkpoint):
            self.check_environment(state["environment"])
            restore_actor(self.actor, unplain(state["actor"]), trainer.get_model())
            restore_random_state(state["random"])

    def check_environment(self, saved: list[str]) -> None:
        """Raises UserError if the state is of another environment, or of one with other settings."""
        if saved != self.environment:
            now, then = (f"--environment {name} with {settings}" for name, settings in (self.environment, saved))
            raise UserError(f"{now} is not that of the checkpoint, {then}; give the same, or {WAY_OUT}.")


def actor_state(actor: Actor) -> dict:
    world = getattr(actor.environments, "world", None)
    return {
        "environments": world.state() if world else None,
        "memory": None if actor.memory is None else [tensor.cpu() for tensor in actor.memory.tensors()],
        "copies": actor.copies,
        "step_number": actor.step_number,
        "seen": list(actor.seen),
        "learning": learning_state(actor.learning) if world else None,
        **{name: getattr(actor, name) for name in ("previous", "begins", "rewards", "lengths", "finished")},
    }


def restore_actor(actor: Actor, state: dict, agent) -> None:
    """Raises UserError if the state is of another number of environments."""
    if state["copies"] != actor.copies:
        raise UserError(
            f"--batch-size {actor.copies} differs from the {state['copies']} of the checkpoint; give the same number,"
            f" or {WAY_OUT}."
        )
    actor.step_number, actor.finished = state["step_number"], [Episode(*episode) for episode in state["finished"]]
    if state["environments"] is None:
        logger.info("these environments cannot be saved: new episodes begin, so this training is not exactly resumed")
        actor.begin_episodes(actor.step_number)
        return
    actor.environments.world.restore(state["environments"])
    actor.seen = Observations(*state["seen"])
    for name in ("previous", "begins", "rewards", "lengths"):
        setattr(actor, name, state[name])
    if state["memory"] is not None:
        actor.memory = agent.body.memory_type.from_tensors(moved(state["memory"], agent.device))
    if state.get("learning"):  # files of earlier versions have none
        actor.learning = restored_learning(state["learning"], agent)


def learning_state(learning: Learning | None) -> dict | None:
    """Of a block from which more updates will learn."""
    if learning is None or not learning.left:
        return None
    memory = learning.rollout.memory
    tensors = None if memory is None else memory.tensors()
    return {**vars(learning), "rollout": learning.rollout._replace(memory=tensors), "targets": list(learning.targets)}


def restored_learning(state: dict, agent) -> Learning:
    steps, actions, rewards, ends, memory, _, cut_off = moved(state["rollout"], agent.device)
    if memory is not None:
        memory = agent.body.memory_type.from_tensors(memory)
    if cut_off is not None:
        environment, step, last = cut_off
        cut_off = CutOff(environment, step, Steps(*last))
    rollout = Rollout(Steps(*steps), actions, rewards, ends, memory, None, cut_off)
    episodes, targets = [Episode(*episode) for episode in state["episodes"]], moved(state["targets"], agent.device)
    return Learning(state["begun"], rollout, episodes, targets, state["left"])


def moved(value, device):
    """The tensors in nested lists, on this device."""
    if isinstance(value, list):
        return [moved(part, device) for part in value]
    return value.to(device) if isinstance(value, torch.Tensor) else value


def plain(value):
    """The value with tensors for arrays, as torch.load reads without running code."""
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, np.ndarray):
        return {"array": torch.from_numpy(value.copy())}
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def unplain(value):
    """The value that ``plain`` was called with."""
    if isinstance(value, dict):
        return value["array"].numpy() if "array" in value else {name: unplain(part) for name, part in value.items()}
    return [unplain(part) for part in value] if isinstance(value, list) else value
