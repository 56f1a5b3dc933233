"""Language modelling over streams: the model sees a split block by block and carries its memory along.

B streams (--batch-size) on each of W workers, M tokens a block (--tokens-per-sample).
"""

import logging
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import torch
from fairseq import utils
from fairseq.data import data_utils
from fairseq.dataclass import ChoiceEnum
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from omegaconf import II

from fairseq_plugins.compat.ending import train_no_more
from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.files import sealed
from fairseq_plugins.models.common.architectures import keeps_memory
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.optim.half_precision import master_copies
from fairseq_plugins.optim.left_out import left_out
from fairseq_plugins.streams import checkpoint as stream_checkpoint
from fairseq_plugins.streams.convergence import Convergence
from fairseq_plugins.streams.dataset import BlockSchedule, StreamDataset, flat_tokens
from fairseq_plugins.streams.evaluation import Evaluation, Figures
from fairseq_plugins.streams.iterator import Cut, StreamIterator
from fairseq_plugins.streams.loss_guard import LossGuard, diverged

logger = logging.getLogger(__name__)


@dataclass
class StreamingLanguageModelingConfig(LanguageModelingConfig):
    tokens_per_sample: int = field(default=512, metadata={"help": "M, tokens of each stream in a block"})
    valid_tokens_per_sample: Optional[int] = field(
        default=None,
        metadata={"help": "M where fairseq-train and fairseq-validate validate, by default --tokens-per-sample"},
    )
    no_end_of_line: bool = field(
        default=False, metadata={"help": "leave out the end-of-line tokens that fairseq-preprocess appends"}
    )
    stream_offset: ChoiceEnum(["zero", "random"]) = field(
        default="zero",
        metadata={"help": "where training streams start: at the beginning of the data, or rotated anew in each epoch"},
    )
    block_warmup: int = field(default=0, metadata={"help": "M at first, for --block-warmup-updates updates"})
    block_warmup_updates: int = field(default=0, metadata={"help": "updates with blocks of --block-warmup tokens"})
    memory_in_checkpoint: ChoiceEnum(["full", "replay"]) = field(
        default="full",
        metadata={
            "help": "full: a file beside each checkpoint for each worker, resuming is exact; replay: none, the"
            " memory is computed anew from the blocks before, with the parameters of now"
        },
    )
    max_loss_rise: float = field(
        default=1.5,
        metadata={
            "help": "stop when the running mean of the training loss has risen this far (nats per token) above its"
            " lowest, or is not finite; 0: never"
        },
    )
    converged_by: float = field(
        default=0.0,
        metadata={
            "help": "end the training once its lowest validation perplexity has fallen by less than this over"
            " --converged-over updates; 0: go on"
        },
    )
    converged_over: int = field(default=64000, metadata={"help": "updates over which --converged-by looks"})
    update_freq: list[int] = II("optimization.update_freq")
    sentence_avg: bool = II("optimization.sentence_avg")
    skip_remainder_batch: Optional[bool] = II("optimization.skip_remainder_batch")
    disable_validation: bool = II("dataset.disable_validation")
    no_save: bool = II("checkpoint.no_save")


NO_STREAM = "--sample-break-mode eos is for fairseq-generate, which takes lines as prompts; leave it out."

# Flags of fairseq's task that have no meaning for streams, and their defaults.
REFUSED = {
    "self_target": False,
    "past_target": False,
    "output_dictionary_size": -1,
    "add_bos_token": False,
    "shorten_method": "none",
    "pad_to_fixed_length": False,
    "pad_to_fixed_bsz": False,
}
REFUSED_IN_TRAINING = ("sentence_avg", "skip_remainder_batch")  # other commands do not parse them


