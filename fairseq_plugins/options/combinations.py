"""One table of the options that do not go together, and of those that need a package that is not installed."""

import ast
import json
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path

from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.options import ranges


def several(paths: str) -> bool:
    """Whether these are several checkpoints. An address such as s3://models/a.pt is one checkpoint."""
    return ":" in paths.replace("://", "") and not Path(paths).exists()


@dataclass(frozen=True)
class Combination:
    """Options whose values do not go together.

    Attributes:
        names: the names of the options. A command that lacks one of them is not checked. A name with a question mark
            may be lacking, and its value is None then: flags of our models have no value until they are given
        wrong: a function of their values that returns whether they do not go together
        words: the error message, with the options' names in braces in place of their values
    """

    names: str
    wrong: Callable[..., bool]
    words: str

    def check(self, settings: Namespace) -> None:
        names = self.names.replace("?", "").split()
        absent = [None if name.endswith("?") else MISSING for name in self.names.split()]
        values = [getattr(settings, name, other) for name, other in zip(names, absent)]
        if MISSING not in values and self.wrong(*values):
            raise UserError(self.words.format(**dict(zip(names, values))))


MISSING = object()


def installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


SEARCH = [
    Combination(
        "max_len_a max_len_b min_len",
        lambda a, b, least: a == 0 and b < least,
        "--max-len-b {max_len_b} is below --min-len {min_len}: raise --max-len-b or lower --min-len.",
    ),
    Combination(
        "diverse_beam_groups beam",
        lambda groups, beam: groups > 0 and beam % groups != 0,
        "--diverse-beam-groups {diverse_beam_groups} does not divide --beam {beam}; choose a divisor.",
    ),
    Combination(
        "sampling sampling_topk",
        lambda sampling, top: not sampling and top >= 0,
        "--sampling-topk {sampling_topk} needs --sampling; add it, or leave --sampling-topk out.",
    ),
    Combination(
        "sampling sampling_topp",
        lambda sampling, top: not sampling and top >= 0,
        "--sampling-topp {sampling_topp} needs --sampling; add it, or leave --sampling-topp out.",
    ),
    Combination(
        "sampling diverse_beam_groups match_source_len diversity_rate",
        lambda sampling, groups, match, rate: sampling + (groups > 0) + match + (rate > 0) > 1,
        "--sampling, --diverse-beam-groups, --match-source-len and --diversity-rate exclude one another; choose one.",
    ),
    Combination(
        "match_source_len min_len",
        lambda match, least: match and least > 1,
        "--match-source-len makes outputs as long as their sources, whatever --min-len {min_len} says; leave --min-len"
        " out.",
    ),
]

FINDS_FEWER = Combination(
    "nbest beam",
    lambda nbest, beam: nbest > beam,
    "--nbest {nbest} is more than --beam {beam} finds; raise --beam or lower --nbest.",
)

