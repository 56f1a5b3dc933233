"""Language modelling over streams: the model reads a split block by block, and its memory goes from block to block.

B streams (--batch-size) on each rank, M tokens in a block (--tokens-per-sample).
"""

import logging
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

from fairseq import utils
from fairseq.data import data_utils
from fairseq.dataclass import ChoiceEnum
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from omegaconf import II

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.common.base import keeps_memory
from fairseq_plugins.modules.common.cross_head import draw_again
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.optim.half_precision import master_copies
from fairseq_plugins.optim.skipped_parameters import STEPS
from fairseq_plugins.options.checks import check_ranges
from fairseq_plugins.options.fields import option
from fairseq_plugins.streams.checkpoint import StreamCheckpoints
from fairseq_plugins.streams.dataset import BlockSchedule, StreamDataset, flat_tokens
from fairseq_plugins.streams.evaluation import Evaluation, Figures, check_evaluation
from fairseq_plugins.streams.flags import check_flags, check_training_flags
from fairseq_plugins.streams.groups import (
    check_groups,
    gradients_stay,
    in_training,
    in_validation,
    memory_errors,
    sum_logged,
)
from fairseq_plugins.streams.iterator import StreamIterator, StreamLayout
from fairseq_plugins.streams.memory import TrainingMemory, with_memory
from fairseq_plugins.streams.stopping import Convergence, LossGuard
from fairseq_plugins.text import levels
from fairseq_plugins.text.prepared import PreparedText, find

logger = logging.getLogger(__name__)

StreamOffset: Any = ChoiceEnum(["zero", "random"])
MemoryInCheckpoint: Any = ChoiceEnum(["full", "replay"])


@dataclass
class StreamingLanguageModelingConfig(LanguageModelingConfig):
    tokens_per_sample: int = option(512, "M, tokens of each stream in a block")
    valid_tokens_per_sample: Optional[int] = option(
        None, "M when fairseq-train and fairseq-validate validate (default: --tokens-per-sample)"
    )
    no_end_of_line: bool = option(False, "leave out the end-of-line tokens that fairseq-preprocess appends")
    no_first_target: bool = option(
        False,
        "the first token of a split is only read, as the public code of the papers does (default: it is predicted"
        " after an end of line)",
    )
    stream_offset: StreamOffset = option(
        "zero", "zero: training streams start at the beginning of the data; random: each epoch rotates them"
    )
    block_warmup: int = option(0, "M in the first --block-warmup-updates updates")
    block_warmup_updates: int = option(0, "updates with blocks of --block-warmup tokens")
    split_streams: int = option(
        1,
        "train the streams of each rank in this many groups, one after the other, and update once: takes less memory,"
        " and gives the same gradients",
    )
    memory_in_checkpoint: MemoryInCheckpoint = option(
        "full",
        "full: each rank saves its memory in a file beside each checkpoint, and resuming is exact; replay: nothing is"
        " saved, and a resumed training computes the memory from earlier blocks with current parameters",
    )
    max_loss_rise: float = option(
        1.5,
        "stop when the running mean of the training loss has risen this far (nats per token) above its lowest value,"
        " or is not finite; 0: never",
    )
    converged_by: float = option(
        0.0,
        "end the training when its lowest validation perplexity has fallen by less than this over --converged-over"
        " updates; 0: never",
    )
    converged_over: int = option(64000, "number of updates over which --converged-by measures the fall")
    update_freq: list[int] = II("optimization.update_freq")
    sentence_avg: bool = II("optimization.sentence_avg")
    skip_remainder_batch: Optional[bool] = II("optimization.skip_remainder_batch")
    disable_validation: bool = II("dataset.disable_validation")
    no_save: bool = II("checkpoint.no_save")


