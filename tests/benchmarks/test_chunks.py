"""benchmarks/chunks.py: a cell is trained once, and a stopped one continues."""

import chunks
import pytest

from fairseq_plugins.tools import results_table


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
