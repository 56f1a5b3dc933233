"""Logs and tables that are damaged, by hand or by chance: whole lines are read, others are left out or named."""

import io
import os
import random
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import plot, position_accuracy, results_table
from fairseq_plugins.tools.lib import own_results, reward_pictures, row_pictures, training_log
from fairseq_plugins.tools.lib.generation_log import read_generation, read_references
from fairseq_plugins.tools.lib.log_lines import read_line

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes/lib"))
import progress  # noqa: E402

SIMPLE = (
    "epoch 001:     10 / 253 loss=4.1, bpc=5.9, reward=0.5, wpb=64, span_0_0=8.5, span_0_1=3, span_1_0=9, memory_0=0.4,"
    " memory_1=0.6, wps=n/a, num_updates=10",
    "epoch 001 | loss 4.0 | bpc 5.8 | reward 0.7 | wpb 64 | num_updates 253",
    "2026-11-28 10:00 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 3.9 | reward 1.5 | num_updates 253",
)
JSON = (
    '{"epoch": 1, "update": 0.04, "loss": "4.1", "bpc": "5.9", "reward": "0.5", "wpb": "64", "span_0_0": "8.5",'
    ' "memory_0": "0.4", "memory_1": "0.6", "num_updates": "10"}',
    '{"epoch": 2, "valid_loss": "3.9", "valid_reward": "1.5", "valid_num_updates": "253"}',
)
ROWS = ('{"cell": "a-1", "BLEU": 28.1, "paper": 28.3, "command": "x"}', '{"cell": "a-2", "BLEU": 27.0, "paper": 26}')
LABELS = '{"span": 2, "by_position": [50.0, null, 60.5], "labels_by_position": [3, 0, 3]}'
GENERATED = "S-0\ta b\nT-0\tb a\nH-0\t-0.5\tb a\nD-0\t-0.5\tb a\nS-1\ta\nT-1\ta\nH-1\t-0.5\ta\nGenerate test\n"
PARTS = (
    "", " ", "\n", "\r", "\x00", "\x1c", "\u2028", "\ufeff", "\ud800", "=", "_", "|", "-", "-1", "0", "/ 0", "nan",
    "inf", "1e400",
    "1e308", "-1e308", "9" * 5000, "1" + "0" * 400, "null", "true", "{}", "[" * 20_000, '{"a":' * 20_000,
    "span_7_0=3, ", "span_0_99999999=3, ", "memory_5=1, ", '"', "'", "\\", "\\ud800", "epoch 001: ", ": ", ", ",
)  # fmt: skip


def broken(text: str, draw: random.Random) -> str:
    """The text with one to three parts taken out, put in or exchanged."""
    for _ in range(draw.randint(1, 3)):
        start = draw.randrange(len(text))
        end = start + draw.choice((0, 1, draw.randrange(30)))
        text = text[:start] + draw.choice((*PARTS, text[start:end] * 2, str(draw.randrange(10**6)))) + text[end:]
        text = text or " "
    return text


def write(file: Path, text: str) -> Path:
    file.write_bytes(text.encode(errors="surrogatepass"))
    return file


def tried(use) -> bool:
    """Does it work? Else a sentence says why not."""
    try:
        use()
    except UserError as error:
        assert len(str(error)) < 20_000
        return False
    return True


@pytest.mark.parametrize("lines", [SIMPLE, JSON])
def test_a_broken_line_of_a_log_is_left_out(lines):
    draw, read = random.Random(1), 0
    for _ in range(1500):
        line = broken(draw.choice(lines), draw)
        read += bool(read_line(line))
        progress.Training("run", ["--max-update", "10"]).read(line)
        progress.Bars("run").read(line)
    assert 300 < read < 1500


@pytest.mark.parametrize("lines", [SIMPLE, JSON])
def test_a_broken_log_is_drawn_or_refused(lines, tmp_path):
    draw, drawn, log = random.Random(2), 0, tmp_path / "train.log"
    for number in range(3):
        write(log, broken("\n".join(lines) + "\n", draw))
        figure = draw.choice((
            lambda: plot.draw_curves(Namespace(runs=[f"a={log}"], metric="loss")),
            lambda: plot.draw_spans(Namespace(run=log)),
            lambda: plot.draw_memory(Namespace(run=log)),
            lambda: reward_pictures.draw_curves(Namespace(runs=[f"a={log}"], line=[])),
            lambda: reward_pictures.draw_sizes(Namespace(runs=[f"a=8:{log}"], line=[], size="size")),
        ))  # fmt: skip
        drawn += tried(lambda figure=figure: figure().savefig(io.BytesIO(), format="png", dpi=30))
    tried(lambda: [own_results.section(found, "### a") for found in own_results.find_all([tmp_path])])
    assert drawn > 0


def test_broken_tables_are_read_or_refused(tmp_path):
    draw, read, table = random.Random(3), 0, tmp_path / "results.jsonl"

    def show():
        rows = row_pictures.read(table)
        results_table.markdown(rows)
        results_table.means(rows)
        own_results.find(table)

    for _ in range(400):
        write(table, broken("\n".join(ROWS) + "\n", draw))
        read += tried(show)
    assert 0 < read < 400


def test_other_broken_files_are_read_or_refused(tmp_path):
    draw, file, read = random.Random(4), tmp_path / "file", 0
    uses = (
        (LABELS, lambda: position_accuracy.draw(position_accuracy.by_name([f"a={file}"]))),
        ('{"reward": 3.5, "episodes": 4}', lambda: reward_pictures.mean_reward(file)),
        (GENERATED, lambda: read_generation(file)),
        ("b a\na\n", lambda: read_references(file, 2)),
    )
    for _ in range(60):
        for text, use in uses:
            write(file, broken(text, draw))
            read += tried(use)
    assert 0 < read < 240


def test_a_carriage_return_ends_no_line(tmp_path):
    (tmp_path / "references").write_bytes("\ufeffa\rb\r\nc\r\n".encode())
    assert read_references(tmp_path / "references", 2) == ["a\rb", "c"]


READERS = {
    "results.jsonl": lambda file: results_table.read_rows(file),
    "report": lambda file: own_results.find(file),
    "train.log": lambda file: training_log.read(file),
    "labels": lambda file: position_accuracy.read(file),
    "reward": lambda file: reward_pictures.mean_reward(file),
    "generated": lambda file: read_generation(file),
    "references": lambda file: read_references(file, 1),
}


@pytest.mark.parametrize("name", READERS)
def test_nobody_waits_for_a_pipe(name, tmp_path):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match=f"{name}.* (is a pipe or a device; name a file|does not exist|is neither)"):
        READERS[name](tmp_path / name)


def test_layers_are_drawn_by_their_numbers(tmp_path):
    log = write(tmp_path / "train.log", "epoch 001: 1 / 2 span_4_0=3, span_6_0=5, num_updates=1\n")
    end = plot.draw_spans(Namespace(run=log)).axes[0]
    assert [[*points] for points in (part.get_offsets()[0] for part in end.collections)] == [[5, 3], [7, 5]]
