import logging

import sacrebleu
import torch
from fairseq import trainer

from fairseq_plugins.compat import messages


def test_a_training_prints_no_warning(reverse_corpus, tiny_flags, user_dir, run, tmp_path):
    """fairseq-train logs to stdout. What comes to stderr is either for the user, and says what to do, or it goes into
    compat/messages.py."""
    done = run(
        "fairseq-train", reverse_corpus.bin, "--user-dir", user_dir, *tiny_flags, "--max-update", 2, "--eval-bleu",
        "--save-dir", tmp_path, env={"PYTHONPATH": str(user_dir.parent), "PYTHONWARNINGS": ""},
    )  # fmt: skip
    assert done.stderr == "" and "valid on 'valid' subset" in done.stdout


def test_missing_biases_are_not_shared_parameters(monkeypatch):
    layers = torch.nn.ModuleList(torch.nn.Linear(2, 2, bias=False) for _ in range(3))
    layers[2].weight = layers[0].weight
    assert trainer._catalog_shared_params(layers) == [["0.weight", "2.weight"]]
    monkeypatch.setattr(trainer, "_catalog_shared_params", trainer._catalog_shared_params.__wrapped__)
    assert trainer._catalog_shared_params(layers) == [["0.weight", "2.weight"], ["0.bias", "1.bias", "2.bias"]]


def test_tokenised_text_is_told_once(caplog):
    (told_once,) = (each for each in logging.getLogger("sacrebleu").filters if isinstance(each, messages.ToldOnce))
    told_once.told = False
    lines = ["a house ."] * 100
    for _ in range(2):
        sacrebleu.corpus_bleu(lines, [lines])
    assert caplog.messages == [messages.ToldOnce.WORDS]


def test_only_a_warning_that_names_a_flag_without_effect_is_silent(caplog):
    logger = logging.getLogger("fairseq_cli.generate")
    logger.warning("If you are using BPE ... Use --sacrebleu for standard 13a BLEU tokenization")
    logger.warning("another")
    assert caplog.messages == ["another"]