@register_task("streaming_language_modeling", dataclass=StreamingLanguageModelingConfig)
class StreamingLanguageModelingTask(LanguageModelingTask):
    """Train and evaluate on streams, generate from prompts.

    Every token of a split is a target once. The memory is put into ``sample["net_input"]["memory"]`` just before the
    model runs, so criterions need not know of it. With ``--sample-break-mode eos`` a split is fairseq's own, one line
    a sample, which is how fairseq-generate takes prompts.
    """

    keeps_memory = True

    @classmethod
    def setup_task(cls, args, **kwargs):
        check_flags(args)
        return super().setup_task(args, **kwargs)

    def __init__(self, args, dictionary, output_dictionary=None, targets=None):
        super().__init__(args, dictionary, output_dictionary, targets)
        self.training_memory = StreamMemory()
        self.memories: dict[str, StreamMemory] = {}  # of evaluated splits
        self.guard = LossGuard(args.max_loss_rise)
        self.convergence = Convergence(args.converged_by, args.converged_over)
        self.evaluation_settings = ""  # what figures depend on beside the model
        self._trains_spans = False
        self._newest_block, self._update_begins, self._before_update = -1, True, None

    def build_model(self, args, from_checkpoint=False):
        if not keeps_memory(args._name):
            raise UserError(
                f"--arch {args._name} keeps no memory from block to block: take a language model that does, or --task"
                " language_modeling with --sample-break-mode eos."
            )
        model = super().build_model(args, from_checkpoint)
        if hasattr(model, "evaluation_settings"):
            self.evaluation_settings = model.evaluation_settings(self.args.tokens_per_sample)
        self._trains_spans = getattr(model, "span_coefficient", 0) > 0 and bool(model.adaptive_spans())
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
        paths = utils.split_paths(self.args.data)
        path = Path(paths[(epoch - 1) % len(paths)]) / split
        lines = data_utils.load_indexed_dataset(str(path), self.dictionary, self.args.dataset_impl, combine=combine)
        if lines is None:
            raise FileNotFoundError(f"Dataset not found: {split} ({path})")
        tokens = flat_tokens(lines)
        if self.args.no_end_of_line:
            tokens = tokens[tokens != self.dictionary.eos()]
        if not len(tokens):
            raise UserError(f"{path} holds no tokens; check the file given to fairseq-preprocess.")
        self.datasets[split] = StreamDataset(tokens, split, self.dictionary.pad(), self.dictionary.eos())

    def get_batch_iterator(self, dataset, max_tokens=None, max_sentences=None, **options):
        if not isinstance(dataset, StreamDataset):  # prompts
            return super().get_batch_iterator(dataset, max_tokens, max_sentences, **options)
        if max_tokens is not None or not max_sentences:
            raise UserError(
                "--task streaming_language_modeling takes --batch-size, the number of streams of each worker, and not"
                " --max-tokens; an update takes --batch-size times --tokens-per-sample tokens."
            )
        # fairseq says how to group batches where it wants to train on them, and nowhere else
        training, length = "grouped_shuffling" in options, self.args.valid_tokens_per_sample
        return self.stream_iterator(dataset, max_sentences, training, length, **options)

    def stream_iterator(
        self, dataset, batch, training=False, length=None, num_shards=1, shard_id=0, num_workers=0, epoch=1,
        data_buffer_size=0, disable_iterator_cache=False, **unused,
    ):  # fmt: skip
        """Blocks of B = ``batch`` streams, those of worker ``shard_id``; ``length`` is M where not --tokens-per-sample,
        for what is not trained on."""
        key = (dataset, training, batch, length, num_shards, shard_id)
        if key in self.dataset_to_epoch_iter and not disable_iterator_cache:
            return self.dataset_to_epoch_iter[key]
        cut = self._training_cut(batch, num_shards) if training else self._plain_cut(batch, num_shards, length)
        if len(dataset) < cut.streams:
            size = "--batch-size" if training else "--batch-size or --batch-size-valid"
            raise UserError(
                f"split {dataset.split} has {len(dataset)} tokens, fewer than the {cut.streams} streams it is to be cut"
                f" into; lower {size}."
            )
        blocks = StreamIterator(
            dataset, cut, shard_id, num_workers=num_workers, epoch=epoch, buffer_size=data_buffer_size
        )
        if not disable_iterator_cache:
            self.dataset_to_epoch_iter[key] = blocks
        return blocks

    def _training_cut(self, batch: int, workers: int) -> Cut:
        args = self.args
        for name in REFUSED_IN_TRAINING:
            if getattr(args, name):
                raise UserError(no_meaning(name))
        schedule = BlockSchedule(
            args.tokens_per_sample, args.block_warmup, args.block_warmup_updates, tuple(args.update_freq)
        )
        return Cut(batch, workers, schedule, args.seed if args.stream_offset == "random" else None)

    def _plain_cut(self, batch: int, workers: int, length: int | None) -> Cut:
        return Cut(batch, workers, BlockSchedule(length or self.args.tokens_per_sample))

    # Memory

    def begin_epoch(self, epoch, model):
        super().begin_epoch(epoch, model)
        self._newest_block = -1

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False, **kwargs):
        memory = self.training_memory
        retries = isinstance(optimizer, AMPOptimizer)
        if sample.get("block", 0) <= self._newest_block:  # fed again, as fairseq does where gradients are not finite
            if not retries:
                raise self._fed_again(update_num + 1, sample["block"])
            memory.content, memory.position = self._before_update
        elif retries and self._update_begins:
            self._before_update = memory.content, memory.position
        sample = self._remember(sample, memory)
        self._newest_block, self._update_begins = sample["block"], False
        loss, sample_size, logged = super().train_step(
            sample, model, criterion, optimizer, update_num, ignore_grad, **kwargs
        )
        if not ignore_grad and sample_size:
            self.guard.check(loss.item() / float(sample_size), update_num + 1, sample["block"])
        return loss, sample_size, logged

    @staticmethod
    def _fed_again(update: int, block: int) -> Exception:
        """Why fairseq, which is handling an error, feeds a block again: gradients that are not finite (so at the least
        loss scale of --fp16 too), or that differ between workers."""
        error = sys.exception()
        if error and "inconsistent" in str(error):
            return error
        return UserError(diverged("its gradients are not finite", update, block))

    def optimizer_step(self, optimizer, model, update_num):
        resting = model.resting_parameters() if hasattr(model, "resting_parameters") else []
        with left_out(optimizer, resting):
            super().optimizer_step(optimizer, model, update_num)
        if hasattr(model, "after_update"):
            model.after_update(master_copies(optimizer))
        self._update_begins = True

    def valid_step(self, sample, model, criterion, **kwargs):
        return super().valid_step(self.with_memory(sample), model, criterion, **kwargs)

    def post_validate(self, model, stats, agg):
        self.memories.clear()  # they can be large
        if self.args.converged_by:
            bits = agg.get("nll_loss") or agg["loss"]  # the first holds no loss of adaptive spans
            self.convergence.add(stats["num_updates"], 2**bits.avg)

    def with_memory(self, sample: dict) -> dict:
        """A sample of an evaluated split together with the memory of the blocks before it."""
        return self._remember(sample, self.memories.setdefault(sample.get("split"), StreamMemory()))

    def _remember(self, sample: dict, memory: StreamMemory) -> dict:
        if "block" not in sample:
            raise UserError(NO_STREAM)
        if sample["block"] == 0:
            memory.reset()
        if memory.position != sample["start"]:
            raise UserError(
                f"block {sample['block']} of {sample['split']} starts at token {sample['start']} of its streams, but"
                f" the memory is of {memory.position} tokens: after running out of memory, lower --batch-size."
            )
        return {**sample, "net_input": {**sample["net_input"], "memory": memory}}

    # Evaluation

    def eval_lm_dataloader(
        self, dataset, batch_size=None, num_shards=1, num_workers=1, data_buffer_size=10, context_window=0, **unused
    ):  # fmt: skip
        """Blocks with memory for fairseq-eval-lm; exact figures are logged after the last one."""
        if context_window > 0:
            raise UserError("--context-window is for models without memory; leave it out.")
        if num_shards > 1:
            raise UserError("--num-shards would evaluate a part of the split only; leave it out.")
        if not isinstance(dataset, StreamDataset):
            raise UserError(NO_STREAM)
        batch = batch_size or 1
        blocks = self.stream_iterator(dataset, batch, num_workers=num_workers, data_buffer_size=data_buffer_size)
        if batch > 1:
            logger.info(
                f"each of the {batch} streams starts from an empty memory: the same tokens count, but the figures are"
                " exact with --batch-size 1"
            )
        figures = Figures(self.dictionary.pad(), self.dictionary.eos(), self.evaluation_settings)
        return Evaluation(blocks.next_epoch_itr(shuffle=False), self.with_memory, figures)

    # Generation

    def inference_step(self, generator, models, sample, prefix_tokens=None, constraints=None):
        if "block" in sample:
            raise UserError(
                "fairseq-generate takes the lines of a split as prompts: add --sample-break-mode eos (and --prefix-size"
                " for the beginnings of lines)."
            )
        return super().inference_step(generator, models, sample, prefix_tokens, constraints)

    # Checkpoints, called by compat.workers_save_their_state on every worker

    def before_checkpoints(self, folder: Path, trainer) -> None:
        """Write this worker's file, before there is a checkpoint that it belongs to."""
        convergence = self.convergence
        if convergence.ended is None and convergence.reached():
            convergence.ended = trainer.get_num_updates()
            self._end(trainer)
        if self.args.memory_in_checkpoint == "full":
            state = {
                "updates": trainer.get_num_updates(),
                "identity": trainer.checkpoint_identity,
                "memory": self.training_memory.state_dict(),
                "guard": self.guard.state_dict(),
                "convergence": convergence.state_dict(),
                "random": stream_checkpoint.random_state(),
            }
            sealed.save(state, stream_checkpoint.newest_file(folder, *worker_of(trainer)))

    def _end(self, trainer) -> None:
        """Let a converged training go on for one update, as fairseq has looked whether to stop before it validated; not
        again where that has been done."""
        limits, updates = trainer.cfg.optimization, trainer.get_num_updates()
        if updates > self.convergence.ended:
            logger.info(f"{self.convergence}; there is nothing left to train")
            train_no_more(trainer)
        elif not 0 < limits.max_update <= updates:
            logger.info(f"{self.convergence}; the next update is the last")
            limits.max_update = updates + 1

    def after_checkpoints(self, checkpoints: list[Path], trainer) -> None:
        """Name this worker's file after the checkpoints just written."""
        worker, workers = worker_of(trainer)
        if not checkpoints or self.args.memory_in_checkpoint != "full":
            return
        files = [stream_checkpoint.file_beside(path, worker, workers) for path in checkpoints]
        stream_checkpoint.share(stream_checkpoint.newest_file(checkpoints[0].parent, worker, workers), files)
        if worker == 0:
            stream_checkpoint.remove_orphans(checkpoints, workers)

    def after_loading(self, checkpoint: Path, trainer, epoch_itr) -> None:
        """Take up the streams where the checkpoint left them: in the middle of an epoch the memory has to be there, at
        its start it is empty."""
        worker, workers = worker_of(trainer)
        blocks = epoch_itr.iterations_in_epoch
        if epoch_itr.epoch == 1 and not blocks:  # --reset-dataloader
            epoch_itr.begin_after(trainer.get_num_updates())
        if self.args.memory_in_checkpoint == "replay":
            return self._replay(trainer, epoch_itr, blocks) if blocks else None
        state = stream_checkpoint.find(
            checkpoint, worker, workers, trainer.get_num_updates(), trainer.checkpoint_identity
        )
        if state is None:
            if blocks:
                raise UserError(stream_checkpoint.why_missing(checkpoint, workers))
            return None
        with stream_checkpoint.understood(checkpoint):
            if blocks:
                self.training_memory.load_state_dict(state["memory"], trainer.device)
                self._try_memory(trainer.get_model())
            self.guard.load_state_dict(state["guard"])
            if self.args.converged_by and not trainer.cfg.checkpoint.reset_meters:
                self.convergence.load_state_dict(state["convergence"])
                if self.convergence.ended is not None:
                    self._end(trainer)
            stream_checkpoint.restore_random_state(state["random"])

    def _try_memory(self, model) -> None:
        """Let the model read one token with a copy of the memory, which fails where this is of another model."""
        tensors = self.training_memory.tensors()
        if not all(tensor.isfinite().all() for tensor in tensors):
            raise ValueError("not finite")
        streams = self.args.batch_size or len(tensors[0])
        model.eval()
        with torch.no_grad():
            tokens = torch.full((streams, 1), self.dictionary.eos(), device=model_device(model))
            model(tokens, memory=self.training_memory.copy())

    def _replay(self, trainer, epoch_itr, blocks: int) -> None:
        """Compute the memory before block ``blocks`` from the tokens before it, twice as many as it can hold."""
        model = trainer.get_model()
        mine = epoch_itr.frozen_batches[trainer.data_parallel_rank :: trainer.data_parallel_world_size][:blocks]
        end = mine[-1][0].start + mine[-1][0].length
        enough = 2 * getattr(model, "memory_length", 0) or end
        memory = self.training_memory
        memory.reset()
        model.eval()
        for (block,) in mine:
            if block.start + block.length <= end - enough:
                memory.position = block.start + block.length
                continue
            sample = epoch_itr.dataset[block]
            if trainer.cuda:
                sample = utils.move_to_cuda(sample)
            with torch.no_grad():
                model(**sample["net_input"], memory=memory)
        logger.warning(
            f"--memory-in-checkpoint replay: the memory was computed anew from {min(enough, end)} tokens with the"
            " parameters of now; the losses will differ slightly from those of a training that was not interrupted"
        )


