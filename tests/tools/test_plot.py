"""Pictures, and above all the numbers behind them."""

import json
import re
import shutil
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from plain_recurrence import PlainRecurrence
from training_logs import entry

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools.lib import attention_maps, training_log

CHECKPOINTS = Path(__file__).parents[1] / "models/checkpoints"


@pytest.fixture
def run_folder(tmp_path):
    """The log of a run that was killed after 30 updates and went on from 20."""
    lines = [entry("train_inner", num_updates=n, bpc=5 - n / 10, wps="n/a") for n in (10, 20, 30)]
    lines += ["2026 | INFO | fairseq.trainer | loaded\n", entry("valid", num_updates=20, bpc=3.5)]
    spans = {f"span_{layer}_{head}": 10 * layer + head for layer in range(2) for head in (0, 1)}
    learned = {"memory_0": 0.2, "memory_1": 0.8, **spans}
    lines += [entry("train_inner", num_updates=n, bpc=4 - n / 10, **learned) for n in (30, 40)]
    (tmp_path / "train.log").write_text("".join(lines))
    return tmp_path


def test_names_are_in_the_order_of_their_numbers():
    log = training_log.TrainingLog(train=[{"num_updates": 1.0, "memory_10": 0.0, "memory_9": 0.0, "memory_x": 0.0}])
    assert log.names(r"memory_\d+") == ["memory_9", "memory_10"]


JSON = (
    entry("train_inner", num_updates=5, loss=4, wps="n/a")
    + entry("train_inner", num_updates=6, loss=3)
    + entry("valid", num_updates=6, loss=2)
)
FORMATS = {
    "json": JSON,
    "begun anew": entry("train_inner", num_updates=10, loss=9) + entry("valid", num_updates=14, loss=9) + JSON,
    "resumed": JSON.replace('"3"', '"9"')
    + entry("train_inner", num_updates=7, loss=9)
    + entry("train_inner", num_updates=6, loss=3)
    + entry("valid", num_updates=6, loss=2),
    "half written": JSON + "x | INFO | train_inner | epoch 001:      7 / 10 loss=3, num_updates=7",
    "json of --log-file": '{"epoch": 1, "update": 0.5, "loss": "4", "num_updates": "5", "wps": "n/a"}\n'
    '{"epoch": 1, "update": 0.6, "loss": "3", "num_updates": "6"}\n'
    '{"epoch": 1, "valid_loss": "2", "valid_num_updates": "6"}\n'
    '{"epoch": 1, "train_loss": "3.5", "train_num_updates": "6"}\n' * 2,  # fairseq writes them several times
    "simple": "x | INFO | train_inner | epoch 001:      5 / 10 loss=4, wps=n/a, num_updates=5, lr=1\n"
    "x | INFO | train_inner | epoch 001:      6 / 10 loss=3, wps=0, num_updates=6, lr=1\n"
    "x | INFO | valid | epoch 001 | valid on 'valid' subset | loss 2 | ppl 4 | num_updates 6\n"
    "x | INFO | test | epoch 001 | valid on 'test' subset | loss 7 | ppl 4 | num_updates 6\n"
    "x | INFO | train | epoch 001 | loss 3.5 | num_updates 6 | train_wall 1\n",
    "hydra": '[x][train_inner][INFO] - {"epoch": 1, "update": 0.5, "loss": "4", "num_updates": "5"}\n'
    "[x][train_inner][INFO] - epoch 001:      6 / 10 loss=3, num_updates=6\n"
    '[x][valid][INFO] - {"epoch": 1, "valid_loss": "2", "valid_num_updates": "6"}\n',
    "none within epochs": "epoch 001 | loss 4 | num_updates 5\nepoch 002 | loss 3 | num_updates 6\n"
    "epoch 002 | valid on 'valid' subset | loss 2 | num_updates 6\n",
}


@pytest.mark.parametrize("text", FORMATS.values(), ids=FORMATS)
def test_any_log_of_fairseq_is_read(text, tmp_path):
    (tmp_path / "log.txt").write_text(f"what else is printed\n{text}")
    log = training_log.read(tmp_path / "log.txt")
    assert log.series("train", "loss") == ([5, 6], [4, 3]) and log.series("valid", "loss") == ([6], [2])


