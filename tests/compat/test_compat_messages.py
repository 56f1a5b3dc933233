import logging
import re
import sys

import pytest
import sacrebleu
import torch
from fairseq import scoring, trainer
from fairseq.data import Dictionary
from omegaconf import OmegaConf

from fairseq_plugins.compat import messages


def test_a_training_prints_no_warning(reverse_corpus, tiny_flags, user_dir, run, tmp_path):
    """fairseq-train logs to stdout. What comes to stderr is either for the user, and says what to do, or it goes into
    compat/messages.py."""
    done = run(
        "fairseq-train", reverse_corpus.bin, "--user-dir", user_dir, *tiny_flags, "--max-update", 2, "--eval-bleu",
        "--save-dir", tmp_path, env={"PYTHONPATH": str(user_dir.parent), "PYTHONWARNINGS": ""},
    )  # fmt: skip
    # what fairseq does before it reads --user-dir, torch warns of from 2.14 on
    stderr = re.sub(r".*FutureWarning: `torch.jit.script` is deprecated.*\n  warnings.warn\(\n", "", done.stderr)
    assert stderr == "" and "valid on 'valid' subset" in done.stdout


def test_missing_biases_are_not_shared_parameters(monkeypatch):
    layers = torch.nn.ModuleList(torch.nn.Linear(2, 2, bias=False) for _ in range(3))
    layers[2].weight = layers[0].weight
    assert trainer._catalog_shared_params(layers) == [["0.weight", "2.weight"]]
    monkeypatch.setattr(trainer, "_catalog_shared_params", trainer._catalog_shared_params.__wrapped__)
    assert trainer._catalog_shared_params(layers) == [["0.weight", "2.weight"], ["0.bias", "1.bias", "2.bias"]]


def test_tokenised_text_is_told_once(caplog, monkeypatch):
    assert logging.getLogger("sacrebleu").filters
    monkeypatch.setattr(logging.getLogger("sacrebleu"), "filters", [])
    messages.tokenised_bleu_is_told_once()
    lines = ["a house ."] * 100
    for _ in range(2):
        sacrebleu.corpus_bleu(lines, [lines])
    assert caplog.messages == [messages.TOLD]


@pytest.mark.parametrize("before", [(logging.BASIC_FORMAT, logging.DEBUG), ("%(message)s", logging.INFO)])
@pytest.mark.parametrize("command", ["eval_lm", "interactive", "generate", "none"])
def test_a_command_logs_the_time(command, before, monkeypatch):
    """If the log is the one that fairseq sets up for debugging. A program's own log stays as it is."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(before[0]))
    monkeypatch.setattr(logging.root, "handlers", [handler])
    monkeypatch.setattr(logging.root, "level", before[1])
    for name in [name for name in sys.modules if name.startswith("fairseq_cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, f"fairseq_cli.{command}", logging)
    messages.commands_log_the_time()
    changed = command != "none" and before[1] == logging.DEBUG
    assert handler.formatter._fmt == (messages.FORMAT if changed else before[0])
    assert logging.root.level == logging.INFO or not changed and logging.root.level == before[1]


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_the_command_stands_for_its_configuration_which_the_log_file_keeps(level, caplog, monkeypatch, tmp_path):
    monkeypatch.setattr(logging.root, "level", level)
    monkeypatch.setattr(logging.root.manager, "disable", 0)  # tests of tools set it
    monkeypatch.setattr(sys, "argv", ["bin/fairseq-train", "data", "--lr", "[1, 2]"])
    log, whole = logging.getLogger("fairseq_cli.train"), logging.FileHandler(tmp_path / "log")
    log.addHandler(whole)
    log.info(OmegaConf.create({"common": {"seed": 1}}))
    log.removeHandler(whole)
    assert (tmp_path / "log").read_text().startswith("{'common': {'seed': 1}}\n")
    said = caplog.messages[-1]
    assert said.startswith("fairseq-train data --lr '[1, 2]' (LOGLEVEL" if level == logging.INFO else "{'common'")


def test_only_bleu_is_said_to_be_of_symbols(caplog):
    log = logging.getLogger("fairseq_cli.generate")
    words = "If you are using BPE on the target side, the BLEU score is computed on BPE tokens, not on proper words."
    scoring.build_scorer("bleu", Dictionary())
    log.warning(words)
    try:
        scoring.build_scorer("chrf", None)
        log.warning(words)
        log.warning("another")
    finally:
        log.removeFilter(messages.is_not_about_bleu)
    assert caplog.messages == [words, "another"]
