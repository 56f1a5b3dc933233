"""The range of every numeric option: one table for the options of fairseq and of this suite, by their field names.

fairseq checks hardly any number: a wrong one ends in a traceback, kills the process, or silently trains nothing. With
this table ``compat/command_line.py`` checks command lines, and ``options/checks.py`` the options of models and tasks.
The arguments of tools and scripts have a ``Range`` as their type.
"""

import math
from argparse import ArgumentTypeError
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.options.literals import evaluate


@dataclass(frozen=True)
class Range:
    """The numbers from ``low`` to ``high``, both included, and the numbers in ``also``. nan is never allowed. A range
    is a type for argparse.

    Attributes:
        above: ``low`` itself is excluded
        below: ``high`` itself is excluded
        whole: only whole numbers are allowed
        infinite: inf is allowed
        also: further numbers that are allowed, such as a -1 that means "none"
        several: the number of values that the option takes: 1, 2..., or None for one or more
    """

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    below: bool = False
    whole: bool = False
    infinite: bool = False
    also: tuple[float, ...] = ()
    several: int | None = 1

    def allows(self, value) -> bool:
        if self.several != 1:
            values = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
            one = replace(self, several=1)
            return bool(values) and len(values) == (self.several or len(values)) and all(map(one.allows, values))
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if self.whole and not float(value).is_integer():
            return False
        if value in self.also:
            return True
        if not math.isfinite(value):
            return self.infinite and value == math.inf
        return (self.low < value if self.above else self.low <= value) and (
            value < self.high if self.below else value <= self.high
        )

    def __str__(self) -> str:
        """In words: "a whole number of at least 1, or -1"."""
        limits = []
        if math.isfinite(self.low):
            limits.append(f"above {written(self.low)}" if self.above else f"of at least {written(self.low)}")
        if math.isfinite(self.high):
            limits.append(f"below {written(self.high)}" if self.below else f"of at most {written(self.high)}")
        if len(limits) == 2 and not (self.above or self.below):
            limits = [f"from {written(self.low)} to {written(self.high)}"]
        noun = "whole number" if self.whole else "number" if limits else "finite number"
        count = {1: f"a {noun}", None: f"one or more {noun}s"}.get(self.several, f"{self.several} {noun}s")
        words = " ".join([count, " and ".join(limits)]).strip() + "".join(f", or {written(n)}" for n in self.also)
        return words if self.several == 1 else f"{words}, with commas between them"

    def __call__(self, text: str):
        """Parse an argument of a tool. argparse puts the name of the option before the error message."""
        try:
            value = int(text) if self.whole else float(text)
        except ValueError:
            value = None
        if not self.allows(value):
            raise ArgumentTypeError(f"{text} does not fit; give {self}")
        return value


