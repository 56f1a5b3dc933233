"""Active memory through the real commands: a language model of single lines, and a translation."""

import math
import random
import re
import sys
from pathlib import Path

import pytest

LETTERS = "abcdef"
ANY_LENGTH = ["--model-overrides", "{'max_target_positions': None}"]


@pytest.fixture(scope="module")
def corpus(binarise_lines, tmp_path_factory) -> Path:
    """Lines of 2 to 12 letters in the order of the alphabet, over and over, from any of them on."""
    folder = tmp_path_factory.mktemp("lines")
    draw = random.Random(1)
    for split, number in {"train": 400, "valid": 20, "test": 21}.items():
        starts = [(draw.randrange(6), draw.randint(2, 12)) for _ in range(number)]
        lines = (" ".join((LETTERS * 3)[start : start + length]) for start, length in starts)
        (folder / split).write_text("".join(line + "\n" for line in lines))
    return binarise_lines(folder)


@pytest.fixture(scope="module")
def lines(corpus, user_dir) -> list:
    """What commands need to know of the data."""
    return [corpus, "--user-dir", user_dir, "--task", "language_modeling", "--sample-break-mode", "eos"]


@pytest.fixture(scope="module")
def trained(run, lines, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    run(
        "fairseq-train", *lines, "--arch", "active_memory_lm_tiny", "--mixer", "self-attention+persistent-convolution",
        "--criterion", "cross_entropy", "--max-target-positions", 11, "--skip-invalid-size-inputs-valid-test",
        "--optimizer", "adam", "--lr", 0.003, "--batch-size", 16, "--max-update", 60, "--save-dir", folder,
        "--cpu", "--num-workers", 0, "--no-epoch-checkpoints", "--no-progress-bar",
    )  # fmt: skip
    return folder / "checkpoint_last.pt"


def tool(run, name, *options):
    return run(sys.executable, "-m", f"fairseq_plugins.tools.{name}", *options).stdout


def test_every_line_is_scored_although_longer_ones_were_left_out_of_training(run, lines, corpus, trained):
    said = tool(run, "score_lines", corpus, "--path", trained, "--longest", 11, "--batch", 8, "--cpu")
    number, tokens, nats = re.search(r"every line: (\d+) lines, (\d+) tokens, ([\d.]+) nats", said).groups()
    written = (corpus.parent / "test").read_text()
    assert (int(number), int(tokens)) == (21, len(written.split()) + 21)
    padded, left_out = re.search(r"([\d.]+) nats per position, padding included; (\d+) longer", said).groups()
    assert int(left_out) == sum(len(line.split()) + 1 > 11 for line in written.splitlines()) > 0
    assert float(padded) < float(nats) < 1.3  # from log 7, untrained

    done = run("fairseq-eval-lm", *lines, "--path", trained, "--cpu", *ANY_LENGTH)
    loss = float(re.search(r"Loss \(base 2\): ([\d.]+)", done.stdout + done.stderr)[1])
    assert loss * math.log(2) == pytest.approx(float(nats), abs=1e-3)


def test_it_continues_prompts_with_all_commands(run, lines, corpus, trained):
    options = ["--path", trained, "--cpu", "--beam", 3, "--max-len-b", 8, *ANY_LENGTH]
    done = run("fairseq-interactive", *lines, *options, input="b c d\n")
    assert re.search(r"^H-0\t\S+\tb c d e f", done.stdout, re.MULTILINE)
    done = run("fairseq-generate", *lines, *options, "--prefix-size", 2, "--batch-size", 4)
    assert len(re.findall(r"^H-\d+\t", done.stdout, re.MULTILINE)) == 21
    written = tool(run, "sample", "--path", trained, "--prompt", "bcd", "--length", 7, "--samples", 2, "--cpu")
    first, second = re.findall(r"^bcd[a-f]{0,7}$", written, re.MULTILINE)


def test_a_translation_is_learned_and_searched_for(run, user_dir, reverse_corpus, tmp_path):
    run(
        "fairseq-train", reverse_corpus.bin, "--user-dir", user_dir, "--arch", "active_memory_transformer_tiny",
        "--mixer", "highway-convolution", "--criterion", "label_smoothed_cross_entropy", "--optimizer", "adam",
        "--lr", 0.003, "--max-tokens", 600, "--max-update", 40, "--save-dir", tmp_path, "--cpu", "--num-workers", 0,
        "--no-epoch-checkpoints", "--no-progress-bar", "--disable-validation",
    )  # fmt: skip
    done = run(
        "fairseq-generate", reverse_corpus.bin, "--user-dir", user_dir, "--path", tmp_path / "checkpoint_last.pt",
        "--beam", 4, "--cpu",
    )  # fmt: skip
    assert len(re.findall(r"^H-\d+\t", done.stdout, re.MULTILINE)) == 60
