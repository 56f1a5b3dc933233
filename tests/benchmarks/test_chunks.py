"""benchmarks/chunks.py: training in chunks is exact with c = 1 or K = c, and a cell is trained once."""

from functools import partial

import chunks
import pytest
import torch
from chunk_engine import ChunkEngine
from chunked_recurrence import ChunkedRecurrence
from plain_recurrence import PlainRecurrence

from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.feedback.window import MemoryWindow
from fairseq_plugins.tools import results_table

T, B, C, SPAN = 10, 2, 12, 5


def body(kv="shared", memory="weighted", pre_norm=True):
    torch.manual_seed(0)
    config = FeedbackLayerConfig(embed_dim=C, ffn_dim=20, heads=3, attention_bias=False, pre_norm=pre_norm)
    stream = FeedbackStream(config, 3, MemoryWindow(SPAN, 3, 3, 4), memory, kv).double()
    for parameter in stream.parameters():  # away from the symmetries of the initial values
        torch.nn.init.normal_(parameter, std=0.5)
    return stream


def results(stream, engine):
    """Outputs of two blocks, the memory after them, and all gradients."""
    stream.stack.engine = engine
    stream.zero_grad()
    x = torch.randn(B, 2 * T, C, generator=torch.Generator().manual_seed(1), dtype=torch.double, requires_grad=True)
    first, memory = stream(x[:, :T])
    then, memory = stream(x[:, T:], memory)
    y = torch.cat([first, then], dim=1)
    (y * torch.linspace(-1, 1, y.numel(), dtype=torch.double).view_as(y)).sum().backward()
    gradients = [parameter.grad for parameter in stream.parameters() if parameter.grad is not None]
    return [y.detach(), *memory.vectors, x.grad, *gradients]


def difference(stream, one, other):
    """The largest one of two engines, of results of size 1 or more."""
    pairs = zip(results(stream, one), results(stream, other), strict=True)
    return max(((a - b).abs().max() / a.abs().max().clamp(min=1)).item() for a, b in pairs)


def error(stream, **chunks):
    return difference(stream, PlainRecurrence, partial(ChunkedRecurrence, **chunks))


@pytest.mark.parametrize("options", [{}, {"kv": "per-layer"}, {"memory": "recurrent"}, {"pre_norm": False}])
def test_chunks_of_one_token_and_as_many_passes_as_tokens_are_exact(options):
    stream = body(**options)
    assert error(stream, chunk=1, passes=1) < 1e-12
    assert error(stream, chunk=4, passes=4) < 1e-12  # 10 tokens: chunks of 4, 4 and 2
    assert error(stream, chunk=4, passes=3) > 1e-3


@pytest.mark.parametrize("through", [True, False])
@pytest.mark.parametrize("chunk, passes", [(1, 1), (4, 2), (3, 1), (7, 3)])
@pytest.mark.parametrize("options", [{}, {"kv": "per-layer"}, {"memory": "recurrent"}, {"pre_norm": False}])
def test_the_engine_is_the_plain_code(options, chunk, passes, through):
    settings = {"chunk": chunk, "passes": passes, "through": through}
    assert difference(body(**options), partial(ChunkedRecurrence, **settings), partial(ChunkEngine, **settings)) < 1e-12


def test_gradients_of_the_last_pass_alone_leave_the_outputs_as_they_are():
    stream = body()
    whole, last = (
        results(stream, partial(ChunkedRecurrence, chunk=4, passes=4, through=through)) for through in (True, False)
    )
    assert torch.equal(whole[0], last[0])
    assert (whole[2] - last[2]).abs().max() > 1e-3


def test_the_projected_speed_is_relative_to_exact_training():
    assert chunks.projected_speed(1, 1) == chunks.projected_speed(8, 2, exact_end=100) == 1
    twice, last, half = (
        chunks.projected_speed(8, 2, **more) for more in ({}, {"gradients": "last"}, {"exact_end": 50})
    )
    assert last > twice > half > 1


def test_a_cell_is_trained_once_and_a_stopped_one_continues(tmp_path, monkeypatch, capsys):
    for split, lines in {"train": 300, "valid": 80}.items():
        (tmp_path / f"ptb.char.{split}.txt").write_text(" a b c _ b a \n" * lines)
    monkeypatch.setattr(chunks, "SAVE_EVERY", 2)

    def cell(name):
        files = ["--raw", tmp_path, "--rows", tmp_path / f"{name}.jsonl", "--out", tmp_path / name]
        chunks.main([*map(str, files), *"--layers 2 --width 16 --chunk 4 --updates 4 --exact-end 50".split()])
        return results_table.read_rows(tmp_path / f"{name}.jsonl")["2x16-4-c4-k1-all-end50-seed1"]

    row = cell("whole")
    assert row["command"] == (
        "python benchmarks/chunks.py --raw DIR --chunk 4 --exact-end 50 --layers 2 --width 16 --updates 4 --seed 1"
    )
    assert cell("whole") == row and "has its row" in capsys.readouterr().err

    step = chunks.Cell.step

    def stop(cell, *arguments):
        if cell.update == 3:
            raise KeyboardInterrupt
        step(cell, *arguments)

    with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
        context.setattr(chunks.Cell, "step", stop)
        cell("stopped")
    assert cell("stopped")["dev bpc"] == row["dev bpc"]