COMMANDS = [
    # searching
    Combination(
        "sampling nbest beam",
        lambda sampling, nbest, beam: sampling and nbest != beam,
        "--sampling draws --beam {beam} outputs, and prints all of them: set --nbest {nbest} to {beam}.",
    ),
    FINDS_FEWER,
    Combination(
        "command replace_unk",
        lambda command, words: command in ("generate", "interactive") and words is not None,
        "--replace-unk does not work in this version of fairseq, which keeps no unknown words and no alignments for it;"
        " leave it out, and print alignments with --print-alignment.",
    ),
    Combination(
        "command print_alignment",
        lambda command, kind: command == "interactive" and kind is not None and str(kind) == "soft",
        "--print-alignment soft is for fairseq-generate; give fairseq-interactive --print-alignment hard.",
    ),
    Combination(
        "command constraints",
        lambda command, constraints: command == "generate" and constraints,
        "--constraints is for fairseq-interactive, which reads constraints with its sentences; leave it out.",
    ),
    # shards and ranks
    Combination(
        "shard_id num_shards",
        lambda shard, shards: shard >= shards,
        "--shard-id {shard_id} is too large for --num-shards {num_shards}, since shards are counted from 0; lower it.",
    ),
    Combination(
        "command distributed_rank distributed_world_size",
        lambda command, rank, processes: command in ("generate", "eval_lm") and rank >= processes,
        "--distributed-rank {distributed_rank} is too large for --distributed-world-size {distributed_world_size},"
        " since ranks are counted from 0; lower it.",
    ),
    Combination(
        "command num_shards",
        lambda command, shards: command in ("train", "validate", "interactive") and shards > 1,
        "--num-shards is for fairseq-generate and fairseq-eval-lm only; leave it out.",
    ),
    Combination(
        "command path",
        lambda command, path: command != "train" and not path,
        "--path is missing; it takes a checkpoint that fairseq-train wrote.",
    ),
    Combination(
        "command path",
        lambda command, path: command in ("eval_lm", "validate") and several(str(path)),
        "--path {path} names several checkpoints, of which fairseq-eval-lm and fairseq-validate take one: give each on"
        " its own, or an average of checkpoints of one training (python -m fairseq_plugins.tools.average_checkpoints).",
    ),
    Combination(
        "command context_window tokens_per_sample",
        lambda command, window, block: command == "eval_lm" and window >= block,
        "--context-window {context_window} is not below --tokens-per-sample {tokens_per_sample}, so no token would be"
        " predicted; lower it.",
    ),
    # learning rates
    Combination(
        "lr_scheduler warmup_updates",
        lambda scheduler, warmup: scheduler == "inverse_sqrt" and not warmup,
        "--lr-scheduler inverse_sqrt needs --warmup-updates of at least 1.",
    ),
    Combination(
        "lr_scheduler total_num_update",
        lambda scheduler, total: scheduler == "polynomial_decay" and total is None,
        "--lr-scheduler polynomial_decay needs --total-num-update.",
    ),
    Combination(
        "lr_scheduler min_lr lr",
        lambda scheduler, low, rates: (
            scheduler == "step" and low >= rates[0] or scheduler in ("cosine", "cosine_wave") and low > rates[0]
        ),
        "--min-lr {min_lr} is not below --lr; lower it.",
    ),
    Combination(
        "lr_scheduler lr_period_updates max_update warmup_updates",
        lambda scheduler, period, updates, warmup: scheduler == "cosine" and period <= 0 and updates <= warmup,
        "--lr-scheduler cosine needs --lr-period-updates, or more --max-update than --warmup-updates.",
    ),
    Combination(
        "lr_scheduler t_mult lr_shrink",
        lambda scheduler, longer, lower: scheduler == "cosine_wave" and (longer != 1 or lower != 0.1),
        "--t-mult and --lr-shrink have no meaning for --lr-scheduler cosine_wave, whose periods are alike; leave them"
        " out.",
    ),
    Combination(
        "lr_scheduler lr_period_updates",
        lambda scheduler, period: scheduler == "triangular" and period < 2,
        "--lr-scheduler triangular needs --lr-period-updates of at least 2.",
    ),
    Combination(
        "lr_scheduler phase_ratio decay_steps",
        lambda scheduler, phases, decay: scheduler == "tri_stage" and not phases and not decay,
        "--lr-scheduler tri_stage needs --decay-steps of at least 1, or --phase-ratio and --max-update.",
    ),
    Combination(
        "lr_scheduler phase_ratio max_update",
        lambda scheduler, phases, updates: (
            scheduler == "tri_stage" and phases and not (updates and sum(phases) == 1 and int(updates * phases[2]))
        ),
        "--phase-ratio needs --max-update, and three fractions with the sum 1, the last of which covers at least one"
        " update.",
    ),
    Combination(
        "lr_scheduler lr_shrink",
        lambda scheduler, shrink: scheduler == "reduce_lr_on_plateau" and shrink >= 1,
        "--lr-scheduler reduce_lr_on_plateau needs --lr-shrink below 1.",
    ),
    Combination(
        "lr_scheduler lr_decay",
        lambda scheduler, decay: scheduler == "step" and not 0 < decay <= 1,
        "--lr-scheduler step needs --lr-decay above 0 and of at most 1.",
    ),
    # models
    Combination(
        "command persistent_vectors persistent_integration",
        lambda command, size, name: command == "train" and size == 0 and str(name) != "all-attn",
        "--persistent-integration {persistent_integration} needs --persistent-vectors above 0; give more, or"
        " --persistent-integration all-attn.",
    ),
    Combination(
        "encoder_embed_dim encoder_learned_pos no_token_positional_embeddings",
        lambda width, learned, none: width in (2, 3) and not (learned or none),
        "--encoder-embed-dim {encoder_embed_dim} is too small for sinusoidal positions; choose at least 4.",
    ),
    Combination(
        "decoder_embed_dim decoder_learned_pos no_token_positional_embeddings",
        lambda width, learned, none: width in (2, 3) and not (learned or none),
        "--decoder-embed-dim {decoder_embed_dim} is too small for sinusoidal positions; choose at least 4.",
    ),
    Combination(
        "adaptive_softmax_cutoff criterion",  # it is a list in fairseq's encoder-decoders only
        lambda cutoff, criterion: isinstance(cutoff, list) and criterion != "adaptive_loss",
        "--adaptive-softmax-cutoff needs --criterion adaptive_loss, not {criterion}.",
    ),
    Combination(
        "adaptive_softmax_cutoff",
        lambda cutoff: isinstance(cutoff, list) and cutoff != sorted(set(cutoff)),
        "--adaptive-softmax-cutoff {adaptive_softmax_cutoff} is not in ascending order; give the cut-offs in order.",
    ),
    Combination(
        "command adaptive_softmax_cutoff? adaptive_softmax_factor",
        lambda command, cutoff, factor: command == "train" and not cutoff and factor != 4,
        "--adaptive-softmax-factor {adaptive_softmax_factor} would have no effect without --adaptive-softmax-cutoff;"
        " give it, or leave --adaptive-softmax-factor out.",
    ),
    Combination(
        "command adaptive_input? adaptive_input_factor",
        lambda command, adaptive, factor: command == "train" and not adaptive and factor != 4,
        "--adaptive-input-factor {adaptive_input_factor} would have no effect without --adaptive-input; give it, or"
        " leave --adaptive-input-factor out.",
    ),
    Combination(
        "command arch decoder_attention_heads",
        lambda command, arch, heads: command == "train" and arch.startswith("lstm_stream_lm") and heads != 8,
        "--decoder-attention-heads {decoder_attention_heads} has no meaning for an LSTM; leave it out.",
    ),
    # checkpoints
    Combination(
        "write_checkpoints_asynchronously",
        lambda asynchronously: asynchronously,
        "--write-checkpoints-asynchronously writes checkpoints that are not verified; leave it out.",
    ),
    Combination(
        "disable_validation best_checkpoint_metric task?",
        lambda disabled, metric, task: (
            disabled and metric != ("reward" if task == "reinforcement_learning" else "loss")
        ),
        "--best-checkpoint-metric {best_checkpoint_metric} has no effect with --disable-validation; leave one of them"
        " out.",
    ),
    Combination(
        "disable_validation keep_best_checkpoints",
        lambda disabled, number: disabled and number > 0,
        "--keep-best-checkpoints {keep_best_checkpoints} keeps none with --disable-validation; leave one of them out.",
    ),
    Combination(
        "disable_validation patience",
        lambda disabled, patience: disabled and patience > 0,
        "--patience {patience} never ends a training with --disable-validation; leave one of them out.",
    ),
    # options that need other packages
    Combination(
        "ddp_backend",
        lambda backend: backend == "fully_sharded" and not installed("fairscale"),
        "--ddp-backend fully_sharded needs the package fairscale, which is not installed; take pytorch_ddp or"
        " legacy_ddp.",
    ),
    Combination(
        "ddp_backend cpu_offload",
        lambda backend, offload: offload and backend != "fully_sharded",
        "--cpu-offload belongs to --ddp-backend fully_sharded; leave it out.",
    ),
    Combination(
        "zero_sharding",
        lambda sharding: sharding == "os" and not installed("fairscale"),
        "--zero-sharding os needs the package fairscale, which is not installed; leave it out.",
    ),
    Combination(
        "pipeline_model_parallel",
        lambda parallel: parallel and not installed("fairscale"),
        "--pipeline-model-parallel needs the package fairscale, which is not installed; leave it out.",
    ),
    Combination(
        "model_parallel_size",
        lambda size: size > 1 and not installed("fairseq.model_parallel.megatron"),
        "--model-parallel-size {model_parallel_size} needs fairseq's copy of Megatron, which is not installed; leave it"
        " out.",
    ),
    Combination(
        "tpu",
        lambda tpu: tpu and not installed("torch_xla"),
        "--tpu needs the package torch_xla, which is not installed; leave it out.",
    ),
    Combination(
        "use_plasma_view",
        lambda use: use and not installed("pyarrow.plasma"),
        "--use-plasma-view needs a pyarrow with plasma, which is not installed; leave it out.",
    ),
    Combination(
        "command optimizer",
        lambda command, optimizer: command == "train" and optimizer == "composite",
        "--optimizer composite needs parameter groups in a configuration of fairseq-hydra-train; choose another.",
    ),
]

# Options that are dictionaries of other options
DICTIONARIES = ("model_overrides", "optimizer_overrides")


def check(settings: Namespace) -> None:
    """
    Args:
        settings: the parsed options of a command

    Raises:
        UserError: options do not go together
    """
    settings = Namespace(**vars(settings), command=command_of(settings))
    for combination in SEARCH + COMMANDS:
        combination.check(settings)
    if getattr(settings, "lr_scheduler", None) == "manual":
        check_manual_rates(settings)
    for name in DICTIONARIES:
        if text := getattr(settings, name, None):
            check_parts(name, dictionary(name, text))
    if getattr(settings, "eval_bleu", False):
        check_search("eval_bleu_args", settings.eval_bleu_args)


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
        for combination in SEARCH:
            combination.check(settings)
    except UserError as error:
        raise UserError(f"{flag(name)}: {error}") from None
