"""Tables of the options that do not go together, and of those that need a package that is not installed."""

import ast
import json
from argparse import Namespace
from collections.abc import Callable
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.options import ranges


def several(paths: str) -> bool:
    """Whether these are several checkpoints. An address such as s3://models/a.pt is one checkpoint."""
    return ":" in paths.replace("://", "") and not Path(paths).exists()


def installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


DRAWN = ("algorithmic_curriculum", "reinforcement_learning", "synthetic_stream")  # tasks without files

# Both tables: the error message, with names of options in braces in place of their values, and the condition for it, a
# function of the options. A command that lacks one of these options is not checked.
Combinations = dict[str, Callable[[Namespace], object]]

SEARCH: Combinations = {
    "--max-len-b {max_len_b} is below --min-len {min_len}: raise --max-len-b or lower --min-len.":
        lambda given: given.max_len_a == 0 and given.max_len_b < given.min_len,
    "--diverse-beam-groups {diverse_beam_groups} does not divide --beam {beam}; choose a divisor.":
        lambda given: given.diverse_beam_groups > 0 and given.beam % given.diverse_beam_groups,
    "--sampling-topk {sampling_topk} needs --sampling; add it, or leave --sampling-topk out.":
        lambda given: not given.sampling and given.sampling_topk >= 0,
    "--sampling-topp {sampling_topp} needs --sampling; add it, or leave --sampling-topp out.":
        lambda given: not given.sampling and given.sampling_topp >= 0,
    "--sampling, --diverse-beam-groups, --match-source-len and --diversity-rate exclude one another; choose one.":
        lambda given: given.sampling + (given.diverse_beam_groups > 0) + given.match_source_len
        + (given.diversity_rate > 0) > 1,
    "--match-source-len makes outputs as long as their sources, whatever --min-len {min_len} says; leave --min-len"
    " out.":
        lambda given: given.match_source_len and given.min_len > 1,
    "--nbest {nbest} is more than --beam {beam} finds; raise --beam or lower --nbest.":
        lambda given: given.nbest > given.beam,
}  # fmt: skip

