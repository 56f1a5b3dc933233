import logging
import math

import pytest
import torch

from fairseq_plugins.streams import evaluation as stream_figures
from fairseq_plugins.streams.evaluation import Evaluation, Figures

PAD, EOS = 1, 2


def test_padding_does_not_count_and_end_of_line_counts_once(caplog):
    figures = Figures(PAD, EOS)
    figures.add(torch.tensor([[-1.0, -2.0, -9.0]]), torch.tensor([[5, EOS, PAD]]))
    figures.add(torch.tensor([-3.0]), torch.tensor([6]))
    assert (figures.all.tokens, figures.all.nats) == (3, 6.0)
    assert (figures.within_lines.tokens, figures.within_lines.nats) == (2, 4.0)
    with caplog.at_level(logging.INFO):
        figures.log()
    bits = f"{2 / math.log(2):.6f} bits"
    assert f"with end-of-line: 3 tokens, 6.0000 nats, 2.000000 nats per token, {bits}" in caplog.text
    assert "without end-of-line: 2 tokens, 4.0000 nats, 2.000000 nats per token" in caplog.text
    assert f"perplexity {math.exp(2):.4f}" in caplog.text


def test_sums_are_exact_where_float32_would_round():
    figures = Figures(PAD, EOS)
    for _ in range(1000):
        figures.add(torch.full((1000,), -10.1), torch.full((1000,), 5))
    assert figures.all.nats == pytest.approx(1e6 * float(torch.tensor(10.1)), rel=1e-12)


def test_figures_are_logged_after_the_last_block_was_scored(caplog):
    figures = Figures(PAD, EOS)
    evaluation = Evaluation([{"target": torch.tensor([5])}] * 2, lambda sample: {**sample, "memory": 1}, figures)
    assert len(evaluation) == 2
    with caplog.at_level(logging.INFO):
        for sample in evaluation:
            assert sample["memory"] == 1 and not caplog.text
            sample["figures"].add(torch.tensor([-1.0]), sample["target"])
    assert "with end-of-line: 2 tokens, 2.0000 nats" in caplog.text


def test_a_long_evaluation_tells_how_far_it_is(caplog, monkeypatch):
    monkeypatch.setattr(stream_figures, "LOG_EVERY", -1)
    figures = Figures(PAD, EOS)
    with caplog.at_level(logging.INFO):
        for sample in Evaluation([{"target": torch.tensor([5])}] * 3, lambda sample: sample, figures):
            sample["figures"].add(torch.tensor([-2.0 * math.log(2)]), sample["target"])
    assert "2 of 3 blocks, so far 2.0000 bits per token" in caplog.text


@pytest.mark.parametrize("unk, words", [(3, ""), (6, "; 50 % of the tokens are <unk>, so this figure is too low")])
def test_bits_per_byte_of_the_raw_text(unk, words, caplog):
    figures = Figures(PAD, EOS, unk=unk, raw_bytes=8)
    figures.add(torch.full((2,), -math.log(2)), torch.tensor([6, EOS]))
    with caplog.at_level(logging.INFO):
        figures.log()
    assert f"0.250000 bits per byte of the raw text, 8 bytes{words}" in caplog.text
    assert ("<unk>" in caplog.text) == bool(words)