@pytest.mark.parametrize(
    "content, sentence",
    [(None, "has no train.log: the log is the file of fairseq-train"), ("| INFO | x\n", "holds no metrics")],
)
def test_other_files_are_refused(content, sentence, tmp_path):
    if content:
        (tmp_path / "train.log").write_text(content)
    with pytest.raises(UserError, match=sentence):
        training_log.read(tmp_path)


@pytest.fixture
def plot():
    pytest.importorskip("matplotlib")
    from fairseq_plugins.tools import plot

    return plot


def lines_of(axes):
    return {line.get_label(): line.get_ydata().tolist() for line in axes.get_lines() if line.get_label()[0] != "_"}


def test_curves_have_the_runs_values(plot, run_folder):
    figure = plot.draw_curves(Namespace(runs=[f"mine={run_folder}"], metric="bpc"))
    (axes,) = figure.axes
    assert lines_of(axes) == {"mine": [3.5]}
    with pytest.raises(UserError, match="has no accuracy; choose another --metric"):
        plot.draw_curves(Namespace(runs=[f"mine={run_folder}"], metric="accuracy"))
    with pytest.raises(UserError, match="does not have the form NAME=RUN"):
        plot.draw_curves(Namespace(runs=[str(run_folder)], metric="bpc"))


@pytest.mark.parametrize("logged, other, metric", [
    (["bits_per_piece", "ppl", "loss"], ["bits_per_piece"], "bits_per_piece"),
    (["bits_per_word", "loss"], ["bits_per_word"], "bits_per_word"),
    (["bpc", "bpb", "ppl"], ["bits_per_word", "bpb", "ppl"], "bpb"),  # of other tokens
    (["loss", "ppl"], ["loss"], "loss"),
])  # fmt: skip
def test_curves_are_of_the_metric_that_all_logs_have(logged, other, metric, plot, tmp_path):
    for name, metrics in (("a", logged), ("b", other)):
        (tmp_path / name).write_text(entry("valid", num_updates=1, **dict.fromkeys(metrics, 2)))
    runs = [f"{name}={tmp_path / name}" for name in "ab"]
    (axes,) = plot.draw_curves(Namespace(runs=runs, metric=None)).axes
    assert lines_of(axes) == {"a": [2], "b": [2]} and axes.get_ylabel().startswith(f"{metric}, ")
    (tmp_path / "b").write_text(entry("valid", num_updates=1, reward=2))
    with pytest.raises(UserError, match="the logs do not share any of bpc, .*; choose a --metric"):
        plot.draw_curves(Namespace(runs=runs, metric=None))


def test_curves_of_seeds_are_their_mean_and_a_band(plot, tmp_path):
    for name, bpc in (("a", 2), ("b", 4)):
        (tmp_path / name).write_text("".join(entry("valid", num_updates=each, bpc=bpc) for each in (1, 2)))
    runs = [f"seeds={tmp_path / name}" for name in "ab"]
    (axes,) = plot.draw_curves(Namespace(runs=runs, metric=None)).axes
    assert lines_of(axes) == {"seeds, 2 runs": [3, 3]}
    band = axes.collections[-1].get_paths()[0].vertices
    assert (band.min(axis=0).tolist(), band.max(axis=0).tolist()) == ([1, 2], [2, 4])
    (tmp_path / "b").write_text(entry("valid", num_updates=3, bpc=4))
    with pytest.raises(UserError, match="the runs of seeds have no validation in common"):
        plot.draw_curves(Namespace(runs=runs, metric=None))
    with pytest.raises(UserError, match="seeds: .* is named twice"):
        plot.draw_curves(Namespace(runs=[runs[0], runs[0]], metric=None))


def test_the_span_of_every_head_by_layer_and_over_updates(plot, run_folder):
    end, course = plot.draw_spans(Namespace(run=run_folder)).axes
    assert [head.get_offsets()[0].tolist() for head in end.collections] == [[1, 0], [1, 1], [2, 10], [2, 11]]
    assert list(lines_of(course)) == [f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2)]


