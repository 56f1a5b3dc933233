"""Pictures of a recipe's rows: lines over a number, bars over names, the paper's numbers beside ours."""

from argparse import Namespace

import pytest

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import plot
from fairseq_plugins.tools.lib import row_pictures
from fairseq_plugins.tools.lib.pictures import read_description
from fairseq_plugins.tools.results_table import write_rows

pytest.importorskip("matplotlib")

DEPTHS = {
    "feedback-1": {"BLEU": 28.1, "paper": 28.3, "words/s": 4000.0},
    "transformer-1": {"BLEU": 27.0, "paper": 27.3, "words/s": 3000.0},
    "feedback-12": {"BLEU": 29.6, "paper": "figure", "words/s": 1000.0},
    "feedback-6": {"BLEU": 29.4, "paper": 29.5, "words/s": 2000.0},
    "transformer-6": {"BLEU": float("nan"), "paper": 29.3, "words/s": 1500.0},
}
MEMORIES = {
    "feedback-layer-1": {"dev bpc": 1.25, "paper": "figure"},
    "transformer": {"dev bpc": 1.27, "paper": 1.3},
    "_feedback $x$": {"dev bpc": 1.19, "paper": "figure"},
}


@pytest.fixture
def draw(tmp_path, main):
    """draw(rows, options...): the description of the picture, which says what is in it."""

    def draw(rows, *options):
        write_rows(tmp_path / "results.jsonl", rows)
        out = tmp_path / "picture.png"
        main(plot, "rows", tmp_path, *options, "--out", out)
        return read_description(out)

    return draw


def test_lines_over_the_number_in_the_names(draw):
    assert draw(DEPTHS, "--metric", "BLEU=paper", "words/s", "--over", "decoder layers") == (
        "BLEU over decoder layers. feedback from 28.1 to 29.6; feedback, the paper's from 28.3 to 29.5; "
        "transformer from 27 to 27; transformer, the paper's from 27.3 to 27.3. "
        "words/s over decoder layers. feedback from 4000 to 1000; transformer from 3000 to 1500."
    )


def test_a_model_has_one_colour_in_all_panels(tmp_path):
    rows = {"feedback-1": {"a": 1.0}, "transformer-1": {"a": 2.0, "b": 3.0}, "transformer-2": {"b": 4.0}}
    write_rows(tmp_path / "results.jsonl", rows)
    figure = row_pictures.draw_rows(Namespace(table=tmp_path, metric=["a", "b"], over="layers"))
    colours = [{line.get_label(): line.get_color() for line in axes.get_lines()} for axes in figure.axes]
    assert colours == [{"feedback": "C0", "transformer": "C1"}, {"transformer": "C1"}]


@pytest.mark.parametrize("metric", [["BLEU=paper"], ["BLEU=paper", "words/s"]])
def test_the_legend_is_inside_the_picture(metric, tmp_path):
    write_rows(tmp_path / "results.jsonl", DEPTHS)
    figure = row_pictures.draw_rows(Namespace(table=tmp_path, metric=metric, over="layers"))
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= legend.x0 and legend.x1 <= figure.bbox.x1


def test_bars_over_names(draw):
    assert draw(MEMORIES, "--metric", "dev bpc=paper") == (
        "dev bpc. ours feedback-layer-1 1.25, ours transformer 1.27, ours _feedback $x$ 1.19, "
        "the paper's transformer 1.3."
    )
    assert draw({"a": {"x": 1.0}, "b": {"x": 5.0}}, "--metric", "x") == "x. ours a 1, ours b 5."
    assert draw({"a": {"x": 0.0}}, "--metric", "x") == "x. ours a 0."


@pytest.mark.parametrize("metric, sentence", [
    ("ROUGE", "has no number in a column 'ROUGE'; there are the columns BLEU, paper, words/s"),
    ("BLEU=papers", "has no column 'papers' for the paper's numbers; there are BLEU, paper, words/s"),
])  # fmt: skip
def test_columns_that_are_not_there(metric, sentence, draw):
    with pytest.raises(UserError, match=sentence):
        draw(DEPTHS, "--metric", metric)


def test_a_folder_without_rows_is_refused(tmp_path):
    with pytest.raises(UserError, match="results.jsonl does not exist; name a results.jsonl that a recipe has written"):
        row_pictures.read(tmp_path)
    (tmp_path / "results.jsonl").touch()
    with pytest.raises(UserError, match="results.jsonl has no rows; name a results.jsonl that a recipe has written"):
        row_pictures.read(tmp_path)