COMMANDS: Combinations = {
    # searching
    "--sampling draws --beam {beam} outputs, and prints all of them: set --nbest {nbest} to {beam}.":
        lambda given: given.sampling and given.nbest != given.beam,
    "--replace-unk does not work in this version of fairseq, which keeps no unknown words and no alignments for it;"
    " leave it out, and print alignments with --print-alignment.":
        lambda given: given.command in ("generate", "interactive") and given.replace_unk is not None,
    "--print-alignment soft is for fairseq-generate; give fairseq-interactive --print-alignment hard.":
        lambda given: given.command == "interactive" and str(given.print_alignment) == "soft",
    "--constraints is for fairseq-interactive, which reads constraints with its sentences; leave it out.":
        lambda given: given.command == "generate" and given.constraints,
    # shards and ranks
    "--shard-id {shard_id} is too large for --num-shards {num_shards}, since shards are counted from 0; lower it.":
        lambda given: given.shard_id >= given.num_shards,
    "--distributed-rank {distributed_rank} is too large for --distributed-world-size {distributed_world_size}, since"
    " ranks are counted from 0; lower it.":
        lambda given: given.command in ("generate", "eval_lm")
        and given.distributed_rank >= given.distributed_world_size,
    "--num-shards is for fairseq-generate and fairseq-eval-lm only; leave it out.":
        lambda given: given.command in ("train", "validate", "interactive") and given.num_shards > 1,
    "--path is missing; it takes a checkpoint that fairseq-train wrote.":
        lambda given: given.command != "train" and not given.path,
    "--path {path} names several checkpoints, of which fairseq-eval-lm and fairseq-validate take one: give each on"
    " its own, or an average of checkpoints of one training (python -m fairseq_plugins.tools.average_checkpoints).":
        lambda given: given.command in ("eval_lm", "validate") and several(str(given.path)),
    "int8 has no effect in fairseq-validate; take fairseq-eval-lm, or leave it out of --model-overrides.":
        lambda given: given.command == "validate" and "int8" in dictionary("model_overrides", given.model_overrides),
    "--context-window {context_window} is not below --tokens-per-sample {tokens_per_sample}, so no token would be"
    " predicted; lower it.":
        lambda given: given.command == "eval_lm" and given.context_window >= given.tokens_per_sample,
    # learning rates
    "--lr-scheduler inverse_sqrt needs --warmup-updates of at least 1.":
        lambda given: given.lr_scheduler == "inverse_sqrt" and not given.warmup_updates,
    "--lr-scheduler polynomial_decay needs --total-num-update.":
        lambda given: given.lr_scheduler == "polynomial_decay" and given.total_num_update is None,
    "--min-lr {min_lr} is not below --lr; lower it.":
        lambda given: given.lr_scheduler == "step" and given.min_lr >= given.lr[0]
        or given.lr_scheduler in ("cosine", "cosine_wave") and given.min_lr > given.lr[0],
    "--lr-scheduler cosine needs --lr-period-updates, or more --max-update than --warmup-updates.":
        lambda given: given.lr_scheduler == "cosine" and given.lr_period_updates <= 0
        and given.max_update <= given.warmup_updates,
    "--t-mult and --lr-shrink have no meaning for --lr-scheduler cosine_wave, whose periods are alike; leave them out.":
        lambda given: given.lr_scheduler == "cosine_wave" and (given.t_mult, given.lr_shrink) != (1, 0.1),
    "--lr-scheduler triangular needs --lr-period-updates of at least 2.":
        lambda given: given.lr_scheduler == "triangular" and given.lr_period_updates < 2,
    "--lr-scheduler tri_stage needs --decay-steps of at least 1, or --phase-ratio and --max-update.":
        lambda given: given.lr_scheduler == "tri_stage" and not given.phase_ratio and not given.decay_steps,
    "--phase-ratio needs --max-update, and three fractions with the sum 1, the last of which covers at least one"
    " update.":
        lambda given: given.lr_scheduler == "tri_stage" and given.phase_ratio
        and not (sum(given.phase_ratio) == 1 and int(given.max_update * given.phase_ratio[2])),
    "--lr-scheduler reduce_lr_on_plateau needs --lr-shrink below 1.":
        lambda given: given.lr_scheduler == "reduce_lr_on_plateau" and given.lr_shrink >= 1,
    "--lr-scheduler step needs --lr-decay above 0 and of at most 1.":
        lambda given: given.lr_scheduler == "step" and not 0 < given.lr_decay <= 1,
    # models
    "--persistent-integration {persistent_integration} needs --persistent-vectors above 0; give more, or"
    " --persistent-integration all-attn.":
        lambda given: given.command == "train" and given.persistent_vectors == 0
        and str(given.persistent_integration) != "all-attn",
    "--encoder-embed-dim {encoder_embed_dim} is too small for sinusoidal positions; choose at least 4.":
        lambda given: given.encoder_embed_dim in (2, 3)
        and not (given.encoder_learned_pos or given.no_token_positional_embeddings),
    "--decoder-embed-dim {decoder_embed_dim} is too small for sinusoidal positions; choose at least 4.":
        lambda given: given.decoder_embed_dim in (2, 3)
        and not (given.decoder_learned_pos or given.no_token_positional_embeddings),
    # The cut-offs are a list in fairseq's encoder-decoders only.
    "--adaptive-softmax-cutoff needs --criterion adaptive_loss, not {criterion}.":
        lambda given: isinstance(given.adaptive_softmax_cutoff, list) and given.criterion != "adaptive_loss",
    "--adaptive-softmax-cutoff {adaptive_softmax_cutoff} is not in ascending order; give the cut-offs in order.":
        lambda given: isinstance(cutoffs := given.adaptive_softmax_cutoff, list) and cutoffs != sorted(set(cutoffs)),
    # Flags of our models have no value until they are given.
    "--adaptive-softmax-factor {adaptive_softmax_factor} would have no effect without --adaptive-softmax-cutoff;"
    " give it, or leave --adaptive-softmax-factor out.":
        lambda given: given.command == "train" and not getattr(given, "adaptive_softmax_cutoff", None)
        and given.adaptive_softmax_factor != 4,
    "--adaptive-input-factor {adaptive_input_factor} would have no effect without --adaptive-input; give it, or"
    " leave --adaptive-input-factor out.":
        lambda given: given.command == "train" and not getattr(given, "adaptive_input", None)
        and given.adaptive_input_factor != 4,
    "--decoder-attention-heads {decoder_attention_heads} has no meaning for an LSTM; leave it out.":
        lambda given: given.command == "train" and given.arch.startswith("lstm_stream_lm")
        and given.decoder_attention_heads != 8,
    # agents
    "--update-freq {update_freq} adds up updates of PPO that are to follow one another; leave it out, and raise"
    " --batch-size.":
        lambda given: given.criterion == "ppo" and given.update_freq not in (1, [1], "1"),
    # data
    "--combine-val joins valid, valid1 and so on into one set, so --valid-subset {valid_subset} does not go with it;"
    " leave one of them out.":
        lambda given: given.combine_valid_subsets and given.valid_subset != "valid",
    "--train-subset {train_subset}: --task {task} draws its own data, and calls them train; leave the flag out.":
        lambda given: given.task in DRAWN and given.train_subset != "train",
    # checkpoints
    "--write-checkpoints-asynchronously writes checkpoints that are not verified; leave it out.":
        lambda given: given.write_checkpoints_asynchronously,
    "--best-checkpoint-metric {best_checkpoint_metric} has no effect with --disable-validation; leave one of them"
    " out.":
        lambda given: given.disable_validation and given.best_checkpoint_metric
        != ("reward" if getattr(given, "task", None) == "reinforcement_learning" else "loss"),
    "--keep-best-checkpoints {keep_best_checkpoints} keeps none with --disable-validation; leave one of them out.":
        lambda given: given.disable_validation and given.keep_best_checkpoints > 0,
    "--patience {patience} never ends a training with --disable-validation; leave one of them out.":
        lambda given: given.disable_validation and given.patience > 0,
    # options that need other packages
    "--ddp-backend fully_sharded needs the package fairscale, which is not installed; take pytorch_ddp or legacy_ddp.":
        lambda given: given.ddp_backend == "fully_sharded" and not installed("fairscale"),
    "--cpu-offload belongs to --ddp-backend fully_sharded; leave it out.":
        lambda given: given.cpu_offload and given.ddp_backend != "fully_sharded",
    "--zero-sharding os needs the package fairscale, which is not installed; leave it out.":
        lambda given: given.zero_sharding == "os" and not installed("fairscale"),
    "--pipeline-model-parallel needs the package fairscale, which is not installed; leave it out.":
        lambda given: given.pipeline_model_parallel and not installed("fairscale"),
    "--model-parallel-size {model_parallel_size} needs fairseq's copy of Megatron, which is not installed; leave it"
    " out.":
        lambda given: given.model_parallel_size > 1 and not installed("fairseq.model_parallel.megatron"),
    "--tpu needs the package torch_xla, which is not installed; leave it out.":
        lambda given: given.tpu and not installed("torch_xla"),
    "--use-plasma-view needs a pyarrow with plasma, which is not installed; leave it out.":
        lambda given: given.use_plasma_view and not installed("pyarrow.plasma"),
    "--optimizer composite needs parameter groups in a configuration of fairseq-hydra-train; choose another.":
        lambda given: given.command == "train" and given.optimizer == "composite",
}  # fmt: skip