def test_entries_with_a_gap_are_left_out(plot, tmp_path):
    learned = {"span_0_0": 3, "span_0_1": 4, "memory_0": 0.5, "memory_1": 0.5}
    lines = [
        entry("train_inner", num_updates=10, **learned),
        entry("train_inner", num_updates=20, **learned | {"span_0_0": "nan", "memory_1": "inf"}),
        entry("train_inner", num_updates=30, span_0_1=5, memory_0=1),
    ]
    (tmp_path / "train.log").write_text("".join(lines))
    _, course = plot.draw_spans(Namespace(run=tmp_path)).axes
    assert [line.get_xydata().tolist() for line in course.get_lines()] == [[[10, 3]], [[10, 4]]]
    assert plot.from_log(tmp_path, plot.MEMORY) == ([10], {"memory_0": [0.5], "memory_1": [0.5]})
    (tmp_path / "train.log").write_text(lines[1])
    with pytest.raises(UserError, match="holds no checkpoints"):
        plot.draw_memory(Namespace(run=tmp_path))


def test_curves_of_many_trainings_have_a_legend_beside_them(plot, run_folder):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = plot.draw_curves(Namespace(runs=[f"seed {seed}={run_folder}" for seed in range(25)], metric="bpc"))
    (axes,) = figure.axes
    FigureCanvasAgg(figure).draw()
    legend, picture = axes.get_legend().get_window_extent(), figure.bbox
    assert axes.bbox.x1 < legend.x0 and legend.x1 <= picture.x1 and picture.y0 <= legend.y0 and legend.y1 <= picture.y1
    drawn = [line for line in axes.get_lines() if line.get_label()[0] != "_"]
    assert len({(line.get_color(), line.get_linestyle()) for line in drawn}) == 25


def test_the_memory_by_layer(plot, run_folder):
    (axes,) = plot.draw_memory(Namespace(run=run_folder)).axes
    assert lines_of(axes) == {"embedding": [0.2, 0.2], "layer 1": [0.8, 0.8]}


def kept(name):
    return CHECKPOINTS / f"{name}_tiny.pt"


@pytest.fixture(scope="module")
def letters(run, tmp_path_factory):
    """Letters that the kept checkpoints know, binarised."""
    folder = tmp_path_factory.mktemp("letters")
    (folder / "text").write_text("a b c d\n" * 20)
    words = ["--srcdict", CHECKPOINTS / "dict.txt", "--testpref", folder / "text", "--destdir", folder / "bin"]
    run("fairseq-preprocess", "--only-source", *words, "--workers", 1)
    return folder / "bin"


@pytest.mark.parametrize("name, width, vectors, seen", [
    ("all_attention_lm", 6, 4, None), ("feedback_lm", 6, 0, None), ("transformer_xl_lm", 13, 0, 13),
    ("same length", 13, 0, 6),
])  # fmt: skip
def test_attention_maps_of_trained_models(name, width, vectors, seen, letters, tmp_path):
    """A token of a Transformer-XL sees itself and, unless all see as many, what of its block is before it and the whole
    memory of 6."""
    checkpoint = kept(name)
    if name == "same length":
        state = torch.load(kept("transformer_xl_lm"), weights_only=False)
        state["cfg"]["model"]["same_length"] = True
        torch.save(state, checkpoint := tmp_path / "same.pt")
    maps, memory = attention_maps.attention_maps(checkpoint, letters, "test", 7)
    assert [(head.layer, head.head) for head in maps] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    for head in maps:
        assert head.context.shape == (7, width) and head.persistent.shape == (7, vectors)
        torch.testing.assert_close(torch.cat([head.context, head.persistent], dim=-1).sum(-1), torch.ones(7))
        if seen:
            assert (head.context > 0).sum(-1).tolist() == [min(seen, 7 + token) for token in range(7)]
            assert (head.context[:, -1] > 0).all()  # each token itself
    shares = [head.context_share for head in maps]
    assert [head.context_share for head in attention_maps.choose(maps, 2)] == [min(shares), max(shares)]
    assert [len(row) for row in memory] == [3] * (name == "feedback_lm")
    assert all(sum(row) == pytest.approx(1) for row in memory)


