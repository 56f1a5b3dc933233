"""Checks of the flags of --task streaming_language_modeling."""

from fairseq import utils

from fairseq_plugins.errors import UserError, flag

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
REFUSED_IN_TRAINING = ("sentence_avg", "skip_remainder_batch")  # only fairseq-train parses them


def check_flags(args) -> None:
    """Raises UserError for a flag that has no meaning for streams, and for flags that do not go together."""
    for name, default in REFUSED.items():
        if getattr(args, name, default) != default:
            raise UserError(no_meaning(name))
    if args.sample_break_mode not in ("none", "eos", None):
        raise UserError(
            f"--sample-break-mode {args.sample_break_mode} would break the streams; leave it out, or take eos to"
            " generate from the lines of a split."
        )
    check_convergence(args)
    if (args.block_warmup > 0) != (args.block_warmup_updates > 0):
        raise UserError("--block-warmup and --block-warmup-updates go together; give both, above 0, or neither.")
    if args.block_warmup and len(utils.split_paths(args.data or "")) > 1:
        raise UserError("--block-warmup counts the blocks of one data folder; give one folder, or leave the flag out.")


def check_convergence(args) -> None:
    """Raises UserError if --converged-by could not take effect."""
    if not args.converged_by:
        return
    if args.memory_in_checkpoint != "full":
        raise UserError("--converged-by needs --memory-in-checkpoint full, which saves the validation perplexities.")
    for name in ("disable_validation", "no_save"):
        if getattr(args, name):
            raise UserError(
                "--converged-by would never end the training, since convergence is checked when a checkpoint is saved"
                f" after a validation; leave {flag(name)} out."
            )


def check_training_flags(args) -> None:
    """Raises UserError for a flag of fairseq-train that has no meaning for streams."""
    for name in REFUSED_IN_TRAINING:
        if getattr(args, name):
            raise UserError(no_meaning(name))


def no_meaning(name: str) -> str:
    return f"{flag(name)} has no meaning with --task streaming_language_modeling; leave it out."
