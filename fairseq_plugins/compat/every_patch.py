"""The list of all patches."""

from fairseq_plugins.compat import (
    best_metric,
    bookkeeping,
    checkpoint_content,
    checkpoints,
    data,
    distributed,
    ending,
    generation,
    messages,
    options,
    resuming,
    settings,
)


def apply():
    """Apply all patches. ``activation.py`` calls this before anything else of the suite is loaded."""
    messages.old_calls_are_silent()
    messages.commands_log_the_time()
    messages.only_bleu_is_of_symbols()
    messages.missing_biases_are_not_shared()
    messages.tokenised_bleu_is_told_once()
    data.keep_last_batch()
    data.restore_np_compat()
    data.restore_percentile()
    data.stop_reading_at_exit()
    data.workers_leave_interrupts_alone()
    options.overrides_are_options()
    options.bf16_is_not_tpu()
    options.numbers_fit()
    options.configurations_fit()
    distributed.no_flat_fp16_on_cpu()
    distributed.one_training_per_launch()
    distributed.one_training_per_folder()
    distributed.data_parallel_on_cpu()
    distributed.leave_the_process_group()
    settings.settings_are_data()
    settings.names_are_no_commands()
    settings.outputs_are_the_users()
    settings.archives_stay_in_their_folder()
    bookkeeping.update_checkpoints_end_epochs_too()
    bookkeeping.the_best_checkpoints_are_kept()
    bookkeeping.what_is_no_number_is_not_the_best()
    bookkeeping.last_epochs_are_saved()
    bookkeeping.saved_updates_are_validated()
    bookkeeping.the_best_value_is_of_this_metric()
    best_metric.best_metrics_exist()
    best_metric.missing_values_end_no_training()
    best_metric.higher_is_better()
    checkpoints.load_safely()
    checkpoints.verify_when_loading()
    checkpoints.nobody_waits_for_a_pipe()
    checkpoints.never_restart_from_zero()
    checkpoints.every_rank_saves_its_state()
    checkpoints.checkpoints_keep_their_text()
    checkpoints.save_whole_checkpoints()
    ending.patience_is_saved()
    ending.ended_trainings_stay_ended()
    resuming.batches_do_not_depend_on_the_start()
    resuming.epochs_are_shuffled_as_asked()
    resuming.workers_know_the_epoch()
    resuming.validation_leaves_the_training_alone()
    resuming.schedules_go_on()
    resuming.averages_go_on()
    checkpoint_content.checkpoints_hold_what_they_should()
    checkpoint_content.diverged_models_are_not_saved()
    generation.sample_forced_tokens()
    generation.empty_lines_stay_empty()
    data.refuse_damaged_data()
    data.look_for_splits_in_folders()
    data.shards_share_the_work()
