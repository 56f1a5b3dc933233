"""Log-probabilities of raw text: of a stream, whatever the lines and blocks, and of single lines."""

import gzip
import io
import json
import math
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq.modules import LearnedPositionalEmbedding

from fairseq_plugins.errors import UserError
from fairseq_plugins.streams.evaluation import Sum
from fairseq_plugins.text import reading
from fairseq_plugins.text.levels import Bytes, Characters
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Plain
from fairseq_plugins.tools import score_text
from fairseq_plugins.tools.lib import scoring
from fairseq_plugins.tools.lib.language_model import load_language_model
from fairseq_plugins.tools.lib.scoring import Scorer, TextFigures, check_length

CHECKPOINTS = Path(__file__).parents[1] / "models/checkpoints"
LINES = ["abc", "", "a", "hgfedcba", "bad cafe", "\t?", "b"]  # the space, the tab and ? are unknown
TEXT = "\n".join(LINES)


@pytest.fixture(scope="module")
def stream():
    return load_language_model(CHECKPOINTS / "feedback_lm_tiny.pt", CHECKPOINTS)


@pytest.fixture(scope="module")
def single_lines():
    return load_language_model(CHECKPOINTS / "active_memory_lm_tiny.pt", CHECKPOINTS)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "text").write_text(TEXT)
    return tmp_path / "text"


@torch.no_grad()
def by_hand(loaded, tokens: list[int]) -> torch.Tensor:
    """Log-probabilities in one forward pass."""
    model, _, task, _ = loaded
    output = model(torch.tensor([[task.dictionary.eos(), *tokens[:-1]]]))
    return model.get_normalized_probs(output, log_probs=True)[0, torch.arange(len(tokens)), tokens]


def indices(loaded, text: str) -> list[int]:
    _, _, task, _ = loaded
    return [task.dictionary.eos() if sign == "\n" else task.dictionary.index(sign) for sign in text]


@pytest.mark.parametrize("block", [1, 4, 512])
def test_a_stream_goes_on_from_line_to_line(block, stream, file):
    figures = TextFigures()
    scored = list(Scorer(*stream, block).score(file, figures))
    assert [line for line, _ in scored] == LINES
    lengths = [len(line) + 1 for line in LINES[:-1]] + [1]  # the last line has no newline
    expected = by_hand(stream, indices(stream, TEXT)).split(lengths)
    assert [score for _, score in scored] == pytest.approx([part.sum().item() for part in expected], abs=1e-4)
    assert (figures.lines, figures.all.tokens, figures.bytes, figures.unknown) == (7, len(TEXT), len(TEXT), 3)
    assert figures.bits_per_byte == pytest.approx(-sum(score for _, score in scored) / math.log(2) / len(TEXT))
    assert f"{100 * 3 / len(TEXT):.3g} % of the tokens are <unk>, so this figure is too low" in str(figures)


@torch.no_grad()
def test_a_first_token_that_is_no_target_is_only_read(stream, file):
    model, _, task, text = stream
    read_only = SimpleNamespace(task=SimpleNamespace(no_first_target=True))
    figures = TextFigures()
    scores = [score for _, score in Scorer(model, read_only, task, text, 4).score(file, figures)]
    first, *others = indices(stream, TEXT)
    output = model(torch.tensor([[first, *others[:-1]]]))
    expected = model.get_normalized_probs(output, log_probs=True)[0, torch.arange(len(others)), others]
    assert figures.all.tokens == len(TEXT) - 1 and sum(scores) == pytest.approx(expected.sum().item(), abs=1e-4)


def test_a_long_line_is_scored_in_pieces(stream, file, monkeypatch):
    whole = dict(Scorer(*stream, 8).score(file, TextFigures()))
    monkeypatch.setattr(reading, "LONGEST", 3)
    figures = TextFigures()
    pieces = list(Scorer(*stream, 8).score(file, figures))
    assert "".join(piece for piece, _ in pieces) == TEXT.replace("\n", "")
    assert sum(score for _, score in pieces) == pytest.approx(sum(whole.values()))
    assert figures.bytes == len(TEXT)


def test_each_single_line_starts_anew(single_lines, file):
    figures = TextFigures()
    scored = dict(Scorer(*single_lines, 512).score(file, figures))
    for line in LINES:
        expected = by_hand(single_lines, indices(single_lines, f"{line}\n")).sum().item()
        assert scored[line] == pytest.approx(expected, abs=1e-4)
    assert figures.all.tokens == len(TEXT) + 1


def test_a_line_beyond_the_learned_positions_is_named():
    positions = SimpleNamespace(embed_positions=LearnedPositionalEmbedding(10, 4, padding_idx=1))
    check_length(SimpleNamespace(decoder=positions), 8)
    with pytest.raises(UserError, match="a line has 9 tokens with its end, but the model has learned 8 positions"):
        check_length(SimpleNamespace(decoder=positions), 9)