def no_meaning(name: str) -> str:
    return f"{flag(name)} has no meaning with --task streaming_language_modeling; leave it out."


def model_device(model) -> torch.device:
    return next(model.parameters()).device


def worker_of(trainer) -> tuple[int, int]:
    return trainer.data_parallel_rank, trainer.data_parallel_world_size


def check_flags(args) -> None:
    """Refuse flags that have no meaning here.

    Raises:
        UserError: with the flag and the way out
    """
    for name, default in REFUSED.items():
        if getattr(args, name, default) != default:
            raise UserError(no_meaning(name))
    if args.sample_break_mode not in ("none", "eos", None):
        raise UserError(
            f"--sample-break-mode {args.sample_break_mode} would break the streams; leave it out, or take eos to"
            " generate from the lines of a split."
        )
    if args.tokens_per_sample < 1:
        raise UserError(f"--tokens-per-sample {args.tokens_per_sample} is no block; give at least 1.")
    if args.valid_tokens_per_sample is not None and args.valid_tokens_per_sample < 1:
        raise UserError(
            f"--valid-tokens-per-sample {args.valid_tokens_per_sample} is no block; give at least 1, or leave it out."
        )
    if args.max_loss_rise < 0:
        raise UserError(f"--max-loss-rise {args.max_loss_rise} is too small; choose 0, for no limit, or more.")
    if args.converged_by < 0 or args.converged_over < 1:
        name = "converged_by" if args.converged_by < 0 else "converged_over"
        raise UserError(f"{flag(name)} {getattr(args, name)} is too small; leave it out, or choose a number above 0.")
    if args.converged_by and args.memory_in_checkpoint != "full":
        raise UserError("--converged-by needs --memory-in-checkpoint full, which remembers how the validation went.")
    for name in ("disable_validation", "no_save"):
        if args.converged_by and getattr(args, name):
            raise UserError(
                "--converged-by would never end the training, as it is looked at where a checkpoint is saved after a"
                f" validation; leave {flag(name)} out."
            )
    if (args.block_warmup > 0) != (args.block_warmup_updates > 0):
        raise UserError("--block-warmup and --block-warmup-updates go together; give both, above 0, or neither.")
    if args.block_warmup and len(utils.split_paths(args.data or "")) > 1:
        raise UserError("--block-warmup counts the blocks of one data folder; give one, or leave it out.")