@pytest.mark.parametrize("name, value, label, said", [
    ("all_attention_lm", r"0\.\d{3}", "tokens before (-1: the nearest)", "SHARE, the fraction of a head's attention"),
    ("feedback_lm", r"\d+\.\d", "memories before (-1: the nearest)", "DISTANCE, how many tokens back a head looks"),
    ("transformer_xl_lm", r"\d+\.\d", "tokens before (0: the token itself)", "DISTANCE"),
])  # fmt: skip
def test_a_picture_of_attention(name, value, label, said, letters, plot, capsys, tmp_path):
    file = tmp_path / "heads.json"
    args = Namespace(checkpoint=kept(name), data=letters, split="test", tokens=7, heads=2, json=file)
    figure = plot.draw_attention(args)
    printed = capsys.readouterr()
    assert re.fullmatch(rf"\d\.\d={value} \d\.\d={value}", printed.out.strip()) and said in printed.err
    heads = re.findall(r"(\d)\.(\d)=([\d.]+)", printed.out)
    assert json.loads(file.read_text()) == {
        str(number): {"head": f"layer {layer}, head {head}", said.split(",")[0].lower(): float(found)}
        for number, (layer, head, found) in enumerate(heads, 1)
    }
    assert figure.axes[0].get_xlabel() == label
    left, right, *_ = figure.axes[0].get_images()[0].get_extent()
    assert (left, right) == ((-12.5, 0.5) if name == "transformer_xl_lm" else (-6.5, -0.5))
    if name == "feedback_lm":
        (weights,) = attention_maps.attention_maps(kept(name), letters, "test", 7)[1]
        assert [bar.get_height() for bar in figure.axes[2].patches] == weights


def test_the_memory_and_the_spans_from_checkpoints(plot, tmp_path):
    state = torch.load(kept("feedback_lm"), weights_only=False)
    for update, weights in ((10, [0.2, 0.3, 0.5]), (20, [0.1, 0.1, 0.8])):
        state["model"]["decoder.body.stack.memory.layer_logits"] = torch.tensor(weights).log()
        state["optimizer_history"][-1]["num_updates"] = update
        torch.save(state, tmp_path / f"checkpoint_1_{update}.pt")
    (axes,) = plot.draw_memory(Namespace(run=tmp_path)).axes
    assert axes.get_lines()[0].get_xdata().tolist() == [0, 10, 20]
    expected = {"embedding": [1 / 3, 0.2, 0.1], "layer 1": [1 / 3, 0.3, 0.1], "layer 2": [1 / 3, 0.5, 0.8]}
    assert lines_of(axes) == {name: pytest.approx(values) for name, values in expected.items()}
    _, spans = plot.spans_from_checkpoint(kept("all_attention_lm"))
    assert list(spans) == ["span_0_0", "span_0_1", "span_1_0", "span_1_1"]
    assert all(0 <= span <= 6 for (span,) in spans.values())
    with pytest.raises(UserError, match="has no adaptive spans"):
        plot.spans_from_checkpoint(kept("transformer_xl_lm"))
    shutil.copy(kept("transformer_xl_lm"), tmp_path / "checkpoint_1_30.pt")
    with pytest.raises(UserError, match="has no learned memory"):
        plot.memory_from_checkpoints(tmp_path)


