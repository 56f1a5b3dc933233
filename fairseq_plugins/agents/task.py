"""Reinforcement learning: agents with a memory act in N environments and learn from each block of M steps."""

import json
import logging
from dataclasses import dataclass
from typing import Any, Optional

import torch
from fairseq.data import FairseqDataset
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.tasks import FairseqTask, register_task
from omegaconf import II

from fairseq_plugins.agents.rollout import Learning
from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.options.checks import check_ranges
from fairseq_plugins.options.fields import no_data, option
from fairseq_plugins.streams.groups import memory_errors, sum_logged
from fairseq_plugins.streams.iterator import ResumableIterator

logger = logging.getLogger(__name__)

SEED_OF_EVALUATION = 1_000_000  # added to --seed: other episodes than those of training


Truncation: Any = ChoiceEnum(["bootstrap", "end"])


@dataclass
class ReinforcementLearningConfig(FairseqDataclass):
    data: Optional[str] = no_data()
    environment: str = option("fairseq_plugins/MazeNavigation-v0", "name of an environment of gymnasium")
    environment_settings: str = option("", "arguments of the environment in JSON, such as '{\"size\": 5}'")
    truncation: Truncation = option(
        "bootstrap", "where a time limit cuts off an episode, the value of its last state follows, or it ends"
    )
    bptt: int = option(100, "M, steps of each environment in a block, from which an update learns")
    updates_per_epoch: int = option(1000, "updates of an epoch; fairseq-train validates and saves after an epoch")
    test_episodes: int = option(100, "episodes of a validation, rounded up to the same number of each environment")
    batch_size: Optional[int] = II("dataset.batch_size")  # N, environments on each rank
    batch_size_valid: Optional[int] = II("dataset.batch_size_valid")
    max_tokens: Optional[int] = II("dataset.max_tokens")
    seed: int = II("common.seed")
    best_checkpoint_metric: str = II("checkpoint.best_checkpoint_metric")


