"""The algorithmic tasks of the active-memory paper (section 4.2): the training draws longer and longer sequences.

B sequences in a batch.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import FairseqEncoderDecoderModel, FairseqEncoderModel, FairseqLanguageModel
from fairseq.tasks import FairseqTask, register_task
from omegaconf import II

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.common.architectures import model_class
from fairseq_plugins.options.checks import check_ranges
from fairseq_plugins.options.fields import option
from fairseq_plugins.streams.iterator import ResumableIterator
from fairseq_plugins.synthetic.algorithms import ALGORITHMS, Algorithm

TRAINING, TEST = 0, 1


@dataclass
class Curriculum:
    """The size grows by ``step`` after each epoch at whose end a fresh batch was predicted without errors.

    Attributes:
        algorithm: name of the task
        size: the current size
        step: how much the size grows at a time
        reached: the largest size at which a fresh batch was all correct; 0 if there was none
        tested: the last epoch at whose end there was a test
    """

    algorithm: str
    size: int
    step: int
    reached: int = 0
    tested: int = 0

    def test(self, epoch: int, all_right: bool) -> None:
        """Take the result of a fresh batch at the end of an epoch. Only the first result of an epoch counts."""
        if epoch <= self.tested:
            return
        self.tested = epoch
        if all_right:
            self.reached = self.size
            self.size += self.step

    def state_dict(self) -> dict:
        return asdict(self)

    def load_state_dict(self, state: dict) -> None:
        """Raises UserError for the state of another algorithm."""
        if state["algorithm"] != self.algorithm:
            raise UserError(
                f"the checkpoint was trained with --algorithm {state['algorithm']}, not {self.algorithm}: give the"
                " same one, or choose another --save-dir."
            )
        self.size, self.reached, self.tested = state["size"], state["reached"], state["tested"]


class Draw(NamedTuple):
    """Everything that decides which sequences a batch holds, so no state of a random generator is needed."""

    size: int
    batch: int  # B
    seeds: tuple[int, ...]  # --seed; TRAINING or TEST; epoch; number of the batch


class DrawnDataset(FairseqDataset):
    """Batches that are drawn on access, each as a ``Draw`` says.

    Args:
        algorithm: draws inputs and answers them
        first: index of the integer 0 in the dictionary
    """

    def __init__(self, algorithm: Algorithm, first: int):
        super().__init__()
        self.algorithm, self.first = algorithm, first

    def __getitem__(self, draw: Draw) -> dict:
        """A sample with source and target [B, T]."""
        inputs = self.algorithm.inputs(np.random.default_rng(draw.seeds), draw.batch, draw.size)
        source, target = (torch.from_numpy(x + self.first) for x in (inputs, self.algorithm.answers(inputs)))
        lengths = torch.full((draw.batch,), source.size(1))
        return {
            "id": torch.arange(draw.batch),
            "net_input": {"src_tokens": source, "src_lengths": lengths},
            "target": target,
            "ntokens": target.numel(),
            "nsentences": draw.batch,
        }

    def collater(self, samples: list[dict]) -> dict:
        """A batch is one draw, and a draw is already a whole sample. A rank without one has no samples."""
        return samples[0] if samples else {}


class CurriculumIterator(ResumableIterator):
    """Drawn batches. The curriculum is part of the state, since the batches depend on it.

    Args:
        dataset: draws the batches
        curriculum: its size is read when an epoch begins
        draws: a function from an epoch to its batches, those of all ranks in turn
        facts: the settings beside the size that decide the batches of an epoch, by the flag that sets them
        options: as in fairseq's EpochBatchIterator
    """

    reset = "start with the initial size"

    def __init__(self, dataset: DrawnDataset, curriculum: Curriculum, draws, facts: dict[str, int], **options):
        self.curriculum = curriculum
        super().__init__(dataset, lambda _, epoch: [[draw] for draw in draws(epoch)], facts, **options)

    def state_dict(self) -> dict:
        return {**super().state_dict(), "curriculum": self.curriculum.state_dict()}

    def load_state_dict(self, state_dict: dict) -> None:
        """Raises UserError for the state of another algorithm, or from the middle of an epoch with other batches."""
        self.curriculum.load_state_dict(state_dict["curriculum"])
        self._frozen_batches = None  # drawn with another size
        super().load_state_dict(state_dict)


AlgorithmName: Any = ChoiceEnum(list(ALGORITHMS))


@dataclass
class AlgorithmicCurriculumConfig(FairseqDataclass):
    algorithm: AlgorithmName = option("reverse", "the algorithm to learn")
    start_size: int = option(5, "initial size of sequences")
    size_step: Optional[int] = option(
        None, "how much the size grows at a time (default: 2 for addition and multiply, else 1)"
    )
    vocabulary: Optional[int] = option(
        None, "integers are below this number (default: 100 for reverse, 3 for binary tasks, else 20)"
    )
    epoch_batches: int = option(100, "number of batches in an epoch")
    seed: int = II("common.seed")


@register_task("algorithmic_curriculum", dataclass=AlgorithmicCurriculumConfig)
class AlgorithmicCurriculumTask(FairseqTask):
    """The model predicts a token for each input token. An epoch has --epoch-batches batches of --batch-size sequences
    of one size. Its validation is a fresh batch: if the model predicts every token, the size grows.

    No data are needed: the sequences of a batch follow from --seed, the epoch and the batch's number. Logged are
    ``size``, that of the sequences, and ``reached``, the largest size at which a validation was all correct.
    """

    @classmethod
    def setup_task(cls, cfg, **unused):
        return cls(cfg)

    def __init__(self, cfg: AlgorithmicCurriculumConfig):
        super().__init__(cfg)
        self.algorithm = algorithm = ALGORITHMS[cfg.algorithm]
        check_options(cfg, algorithm)
        if cfg.vocabulary is not None:
            self.algorithm = replace(algorithm, vocabulary=cfg.vocabulary)
        self.dictionary = Dictionary()
        for value in range(self.algorithm.vocabulary):
            self.dictionary.add_symbol(str(value))
        step = algorithm.step if cfg.size_step is None else cfg.size_step
        self.curriculum = Curriculum(str(cfg.algorithm), cfg.start_size, step)
        self.training: Any = None  # the iterator over training batches

    @property
    def source_dictionary(self):
        return self.dictionary

    target_dictionary = source_dictionary

    def build_model(self, cfg, from_checkpoint=False):
        model = model_class(cfg._name)
        if model and issubclass(model, FairseqEncoderDecoderModel | FairseqEncoderModel | FairseqLanguageModel):
            raise UserError(
                f"--arch {cfg._name} does not predict a label for each input token; --task algorithmic_curriculum needs"
                " --arch active_memory_algorithmic."
            )
        return super().build_model(cfg, from_checkpoint)

    def build_criterion(self, cfg, from_checkpoint=False):
        if cfg._name != "label_cross_entropy":
            raise UserError(
                f"--criterion {cfg._name} does not count wrong labels, on which the size of sequences depends; --task"
                " algorithmic_curriculum needs --criterion label_cross_entropy."
            )
        return super().build_criterion(cfg, from_checkpoint)

    def load_dataset(self, split, **unused):
        self.datasets[split] = DrawnDataset(self.algorithm, self.dictionary.index("0"))

    def get_batch_iterator(
        self, dataset, max_tokens=None, max_sentences=None, num_shards=1, shard_id=0, num_workers=0, epoch=1,
        data_buffer_size=0, **options,
    ):  # fmt: skip
        """Training batches; for a validation, one fresh batch, however many ranks there are."""
        if max_tokens is not None or not max_sentences:
            raise UserError("--task algorithmic_curriculum takes --batch-size and not --max-tokens.")
        # fairseq passes this option for training only
        training = "grouped_shuffling" in options

        def draws(epoch: int) -> list[Draw]:
            seeds = (self.cfg.seed, TRAINING, epoch) if training else (self.cfg.seed, TEST, self.epoch)
            number = num_shards * self.cfg.epoch_batches if training else 1
            return [Draw(self.curriculum.size, max_sentences, (*seeds, batch)) for batch in range(number)]

        facts = {
            "--seed": self.cfg.seed,
            "--batch-size": max_sentences,
            "--distributed-world-size": num_shards,
            "--epoch-batches": self.cfg.epoch_batches,
            "--vocabulary": self.algorithm.vocabulary,
            "--size-step": self.curriculum.step,
        }
        batches = CurriculumIterator(
            dataset, self.curriculum, draws, facts, num_shards=num_shards, shard_id=shard_id, num_workers=num_workers,
            epoch=epoch, buffer_size=data_buffer_size,
        )  # fmt: skip
        if training:
            self.training = batches
        return batches

    @property
    def epoch(self) -> int:
        return self.training.epoch if self.training else 0

    def begin_epoch(self, epoch, model):
        super().begin_epoch(epoch, model)
        if self.curriculum.tested < epoch - 1:
            raise UserError(
                f"epoch {epoch - 1} ended without a validation, which decides whether sequences grow: leave out"
                " --disable-validation, --validate-interval and --validate-after-updates, and start again in another"
                " --save-dir."
            )

    LOGGED = ("size", "reached")  # by a validation, with the values of the criterion

    def reduce_metrics(self, logging_outputs, criterion):
        super().reduce_metrics(logging_outputs, criterion)
        metrics.log_scalar("size", self.curriculum.size)
        # the value before this validation, so that --best-checkpoint-metric may name it
        metrics.log_scalar("reached", self.curriculum.reached)

    def post_validate(self, model, stats, agg):
        """At the end of an epoch, let the curriculum grow if all labels are right."""
        if self.training.end_of_epoch():
            self.curriculum.test(self.epoch, all_right=stats["wrong"] == 0)
        stats["reached"] = self.curriculum.reached


def check_options(cfg, algorithm) -> None:
    """Raises UserError for a number that is out of range, and for options that do not go together."""
    check_ranges(cfg, AlgorithmicCurriculumConfig)
    if cfg.vocabulary is not None and algorithm.binary:
        raise UserError(f"--algorithm {cfg.algorithm} is a task of bits; leave out --vocabulary.")
    odd = cfg.start_size % 2 and cfg.start_size >= 3 and (cfg.size_step or 0) % 2 == 0
    if algorithm.step == 2 and not odd:
        raise UserError(
            f"--algorithm {cfg.algorithm} takes two numbers of equal length with a separator: choose an odd"
            " --start-size of at least 3 and an even --size-step."
        )
