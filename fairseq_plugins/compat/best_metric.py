"""Patches of --best-checkpoint-metric: is there such a value, and is a high one better?"""

import logging
import math

from fairseq import checkpoint_utils
from fairseq.logging import metrics

from fairseq_plugins.compat.patch import replace, replace_in_training
from fairseq_plugins.errors import UserError
from fairseq_plugins.random_states import random_state, restore_random_state

logger = logging.getLogger(__name__)

HIGHER_IS_BETTER = ("accuracy", "bleu", "reward", "success")
OF_SPEED = {"wps", "ups", "wpb", "bsz", "wall", "train_wall", "gb_free", "num_updates"}  # and of size


def best_metrics_exist():
    """If a validation does not give the value that --best-checkpoint-metric names, fairseq fails after the first epoch,
    and has saved nothing. The patch looks before the first update, and lists the values that there are: those that the
    criterion declares as ``LOGGED``, or else those of a validation, which ends as soon as the value is among them. A
    validation also finds out whether there is a value that the criterion only ``MAY_LOG``."""

    @replace(checkpoint_utils, "load_checkpoint")
    def load_checkpoint(original, cfg, trainer, **kwargs):
        if cfg.best_checkpoint_metric != "loss" and not trainer.cfg.dataset.disable_validation:
            check_metric(cfg.best_checkpoint_metric, trainer)
        return original(cfg, trainer, **kwargs)


def check_metric(metric: str, trainer) -> None:
    """Raises UserError if a validation does not give such a value."""
    eval_bleu = getattr(trainer.cfg.task, "eval_bleu", None)
    if metric == "bleu" and eval_bleu:
        return  # it is missing as long as a model translates into nothing
    criterion = trainer.get_criterion()
    names = declared(trainer.task, criterion)
    if not names or metric in getattr(criterion, "MAY_LOG", ()):
        names = of_a_validation(trainer, metric)
    if metric not in names:
        way_out = "add --eval-bleu, or " if metric == "bleu" and eval_bleu is not None else ""
        raise UserError(
            f"--best-checkpoint-metric {metric} is no value that a validation of this training gives; {way_out}choose"
            f" one of {', '.join(sorted(names - OF_SPEED))}."
        )


def declared(task, criterion) -> set[str]:
    """The names of the values that a criterion of this suite gives, and those of its task; empty for others."""
    of_criterion = getattr(criterion, "LOGGED", ())
    return {*of_criterion, *getattr(task, "LOGGED", ())} if of_criterion else set()


def of_a_validation(trainer, wanted: str) -> set[str]:
    """The names of the values of a validation, which ends as soon as the one that is wanted is among them. It leaves no
    trace: a task forgets it in ``end_trial``, if it has this method."""
    subset, state = trainer.cfg.dataset.valid_subset.split(",")[0], random_state()
    batches = trainer.get_valid_iterator(subset).next_epoch_itr(shuffle=False, set_dataset_epoch=False)
    with metrics.aggregate(new_root=True) as values:
        for sample in batches:
            trainer.valid_step(sample)
            if wanted in values.get_smoothed_values():
                break
    restore_random_state(state)
    getattr(trainer.task, "end_trial", lambda: None)()
    return set(values.get_smoothed_values())


def missing_values_end_no_training():
    """Some values are missing in some validations, such as the BLEU score of a model that translates into nothing yet.
    There fairseq ends with a KeyError. The patch goes on, and takes the validation for no improvement."""

    @replace_in_training("get_valid_stats")
    def get_valid_stats(original, cfg, trainer, stats, tracking_best):
        metric = cfg.checkpoint.best_checkpoint_metric
        if metric not in stats:
            logger.warning(f"this validation gives no {metric} (--best-checkpoint-metric): it counts as no improvement")
            stats[metric] = math.nan
        if tracking_best:
            trainer.validation_loss = stats.get("loss")  # for checkpoint_content.diverged_models_are_not_saved
        return original(cfg, trainer, stats, tracking_best)


def higher_is_better():
    """fairseq takes the lowest value for the best, unless --maximize-best-checkpoint-metric is given, even of a BLEU
    score. The patch takes the highest accuracy, BLEU score, reward and success."""

    @replace(checkpoint_utils, "load_checkpoint")
    def load_checkpoint(original, cfg, trainer, **kwargs):
        if cfg.best_checkpoint_metric in HIGHER_IS_BETTER:
            cfg.maximize_best_checkpoint_metric = True
        return original(cfg, trainer, **kwargs)
