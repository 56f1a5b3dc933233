"""Each patch of fairseq_plugins.compat.command_line, against fairseq's own function, which shows the fault.

A patched function keeps fairseq's as ``__wrapped__``. What only shows in whole commands is in cli/.
"""

import argparse
import inspect

import pytest
from fairseq import checkpoint_utils, options
from omegaconf import OmegaConf

from fairseq_plugins.compat.command_line import check_configuration, check_options
from fairseq_plugins.errors import UserError
from fairseq_plugins.options import combinations

TRAINING = "data --arch transformer_tiny --optimizer adam".split()


@pytest.mark.parametrize("flags, tpu", [(["--bf16"], False), (["--bf16", "--tpu"], True), ([], False)])
def test_bf16_is_not_tpu(flags, tpu, monkeypatch):
    monkeypatch.setattr(combinations, "installed", lambda name: True)  # torch_xla
    assert options.parse_args_and_arch(options.get_training_parser(), TRAINING + flags).tpu == tpu


def test_fairseq_takes_bf16_for_tpu():
    assert inspect.unwrap(options.parse_args_and_arch)(options.get_training_parser(), [*TRAINING, "--bf16"]).tpu


def test_help_shows_the_flags_of_an_architecture(capsys):
    command = ["--help", "--task", "streaming_language_modeling", "--arch", "feedback_lm"]
    for parse, shown in ((options.parse_args_and_arch, True), (inspect.unwrap(options.parse_args_and_arch), False)):
        with pytest.raises(SystemExit):
            parse(options.get_training_parser(), command)
        assert ("--feedback-memory" in capsys.readouterr().out) == shown


def test_a_mistyped_choice_is_answered_with_the_nearest():
    for arch, sentence in (("feedback_ml", "the nearest are feedback_lm, "), ("x", "--help lists the choices")):
        with pytest.raises(UserError, match=f"--arch/-a: invalid choice: '{arch}'; {sentence}"):
            options.parse_args_and_arch(options.get_training_parser(), ["data", "--arch", arch])


def test_overrides_name_options_of_the_checkpoint():
    cfg = OmegaConf.create(
        {"model": {"mem_len": 4}, "bpe": None, "lost": "???", "old": argparse.Namespace(depth=2)},
        flags={"allow_objects": True},
    )
    check_options(cfg, ["mem_len", "bpe", "lost", "depth"])
    with pytest.raises(UserError, match="the checkpoint has no option memlen, width; write options as the flags"):
        check_options(cfg, ["width", "memlen", "mem_len"])


def test_only_names_of_the_command_are_looked_for():
    overwrite, cfg = checkpoint_utils.overwrite_args_by_name, OmegaConf.create({"model": {"mem_len": 4}})
    overwrite(cfg, {"mem_len": 5, "asked_by_nobody": 1})
    assert cfg.model.mem_len == 5
    command = ["data", "--path", "model.pt", "--model-overrides", "{'memlen': 6}"]
    options.parse_args_and_arch(options.get_generation_parser(), command)
    with pytest.raises(UserError, match="no option memlen"):
        overwrite(cfg, {"memlen": 6})


PREPROCESS = "--only-source --trainpref train --destdir bin".split()


def test_numbers_fit_their_options():
    with pytest.raises(UserError, match="--lr -1 does not fit; give one or more numbers of at least 0"):
        options.parse_args_and_arch(options.get_training_parser(), [*TRAINING, "--lr", "-1"])
    with pytest.raises(UserError, match="--encoder-layers -1 does not fit"):  # of the architecture
        options.parse_args_and_arch(options.get_training_parser(), [*TRAINING, "--encoder-layers", "-1"])
    with pytest.raises(UserError, match="--adam-betas x does not fit; give 2 numbers"):  # of the optimizer
        options.parse_args_and_arch(options.get_training_parser(), [*TRAINING, "--adam-betas", "x"])
    with pytest.raises(UserError, match="--workers 0 does not fit"):
        options.get_preprocessing_parser().parse_args([*PREPROCESS, "--workers", "0"])


def test_numbers_fit_where_options_are_parsed_without_their_defaults():
    """As fairseq-validate parses them a second time."""
    given = ["data", "--path", "model.pt", "--task", "translation", "--max-tokens"]
    parsed = options.parse_args_and_arch(options.get_validation_parser(), [*given, "99"], suppress_defaults=True)
    assert parsed.max_tokens == 99
    with pytest.raises(UserError, match="--max-tokens 0 does not fit"):
        options.parse_args_and_arch(options.get_validation_parser(), [*given, "0"], suppress_defaults=True)


def test_fairseq_takes_any_number():
    parse = inspect.unwrap(options.parse_args_and_arch)
    assert parse(options.get_training_parser(), [*TRAINING, "--lr", "-1"]).lr == [-1]


def test_a_parser_errs_in_one_sentence(capsys):
    for wrong, words in [("--arch=mine", "--arch/-a: invalid choice: 'mine'; --help lists"), ("--learn", "--learn")]:
        with pytest.raises(UserError, match=words):
            options.parse_args_and_arch(options.get_training_parser(), [*TRAINING, wrong])
    assert capsys.readouterr().err == ""


def test_configurations_are_held_against_the_tables_of_flags():
    def check(group, **settings):
        check_configuration(OmegaConf.create({"common": {"seed": 1}, "bmuf": None, group: settings}))

    check("optimization", lr=[0.1], max_update=5, update_freq=[1])
    check("optimizer", _name="adam", adam_betas="(0.9, 0.98)", adam_eps=1e-8)
    check("task", _name="translation", data="???", eval_bleu=False)
    for group, settings, sentence in (
        ("optimization", {"lr": [-1.0]}, r"optimization.lr \[-1.0\] does not fit; give one or more numbers"),
        ("model", {"dropout": 1.5}, "model.dropout 1.5 does not fit; give a number from 0 to 1."),
        ("optimizer", {"adam_betas": "(0.9, 2)"}, "optimizer.adam_betas .* does not fit; give 2 numbers"),
        ("model", {"of_nobody": float("nan")}, "model.of_nobody nan does not fit"),
    ):
        with pytest.raises(UserError, match=sentence):
            check(group, **settings)