def written(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


number, whole, above = Range, partial(Range, whole=True), partial(Range, above=True)

RATE = number(0, 1)
LENGTH = whole(1, 100_000_000)  # of a sampled text
TOP_K, TOP_P = whole(1, also=(-1,)), above(0, high=1, also=(-1,))  # of sampling; -1: all tokens
SEED = whole(0, 4_000_000_000)  # numpy's limit is 2**32 - 1; fairseq adds epochs and updates

RANGES = {
    name: range
    for range, names in [
        # length of a training, and how often something is done
        (whole(0), "max_epoch max_update curriculum validate_interval_updates validate_after_updates"),
        (whole(0), "save_interval_updates max_valid_steps ema_start_update empty_cache_freq amp_batch_retries"),
        (whole(1), "log_interval validate_interval save_interval ema_update_freq localsgd_frequency"),
        (number(0), "stop_time_hours"),
        (SEED, "seed fixed_validation_seed"),
        (whole(0), "data_seed"),
        # batches and data
        (whole(1), "max_tokens max_tokens_valid batch_size batch_size_valid tokens_per_sample valid_tokens_per_sample"),
        (whole(1), "required_batch_size_multiple required_seq_len_multiple num_shards"),
        (whole(1), "max_positions max_source_positions max_target_positions"),
        (whole(0), "shard_id num_workers data_buffer_size num_batch_buckets buffer_size"),
        (whole(1, also=(-1,)), "upsample_primary output_dictionary_size num_classes"),
        (whole(0), "init_token separator_token pad eos unk"),
        (RATE, "mask_prob leave_unmasked_prob random_token_prob"),
        (whole(1), "mask_multiple_length"),
        (number(0), "mask_stdev sentencepiece_alpha"),
        # preprocessing
        (whole(0), "thresholdsrc thresholdtgt padding_factor"),
        (whole(-1), "nwordssrc nwordstgt"),
        (whole(1), "workers"),
        # checkpoints
        (whole(-1), "keep_interval_updates keep_last_epochs keep_best_checkpoints patience"),
        (whole(1, also=(-1,)), "keep_interval_updates_pattern"),
        (whole(1), "checkpoint_shard_count"),
        (RATE, "ema_decay"),
        # updates
        (number(0, several=None), "lr"),
        (whole(1, several=None), "update_freq"),
        (number(0, infinite=True), "clip_norm clip_tensor_norm"),
        (number(), "stop_min_lr"),
        (number(0), "weight_decay"),
        (RATE, "momentum adadelta_rho"),
        (number(0, 1, below=True, several=2), "adam_betas adamax_betas lamb_betas"),
        (number(0, 1, below=True), "beta1"),
        (above(0), "adam_eps adadelta_eps adamax_eps lamb_eps adagrad_eps rmsprop_eps"),  # 0/0 where a gradient is 0
        (above(0, several=2), "adafactor_eps"),
        (above(0), "clip_threshold"),
        (number(high=0), "decay_rate"),  # adafactor's exponent
        (number(0), "adagrad_lr_decay adagrad_initial_accumulator"),
        # learning rates
        (whole(0), "warmup_updates warmup_steps hold_steps decay_steps force_anneal lr_patience"),
        (number(0, also=(-1,)), "warmup_init_lr"),
        (number(0), "min_lr max_lr end_learning_rate lr_shrink lr_decay lr_threshold power init_lr_scale"),
        (above(0), "t_mult final_lr_scale total_num_update"),
        (above(0, also=(0, -1)), "lr_period_updates"),
        (whole(1), "lr_deacy_period"),  # fairseq's spelling
        (number(0, 1, several=3), "phase_ratio"),
        # losses
        (RATE, "label_smoothing"),
        (whole(0), "ignore_prefix_size"),
        # half precision
        (whole(1), "fp16_init_scale fp16_scale_window amp_init_scale amp_scale_window"),
        (RATE, "fp16_scale_tolerance"),
        (number(0), "min_loss_scale"),
        (above(0), "threshold_loss_scale"),
        # several processes
        (whole(1), "distributed_world_size distributed_num_procs nprocs_per_node bucket_cap_mb all_gather_list_size"),
        (whole(1), "model_parallel_size"),
        (whole(0), "distributed_rank device_id pipeline_chunks"),
        (whole(-1, 65535), "distributed_port"),
        (whole(-1), "heartbeat_timeout"),
        (RATE, "slowmo_momentum"),
        # search
        (whole(1), "beam nbest iter_decode_with_beam"),
        (whole(0), "min_len prefix_size no_repeat_ngram_size iter_decode_max_iter beam_mt"),
        (number(0), "max_len_a max_len_a_mt"),
        (whole(), "max_len_b max_len_b_mt"),  # with --max-len-a, values below 0 have a meaning
        (number(), "lenpen lenpen_mt lm_weight iter_decode_eos_penalty diverse_beam_strength"),
        (number(infinite=True), "unkpen"),
        (whole(-1), "sampling_topk diverse_beam_groups"),
        (number(0, 1, also=(-1,)), "sampling_topp"),
        (number(-1), "diversity_rate"),
        (above(0), "temperature"),
        # evaluation of language models
        (whole(0), "context_window"),
        (whole(1), "softmax_batch"),
        # sizes of models
        (whole(0), "encoder_layers decoder_layers base_layers char_embedder_highway_layers min_params_to_wrap"),
        (whole(1), "encoder_embed_dim encoder_ffn_embed_dim encoder_attention_heads encoder_hidden_size"),
        (whole(1), "decoder_embed_dim decoder_ffn_embed_dim decoder_attention_heads decoder_hidden_size"),
        (whole(1), "decoder_input_dim decoder_output_dim decoder_out_embed_dim decoder_head_dim factorized_embedding"),
        (whole(1), "character_embedding_dim quant_noise_pq_block_size base_sublayers"),
        (whole(0, 1), "base_shuffle"),
        (whole(0, several=None), "encoder_layers_to_keep decoder_layers_to_keep"),
        (whole(1, several=None), "adaptive_softmax_cutoff"),
        (above(0), "adaptive_softmax_factor adaptive_input_factor"),
        # rates of models
        (RATE, "dropout attention_dropout activation_dropout relu_dropout adaptive_softmax_dropout pooler_dropout"),
        (RATE, "encoder_dropout_in encoder_dropout_out decoder_dropout_in decoder_dropout_out"),
        (RATE, "encoder_layerdrop decoder_layerdrop quant_noise_scalar"),
        (RATE, "embed_dropout output_dropout position_dropout"),
        # RoBERTa's pruning
        (number(0), "mha_reg_scale_factor ffn_reg_scale_factor"),
        (whole(1, also=(-1,)), "mha_heads_to_keep"),
        (whole(-1), "ffn_blocks_to_remove"),
        # models over streams, and their task
        (whole(1), "attention_span span_ramp feedback_chunk feedback_passes kernel_size converged_over split_streams"),
        (whole(0), "mem_len persistent_vectors block_warmup block_warmup_updates"),
        (whole(-1), "clamp_len"),
        (number(0), "span_loss max_loss_rise converged_by"),
        (RATE, "span_init cross_head_p"),
        (number(0, 1, below=True), "skip_p quant_noise_pq"),
        # synthetic tasks
        (whole(1), "train_episodes test_episodes train_length test_length start_size epoch_batches"),
        (whole(0), "size_step"),
        (whole(2), "vocabulary"),
        # reinforcement learning
        (RATE, "discount gae_lambda rmsprop_alpha"),
        (number(0), "entropy_cost value_cost"),
        (above(0), "clip_range"),
        (whole(1), "bptt updates_per_block updates_per_epoch"),
    ]
    for name in names.split()
}

# Models of the suite take less than fairseq's: they have layers, and rarer words have narrower embeddings.
OURS = {
    "encoder_layers": whole(1), "decoder_layers": whole(1),
    "adaptive_input_factor": number(1), "adaptive_softmax_factor": number(1),
}  # fmt: skip

# Numbers that fairseq's parser reads as text. The text is checked.
AS_TEXT = {
    "max_tokens_valid", "batch_size_valid", "adam_betas", "adamax_betas", "lamb_betas", "adafactor_eps",
    "total_num_update", "decoder_output_dim",
}  # fmt: skip


def range_of(name: str) -> Range:
    """The range of an option. An option that is not in the table may be any number but nan."""
    return RANGES.get(name, Range(infinite=True, several=None))


def check(name: str, value, allowed: Range | None = None) -> None:
    """Raises UserError for a number that is out of the option's range, or of another range for it."""
    allowed = allowed or range_of(name)
    if not allowed.allows(value):
        raise UserError(f"{flag(name)} {value} does not fit; give {allowed}.")


def read(name: str, kind, text: str):
    """The value of an argument; raises ArgumentTypeError for text that is not a number in the option's range.

    Args:
        kind: the type of the option in fairseq's parser, which converts the text
    """
    if text == "???":  # the default of a mandatory option
        raise ArgumentTypeError(f"is missing; give {range_of(name)}.")
    try:
        value = kind(text) if kind else text
        as_written = name in AS_TEXT or isinstance(value, list)  # the parser would have rounded 1.5
        fits = range_of(name).allows(evaluate(text) if as_written else value)
    except (ValueError, TypeError, ArithmeticError):
        fits = False
    if not fits:
        raise ArgumentTypeError(f"{text} does not fit; give {range_of(name)}.")
    return value


def converted(kind, text: str):
    """The text converted by the type of an option; None if the type refuses it."""
    with suppress(Exception):
        return kind(text)


def is_numeric(name: str, kind) -> bool:
    """Whether an option of a parser takes numbers. ``kind`` is the type of the option in the parser."""
    if name in AS_TEXT:
        return name in RANGES
    if kind in (None, str):
        return False
    if converted(kind, "{}") == {}:  # such as --langtoks, which takes a dictionary
        return False
    value = converted(kind, "1")
    values = value if isinstance(value, list) else [value]
    return all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