@register_task("streaming_language_modeling", dataclass=StreamingLanguageModelingConfig)
class StreamingLanguageModelingTask(LanguageModelingTask):
    """Train and evaluate on streams; generate from prompts.

    Every token of a split is a target once. The memory is put into ``sample["net_input"]["memory"]`` just before the
    model runs, so criterions need not know about it. With ``--sample-break-mode eos`` a sample is one line of a split,
    as in fairseq's own task; fairseq-generate takes these lines as prompts.
    """

    keeps_memory = True

    @classmethod
    def setup_task(cls, args, **kwargs):
        check_ranges(args, getattr(cls, "__dataclass"))
        check_flags(args)
        return super().setup_task(args, **kwargs)

    def __init__(self, args, dictionary, output_dictionary=None, targets=None):
        super().__init__(args, dictionary, output_dictionary, targets)
        self.training = TrainingMemory(args.split_streams)
        self.memories: dict[str | None, StreamMemory] = {}  # of evaluated splits, by their names
        self._bytes_per_token: dict[str, float | None] = {}
        self.guard = LossGuard(args.max_loss_rise)
        self.convergence = Convergence(args.converged_by, args.converged_over)
        checkpoints = StreamCheckpoints(args, self.training, self.guard, self.convergence)
        # called on every rank by compat.checkpoints
        self.before_checkpoints, self.after_checkpoints = checkpoints.before_checkpoints, checkpoints.after_checkpoints
        self.after_loading = checkpoints.after_loading
        self._trains_spans, self._evaluation_settings = False, ""  # of the model that was built last

    # Model and criterion

    def build_model(self, args, from_checkpoint=False):
        if not keeps_memory(args._name):
            raise UserError(
                f"--arch {args._name} has no memory that goes from block to block: take a language model that has one,"
                " or --task language_modeling with --sample-break-mode eos."
            )
        model = super().build_model(args, from_checkpoint)
        self._trains_spans = model.trains_spans
        self._evaluation_settings = model.evaluation_settings(self.args.tokens_per_sample)
        if not from_checkpoint and (settings := model.training_settings(self.args.tokens_per_sample)):
            logger.info(f"training {settings}")
        return model

    def build_criterion(self, cfg, from_checkpoint=False):
        if cfg._name == "adaptive_loss":
            raise UserError(
                "--criterion adaptive_loss is for fairseq's own adaptive softmax; take --criterion streaming_lm, which"
                " is exact too."
            )
        criterion = super().build_criterion(cfg)
        if self._trains_spans and not getattr(criterion, "adds_span_loss", False):
            raise UserError(
                f"--criterion {cfg._name} leaves out the loss of adaptive spans; take --criterion streaming_lm, or"
                " --span-loss 0."
            )
        return criterion

    # Data

    def load_dataset(self, split: str, epoch=1, combine=False, **kwargs):
        if self.args.sample_break_mode == "eos":
            return super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        path = self.path_of(split, epoch)
        lines = self.lines_of(path, combine)
        if len(getattr(lines, "datasets", [lines])) > 1 or path != self.path_of(split, epoch=1):
            self._bytes_per_token[split] = None  # the bytes of the first file alone are known
        tokens = flat_tokens(lines)
        if self.args.no_end_of_line:
            tokens = tokens[tokens != self.dictionary.eos()]
        first_input = self.dictionary.eos()
        if self.args.no_first_target and len(tokens):
            first_input, tokens = int(tokens[0]), tokens[1:]
        if not len(tokens):
            raise UserError(f"{path} holds no tokens to predict; check the file given to fairseq-preprocess.")
        self.datasets[split] = StreamDataset(tokens, split, self.dictionary.pad(), first_input)

    def path_of(self, split: str, epoch: int) -> Path:
        paths = utils.split_paths(self.args.data)
        return Path(paths[(epoch - 1) % len(paths)]) / split

    def lines_of(self, path: Path, combine: bool):
        lines = data_utils.load_indexed_dataset(str(path), self.dictionary, self.args.dataset_impl, combine=combine)
        if lines is None:
            raise FileNotFoundError(f"Dataset not found: {path.name} ({path})")
        return lines

    def get_batch_iterator(self, dataset, max_tokens=None, max_sentences=None, **options):
        if not isinstance(dataset, StreamDataset):  # prompts
            return super().get_batch_iterator(dataset, max_tokens, max_sentences, **options)
        if max_tokens is not None or not max_sentences:
            raise UserError(
                f"--task {self.args._name} takes --batch-size, the number of streams on each GPU or process,"
                " and not --max-tokens; each of them reads --batch-size times --tokens-per-sample tokens in a step."
            )
        # fairseq passes this option for training only
        training, length = "grouped_shuffling" in options, self.args.valid_tokens_per_sample
        return self.stream_iterator(dataset, max_sentences, training, length, **options)

    def stream_iterator(
        self, dataset, batch, training=False, length=None, num_shards=1, shard_id=0, num_workers=0, epoch=1,
        data_buffer_size=0, disable_iterator_cache=False, **unused,
    ):  # fmt: skip
        """The blocks of rank ``shard_id``, with B = ``batch`` streams. Unless ``training`` is set, ``length`` may give
        another M than --tokens-per-sample."""
        key = (dataset, training, batch, length, num_shards, shard_id)
        if key in self.dataset_to_epoch_iter and not disable_iterator_cache:
            return self.dataset_to_epoch_iter[key]
        layout = (
            self._training_layout(batch, num_shards)
            if training
            else StreamLayout(batch, num_shards, BlockSchedule(length or self.args.tokens_per_sample))
        )
        if len(dataset) < layout.streams:
            size = "--batch-size" if training else "--batch-size or --batch-size-valid"
            raise UserError(
                f"split {dataset.split} has {len(dataset)} tokens, fewer than its {layout.streams} streams; lower"
                f" {size}."
            )
        blocks = StreamIterator(
            dataset, layout, shard_id, num_workers=num_workers, epoch=epoch, buffer_size=data_buffer_size
        )
        if not disable_iterator_cache:
            self.dataset_to_epoch_iter[key] = blocks
        return blocks

    def _training_layout(self, batch: int, world_size: int) -> StreamLayout:
        args = self.args
        check_training_flags(args)
        check_groups(args.split_streams, batch)
        schedule = BlockSchedule(
            args.tokens_per_sample, args.block_warmup, args.block_warmup_updates, tuple(args.update_freq)
        )
        return StreamLayout(batch, world_size, schedule, args.seed if args.stream_offset == "random" else None)

    # Training

    def begin_epoch(self, epoch, model):
        super().begin_epoch(epoch, model)
        self.training.begin_epoch()

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False, **kwargs):
        steps = []
        with memory_errors(in_training(self.args.split_streams, len(sample["id"]))):
            groups = self.training.next_block(sample, update_num + 1, repeats=isinstance(optimizer, AMPOptimizer))
            for number, group in enumerate(groups, start=1):
                draw_again(model, number > 1)
                with gradients_stay(model) if number < len(groups) else nullcontext():
                    loss, *others = super().train_step(
                        group, model, criterion, optimizer, update_num, ignore_grad, **kwargs
                    )
                steps.append((loss.detach(), *others))
        losses, sizes, logged = zip(*steps)
        loss, sample_size = sum(losses), sum(sizes)
        if not ignore_grad and sample_size:
            self.guard.check(loss.item() / float(sample_size), update_num + 1, sample["block"])
        return loss, sample_size, sum_logged(logged)

    def optimizer_step(self, optimizer, model, update_num):
        with STEPS[model.skipped_layers](optimizer, model.skipped_parameters()):
            super().optimizer_step(optimizer, model, update_num)
        model.after_update(master_copies(optimizer))
        self.training.end_update()

    # Evaluation

    def with_memory(self, sample: dict) -> dict:
        """A sample of an evaluated split, with the memory of the blocks before it."""
        return with_memory(sample, self.memories.setdefault(sample.get("split"), StreamMemory()))

    def valid_step(self, sample, model, criterion, **kwargs):
        with memory_errors(in_validation(len(sample["id"]))):
            return super().valid_step(self.with_memory(sample), model, criterion, **kwargs)

    def post_validate(self, model, stats, agg):
        self.memories.clear()  # they can be large
        if self.args.converged_by:
            bits = agg.get("nll_loss") or agg["loss"]  # the first is without the loss of adaptive spans
            self.convergence.add(stats["num_updates"], 2**bits.avg)

    def end_trial(self) -> None:
        """Called by compat.best_metric: the next validation begins anew."""
        self.memories.clear()

    def eval_lm_dataloader(
        self, dataset, batch_size=None, num_shards=1, num_workers=1, data_buffer_size=10, context_window=0, **unused
    ):  # fmt: skip
        """Blocks with their memory for fairseq-eval-lm. Exact figures are logged after the last block."""
        batch = batch_size or 1
        check_evaluation(dataset, batch, num_shards, context_window)
        blocks = self.stream_iterator(dataset, batch, num_workers=num_workers, data_buffer_size=data_buffer_size)
        dictionary, raw_bytes = self.dictionary, self._raw_bytes(dataset.split)
        figures = Figures(dictionary.pad(), dictionary.eos(), self._evaluation_settings, dictionary.unk(), raw_bytes)
        return Evaluation(blocks.next_epoch_itr(shuffle=False), self.with_memory, figures)

    @cached_property
    def _prepared(self) -> PreparedText | None:
        return find(Path(utils.split_paths(self.args.data)[0])) if self.args.data else None

    @cached_property
    def bits_name(self) -> str:
        """The name of bits per token in the log, which says what a token is."""
        if self._prepared:
            return levels.BITS[type(self._prepared.level)]
        return levels.bits_name(self.dictionary.symbols[self.dictionary.nspecial :])

    def bytes_per_token(self, split: str) -> float | None:
        """Bytes of the raw text for each token of the split, on average. None if they are not known, if the split has
        <unk>, or if its tokens are bytes."""
        if split not in self._bytes_per_token:
            dataset, raw_bytes = self.datasets[split], self._raw_bytes(split)
            self._bytes_per_token[split] = None
            if raw_bytes and raw_bytes != len(dataset):
                if self.dictionary.unk() in dataset.tokens:
                    logger.info(f"no bpb, bits per byte, of {split}: it has <unk>, which leaves out what it stands for")
                else:
                    self._bytes_per_token[split] = raw_bytes / len(dataset)
        return self._bytes_per_token[split]

    def _raw_bytes(self, split: str) -> int | None:
        """Bytes of the raw text of a split; None if they are not known, or newlines are left out."""
        if self.args.no_end_of_line or not self._prepared:
            return None
        return self._prepared.raw_bytes.get(split)

    # Generation

    def inference_step(self, generator, models, sample, prefix_tokens=None, constraints=None):
        if "block" in sample:
            raise UserError(
                "fairseq-generate takes the lines of a split as prompts: add --sample-break-mode eos (and --prefix-size"
                " for the beginnings of lines)."
            )
        return super().inference_step(generator, models, sample, prefix_tokens, constraints)