def test_without_newlines_as_tokens_there_is_no_code_of_the_text(stream, file):
    scorer = Scorer(*stream, 512)
    scorer.newlines = False
    figures = TextFigures()
    assert len(list(scorer.score(file, figures))) == len(LINES)
    assert figures.all.tokens == len("".join(LINES))


def test_the_prepared_text_beside_the_checkpoint_is_taken(tmp_path):
    checkpoint = tmp_path / "checkpoint_best.pt"
    checkpoint.symlink_to(CHECKPOINTS / "feedback_lm_tiny.pt")
    (tmp_path / "dict.txt").symlink_to(CHECKPOINTS / "dict.txt")
    assert load_language_model(checkpoint, None)[3].level == Characters(space="_")
    PreparedText(Plain(lower=True), Plain(), Characters()).save(tmp_path)
    assert load_language_model(checkpoint, None)[3].encode("A b") == "a \u2581 b"


def score(monkeypatch, capfdbinary, *words) -> tuple[str, str]:
    words = [CHECKPOINTS / "feedback_lm_tiny.pt", "--data", CHECKPOINTS, "--cpu", *words]
    monkeypatch.setattr(sys, "argv", ["score_text", *map(str, words)])
    score_text.main()
    said = capfdbinary.readouterr()
    return said.out.decode(errors="surrogateescape"), said.err.decode()


def test_lines_on_standard_output_and_figures_on_standard_error(file, tmp_path, monkeypatch, capfdbinary):
    (tmp_path / "more.gz").write_bytes(gzip.compress(b"ab\n"))
    out, err = score(monkeypatch, capfdbinary, file, tmp_path / "more.gz")
    lines = [line.split("\t", 1) for line in out.splitlines()]
    assert [text for _, text in lines] == [*LINES, "ab"]
    assert all(float(value) < 0 for value, _ in lines)
    assert f"text: 7 lines, {len(TEXT)} tokens" in err and "more.gz: 1 lines, 3 tokens" in err
    objects, _ = score(monkeypatch, capfdbinary, tmp_path / "more.gz", "--json-lines")
    line, figures = map(json.loads, objects.splitlines())
    assert (line["text"], line["line"], figures["bytes"], figures["unknown"]) == ("ab", 1, 3, 0)
    assert figures["nats"] == pytest.approx(-line["log_prob"])
    totals, _ = score(monkeypatch, capfdbinary, tmp_path / "more.gz", "--totals")
    assert f"{figures['bits_per_byte']:.6f} bits per byte of the raw text, 3 bytes" in totals


def test_a_block_is_as_long_as_in_training(stream, file, monkeypatch, capfdbinary):
    blocks, real = [], scoring.score_stream
    monkeypatch.setattr(scoring, "score_stream", lambda *given: blocks.append(given[-1]) or real(*given))
    for options in ([], ["--tokens-per-sample", 3]):
        score(monkeypatch, capfdbinary, file, *options)
    assert blocks == [stream[1].task.tokens_per_sample, 3]


def test_a_translation_is_refused_before_its_data_are_read(trained, tmp_path):
    checkpoint = shutil.copy(trained.checkpoint, tmp_path / "mt.pt")
    with pytest.raises(UserError, match="mt.pt was trained with --task translation: give a language model"):
        load_language_model(Path(checkpoint), tmp_path)


def test_standard_input_and_bytes_that_are_no_text(monkeypatch, capfdbinary):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\xff\n")))
    monkeypatch.setattr("fairseq_plugins.tools.lib.language_model.level_of", lambda dictionary: Bytes())
    out, err = score(monkeypatch, capfdbinary, "-")
    assert out.encode(errors="surrogateescape").endswith(b"\ta\xff\n") and "-: 1 lines, 3 tokens" in err


def test_json_is_utf_8_even_if_the_text_is_not(tmp_path, monkeypatch, capfdbinary):
    monkeypatch.setattr("fairseq_plugins.tools.lib.language_model.level_of", lambda dictionary: Bytes())
    path = Path(os.fsdecode(bytes(tmp_path / "name") + b"\xff"))
    path.write_bytes("a\xe9".encode() + b"\xff\xe2\n")
    out, _ = score(monkeypatch, capfdbinary, path, "--json-lines")
    line, figures = map(json.loads, out.encode("utf-8").splitlines())  # no byte is left that is no text
    assert line["text"] == "a\xe9\ufffd\ufffd" and line["file"] == figures["file"] == f"{tmp_path}/name\ufffd"
    assert figures["bytes"] == 6


@pytest.mark.parametrize("content, sentence", [(b"", "text is empty"), (b"\xff", "text is not UTF-8 in line 1")])
def test_what_is_wrong_is_named(content, sentence, tmp_path, monkeypatch, capfdbinary):
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        score(monkeypatch, capfdbinary, tmp_path / "text")


def test_figures_are_a_sentence():
    assert str(TextFigures(lines=2, bytes=3, all=Sum(3, 3 * math.log(2)))) == (
        "2 lines, 3 tokens, 1.000000 bits per byte of the raw text, 3 bytes"
    )