# Options that are dictionaries of other options
DICTIONARIES = ("model_overrides", "optimizer_overrides")


def check(settings: Namespace) -> None:
    """Raises UserError if the parsed options of a command do not go together."""
    settings = Namespace(**vars(settings), command=command_of(settings))
    check_table(SEARCH, settings)
    check_table(COMMANDS, settings)
    if getattr(settings, "lr_scheduler", None) == "manual":
        check_manual_rates(settings)
    for name in DICTIONARIES:
        if text := getattr(settings, name, None):
            check_parts(name, dictionary(name, text))
    if getattr(settings, "eval_bleu", False):
        check_search("eval_bleu_args", settings.eval_bleu_args)


def check_table(table: Combinations, settings: Namespace) -> None:
    """Raises UserError if options in a table do not go together."""
    for words, wrong in table.items():
        try:
            refused = wrong(settings)
        except AttributeError:  # the command lacks an option
            continue
        if refused:
            raise UserError(words.format_map(vars(settings)))


def command_of(settings: Namespace) -> str:
    """The command that has all these options."""
    marks = {"interactive": "buffer_size", "generate": "beam", "eval_lm": "softmax_batch", "train": "max_update"}
    return next((command for command, mark in marks.items() if hasattr(settings, mark)), "validate")


def dictionary(name: str, text: str) -> dict:
    """ "{'mem_len': 64}" -> {"mem_len": 64}; raises UserError for other text."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if not isinstance(value, dict):
        raise UserError(f"{flag(name)} {text} is not a dictionary; write it as \"{{'dropout': 0.1}}\".")
    return value


def check_manual_rates(settings: Namespace) -> None:
    """Raises UserError for wrong options of --lr-scheduler manual, which are dictionaries of learning rates."""
    for name in ("epoch2lr", "update2lr"):
        rates = dictionary(name, getattr(settings, name))
        if not all(isinstance(key, str) and ranges.RANGES["lr"].allows(rate) for key, rate in rates.items()):
            raise UserError(f"{flag(name)} {rates} does not fit; write it as \"{{'1-3': 0.1, '4': 0.01}}\".")


def check_parts(name: str, options: dict) -> None:
    """Raises UserError for a number in a dictionary that is out of its option's range."""
    for part, value in options.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                ranges.check(str(part), value)
            except UserError as error:
                raise UserError(f"{flag(name)}: {error}") from None


def check_search(name: str, text: str) -> None:
    """Raises UserError for wrong options of a search in JSON."""
    try:
        options = json.loads(text)
    except json.JSONDecodeError:
        options = None
    if not isinstance(options, dict):
        raise UserError(f"{flag(name)} {text} is not a dictionary in JSON; write it as '{{\"beam\": 4}}'.")
    check_parts(name, options)
    from fairseq.dataclass.configs import GenerationConfig  # tools and scripts use this file without fairseq

    settings = Namespace(**{field.name: field.default for field in fields(GenerationConfig)} | options)
    try:
        check_table(SEARCH, settings)
    except UserError as error:
        raise UserError(f"{flag(name)}: {error}") from None
