"""The patches of compat/command_line.py."""

import argparse

import pytest
from fairseq import checkpoint_utils, options
from fakes import fairseqs
from omegaconf import OmegaConf

from fairseq_plugins.compat.command_line import check_configuration, check_options
from fairseq_plugins.errors import UserError
from fairseq_plugins.options import combinations

TRAINING = "data --arch transformer_tiny --optimizer adam".split()


def parse(flags, parse=options.parse_args_and_arch):
    return parse(options.get_training_parser(), [*TRAINING, *flags.split()])


def fairseq_parses(flags):
    return parse(flags, parse=fairseqs(options.parse_args_and_arch))


@pytest.mark.parametrize("flags, tpu", [("--bf16", False), ("--bf16 --tpu", True), ("", False)])
def test_bf16_is_not_tpu(flags, tpu, monkeypatch):
    monkeypatch.setattr(combinations, "installed", lambda name: True)  # torch_xla
    assert parse(flags).tpu == tpu and fairseq_parses(flags).tpu == bool(flags)


def test_help_shows_the_flags_of_an_architecture(capsys):
    for parses, shown in ((parse, True), (fairseq_parses, False)):
        with pytest.raises(SystemExit):
            parses("--help --task streaming_language_modeling --arch feedback_lm")
        assert ("--feedback-memory" in capsys.readouterr().out) == shown


def test_without_an_architecture_there_is_help_or_a_sentence(capsys):
    def parse(*flags):
        return options.parse_args_and_arch(options.get_training_parser(), ["data", *flags])

    with pytest.raises(SystemExit, match="^0$"):
        parse("--help")
    shown = capsys.readouterr()
    assert "--arch" in shown.out and "--help with --arch NAME" in shown.err
    with pytest.raises(UserError, match="--arch is missing: name a model, such as --arch feedback_lm_tiny"):
        parse()


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


@pytest.mark.parametrize(
    "flags, words",
    [
        ("--lr -1", "--lr -1 does not fit; give one or more numbers of at least 0"),
        ("--encoder-layers -1", "--encoder-layers -1 does not fit"),  # of the architecture
        ("--adam-betas x", "--adam-betas x does not fit; give 2 numbers"),  # of the optimizer
        ("--learn", "--learn"),
        ("--arch feedback_ml", "--arch/-a: invalid choice: 'feedback_ml'; the nearest are feedback_lm, "),
        ("--arch x", "--arch/-a: invalid choice: 'x'; --help lists the choices"),
    ],
)
def test_a_parser_errs_in_one_sentence(flags, words, capsys):
    with pytest.raises(UserError, match=words):
        parse(flags)
    assert capsys.readouterr().err == ""
    assert flags != "--lr -1" or fairseq_parses(flags).lr == [-1]


def test_numbers_fit_in_other_parsers():
    """Also where options are parsed without their defaults, as fairseq-validate parses them a second time."""
    with pytest.raises(UserError, match="--workers 0 does not fit"):
        options.get_preprocessing_parser().parse_args("--only-source --trainpref a --destdir b --workers 0".split())
    given = ["data", "--path", "model.pt", "--task", "translation", "--max-tokens"]
    parsed = options.parse_args_and_arch(options.get_validation_parser(), [*given, "99"], suppress_defaults=True)
    assert parsed.max_tokens == 99
    with pytest.raises(UserError, match="--max-tokens 0 does not fit"):
        options.parse_args_and_arch(options.get_validation_parser(), [*given, "0"], suppress_defaults=True)


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