@register_task("reinforcement_learning", dataclass=ReinforcementLearningConfig)
class ReinforcementLearningTask(FairseqTask):
    """Each block of M steps in N environments is learned from, by one update or several. The memory goes from block to
    block, and starts empty with each episode. A validation acts in new episodes; actions are drawn from the policy as
    in training.
    """

    def __init__(self, cfg, **kwargs):
        super().__init__(cfg, **kwargs)
        from fairseq_plugins.agents.actor import make_environments
        from fairseq_plugins.agents.distributions import distribution_of
        from fairseq_plugins.agents.observations import layout

        made = make_environments(cfg.environment, 1, cfg.environment_settings)
        self.sizes = (*layout(made.single_observation_space), distribution_of(made.single_action_space))
        self.settings = json.dumps(json.loads(cfg.environment_settings or "{}"), sort_keys=True)
        self.ranks = (0, 1)  # the number of this rank, and how many there are
        self.actor: Any = None  # in training
        self.epoch = 1

    def new_actor(self, seed: int, copies: int):
        """An actor in this many environments of this rank."""
        from fairseq_plugins.agents.actor import Actor, make_environments

        rank, world_size = self.ranks
        environments = make_environments(self.cfg.environment, copies, self.cfg.environment_settings)
        bootstrap = self.cfg.truncation == "bootstrap"
        return Actor(environments, seed, rank * copies, world_size * copies, bootstrap)

    @classmethod
    def add_args(cls, parser):
        """The best checkpoint is that with the highest reward (compat.best_metric.higher_is_better), unless the user
        names another metric. A low loss says little of rewards."""
        super().add_args(parser)
        if any(action.dest == "best_checkpoint_metric" for action in parser._actions):  # of fairseq-train
            parser.set_defaults(best_checkpoint_metric="reward")

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        if cfg.data not in (None, ""):
            raise UserError("--task reinforcement_learning has no data: leave out the data folder.")
        check_ranges(cfg, ReinforcementLearningConfig)
        if cfg.max_tokens is not None or not cfg.batch_size:
            raise UserError(
                "--task reinforcement_learning takes --batch-size, the number of environments on each GPU or process,"
                " and not --max-tokens."
            )
        try:
            import gymnasium  # noqa: F401
        except ImportError:
            raise UserError(
                "--task reinforcement_learning needs gymnasium: pip install 'fairseq_plugins[rl]', or pip install"
                " gymnasium."
            ) from None
        return cls(cfg, **kwargs)

    def agent_sizes(self) -> tuple:
        """For SeenEmbedding: the sizes of whole numbers, the number of others, and the distribution of actions."""
        return self.sizes

    source_dictionary = target_dictionary = None

    # Blocks

    def load_dataset(self, split: str, **unused):
        steps = self.cfg.batch_size * self.cfg.bptt
        self.datasets[split] = Updates(self.cfg.updates_per_epoch if split == "train" else 1, steps)

    def get_batch_iterator(
        self, dataset, max_sentences=None, epoch=1, num_shards=1, shard_id=0, disable_iterator_cache=False, **unused
    ):  # fmt: skip
        # the iterator of a validation is made before it: with --batch-size-valid, or --batch-size of fairseq-validate
        self.validated_copies = max_sentences or self.cfg.batch_size_valid or self.cfg.batch_size
        if self.actor is None:
            from fairseq_plugins.agents.actor import described
            from fairseq_plugins.agents.checkpoint import ActorCheckpoints

            if dataset is self.datasets.get("train") and self.cfg.best_checkpoint_metric == "loss":
                logger.warning("checkpoint_best.pt will have the lowest loss, not the highest reward")
            self.ranks = (shard_id, num_shards)
            self.actor = self.new_actor(self.cfg.seed, self.cfg.batch_size)
            logger.info(f"--environment {self.cfg.environment}: {described(self.actor.environments)}")
            checkpoints = ActorCheckpoints(self.actor, (self.cfg.environment, self.settings))
            # called on every rank by compat.checkpoints
            self.before_checkpoints, self.after_loading = checkpoints.before_checkpoints, checkpoints.after_loading
            self.after_checkpoints = checkpoints.after_checkpoints
        if dataset in self.dataset_to_epoch_iter and not disable_iterator_cache:
            return self.dataset_to_epoch_iter[dataset]
        facts = {flag(name): getattr(self.cfg, name) for name in ("updates_per_epoch", "bptt", "seed")}
        iterator = UpdateIterator(dataset, [[number] for number in range(len(dataset))], facts, epoch=epoch)
        if not disable_iterator_cache:
            self.dataset_to_epoch_iter[dataset] = iterator
        return iterator

    # Training

    def begin_epoch(self, epoch, model):
        self.epoch = epoch

    def train_step(self, *args, **kwargs):
        where = f"with {self.cfg.batch_size} environments and blocks of {self.cfg.bptt} steps"
        with memory_errors(f"in training {where}: lower --batch-size or --bptt."):
            return self.learn(*args, **kwargs)

    def learn(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        update, each = (self.epoch - 1) * self.cfg.updates_per_epoch + sample["update"], criterion.updates_per_block
        learning = self.actor.learning
        if learning is None or learning.begun // each != update // each:
            model.train()
            learning = Learning(update, self.actor.roll(model, self.cfg.bptt), self.actor.take_finished())
        episodes = learning.episodes if learning.begun == update else []  # each is logged once
        sample = {**sample, "rollout": learning.rollout, "targets": learning.targets, "episodes": episodes}
        loss, sample_size, logged = super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)
        self.actor.memory = sample["memory"]
        # fairseq feeds an update again after an overflow (--amp); the record can be differentiated once
        rollout, left = learning.rollout._replace(recorded=None), each - 1 - update % each
        self.actor.learning = Learning(learning.begun, rollout, learning.episodes, sample["targets"], left)
        return loss, sample_size, {**logged, "ntokens": logged["ntokens"] / each}

    # Validation

    def valid_step(self, sample, model, criterion):
        """The first --test-episodes episodes of new environments, over all ranks."""
        with memory_errors(f"in validation with {self.validated_copies} environments: lower --batch-size-valid."):
            return self.validate(sample, model, criterion)

    def validate(self, sample, model, criterion):
        model.eval()
        actor = self.new_actor(self.cfg.seed + SEED_OF_EVALUATION, self.validated_copies)
        blocks: list = []  # the criterion's result for each
        each = -(-self.cfg.test_episodes // actor.total)  # as many of each environment: long episodes must count, too
        ended = torch.zeros(actor.copies, dtype=torch.long)
        with torch.no_grad():
            while (ended < each).any():
                rollout = actor.roll(model, self.cfg.bptt)
                ends = rollout.ends.cpu()
                counted = counted_steps(ends, ended, each)
                ended += ends.sum(1)
                finished = zip(counted.t()[ends.t()].tolist(), actor.take_finished(), strict=True)  # step by step
                episodes = [episode for counts, episode in finished if counts]
                counted = counted.to(rollout.ends.device)
                block = {**sample, "rollout": rollout, "counted": counted, "episodes": episodes}
                blocks.append(criterion(model, block))
                actor.memory = block["memory"]
        losses, steps, logs = zip(*blocks)
        return sum(losses), sum(steps), {**sum_logged(logs), "nsentences": actor.copies}


def counted_steps(ends: torch.Tensor, ended: torch.Tensor, each: int) -> torch.Tensor:
    """Booleans [N, M]: the steps of a block that belong to the first ``each`` episodes of their environment, of which
    ``ended`` [N] are over before it. So the loss is the same on any number of ranks."""
    ends = ends.long()
    return ended.unsqueeze(1) + ends.cumsum(1) - ends < each


class UpdateIterator(ResumableIterator):
    reset = "begin new episodes"


class Updates(FairseqDataset):
    """The numbers of the updates of an epoch; the task acts when a block is due."""

    def __init__(self, updates: int, steps: int):
        self.updates, self.steps = updates, steps

    def __len__(self):
        return self.updates

    def __getitem__(self, number):
        return number

    def collater(self, numbers):
        return {"id": torch.tensor(numbers), "update": numbers[0], "net_input": {}, "ntokens": self.steps}