def test_attention_is_that_of_the_forward_pass():
    """The weights of a recorder give the layer's own output again."""
    from fairseq_plugins.modules.common.relative_position import RelativePosition
    from fairseq_plugins.modules.span.attention import AllAttention, SpanConfig

    torch.manual_seed(1)
    config = SpanConfig(embed_dim=8, heads=2, span=5, persistent=3, ramp=2, initial_span=0.4)
    attention, position = AllAttention(config).double().eval(), RelativePosition(4, 5).double()
    maps_of = attention_maps.record_spans(attention)
    x, memory = torch.randn(1, 4, 8).double(), torch.randn(1, attention.width(), 8).double()
    y = attention(x, memory, position)
    ((context, persistent),) = maps_of(5)
    values = attention.heads(attention.v_proj(torch.cat([memory, x[:, :-1]], dim=1)))[:, 0]
    width = memory.size(1)
    seen = torch.stack([values[:, t : t + width] for t in range(4)], dim=1)  # [H, M, W, D]
    heads = (context[:, :, -width:, None] * seen).sum(2) + persistent @ (
        attention.persistent.value * attention.persistent.size**0.5
    )
    torch.testing.assert_close(attention.out_proj(heads.transpose(0, 1).flatten(1)), y[0])


@torch.no_grad()
def test_attention_to_memories_is_that_of_the_plain_loop():
    """Also where spans mask it and layers see less than the span; and recording changes no output."""
    from fairseq_plugins.modules import FeedbackLayerConfig, FeedbackStream, MemoryWindow

    class Recording(PlainRecurrence):
        def attend(self, projections, x, source, padding, layer, limits=None):
            y, weights = super().attend(projections, x, source, padding, layer, limits)
            expected[layer].append(weights[0])
            return y, weights

    torch.manual_seed(1)
    window = MemoryWindow(span=6, num_layers=2, heads=2, head_dim=4, ramp=2, trim_step=1)
    stream = FeedbackStream(FeedbackLayerConfig(8, 8, 2, pre_norm=True), 2, window).double().eval()
    for layer, adaptive in enumerate(window.spans):
        adaptive.span_ratio.copy_(torch.tensor([0.2, 0.3 + 0.4 * layer]))
    x, expected = torch.randn(3, 5, 8).double(), {layer: [] for layer in stream.stack.layers}
    _, memory = stream(torch.randn(3, 7, 8).double())
    outputs = [stream(x, memory)[0]]
    maps_of = attention_maps.record_feedback(stream)
    outputs.append(stream(x, memory)[0])
    stream.stack.engine = Recording
    outputs.append(stream(x, memory)[0])
    torch.testing.assert_close(outputs[1:], outputs[:1] * 2)
    for (maps, _), weights in zip(maps_of(6), expected.values(), strict=True):
        assert maps.shape == (2, 5, 6)
        torch.testing.assert_close(maps[..., -weights[0].size(-1) :], torch.stack(weights, dim=1))


def test_attention_by_distance_is_that_of_the_forward_pass():
    from fairseq_plugins.modules.transformer_xl.attention import XLConfig
    from fairseq_plugins.modules.transformer_xl.stack import XLStack

    torch.manual_seed(1)
    stack = XLStack(XLConfig(embed_dim=8, heads=2, ffn_dim=8, mem_len=5), 1).double().eval()
    attention = stack.layers[0].attention
    _, memory = stack(torch.randn(1, 5, 8).double())
    maps_of, outputs = attention_maps.record_xl(stack), []
    hook = attention.register_forward_hook(lambda _, given, y: outputs.append((given[0], given[1], y)))
    stack(torch.randn(1, 4, 8).double(), memory)
    hook.remove()
    ((x, before, y),) = outputs
    ((context, _),) = maps_of(5)
    values = attention.heads(attention.v_proj(torch.cat([before, x], dim=1)))[:, 0]  # [H, n, D]
    heads = torch.zeros(2, 4, 4).double()
    for token in range(4):
        for distance in range(5 + token + 1):
            heads[:, token] += context[:, token, -1 - distance, None] * values[:, 5 + token - distance]
    torch.testing.assert_close(attention.out_proj(heads.transpose(0, 1).flatten(1)), y[0])


def test_a_folder_with_neither_a_log_nor_checkpoints(plot, tmp_path):
    for draw in (plot.draw_memory, plot.draw_spans):
        with pytest.raises(UserError, match="holds no checkpoints .*, and no log with the values to draw"):
            draw(Namespace(run=tmp_path))
        with pytest.raises(UserError, match="nowhere does not exist"):
            draw(Namespace(run=tmp_path / "nowhere"))
