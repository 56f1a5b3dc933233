"""Rewards of agents over several trials: the numbers behind the pictures."""

from argparse import Namespace
from pathlib import Path

import pytest
from training_logs import entry

from fairseq_plugins.errors import UserError

pytest.importorskip("matplotlib")

from fairseq_plugins.tools.lib.reward_pictures import draw_curves, draw_sizes  # noqa: E402


def agent_run(folder, rewards, last=None):
    """The log of an agent with 100 steps an update and a reward every 10 updates."""
    folder.mkdir(parents=True)
    lines = [entry("train_inner", num_updates=10 * n, reward=reward, wpb=100) for n, reward in enumerate(rewards, 1)]
    lines += [] if last is None else [entry("valid", num_updates=10 * len(rewards), reward=last)]
    (folder / "train.log").write_text("".join(lines))
    return folder


def test_curves_have_the_mean_and_the_band_of_the_trials(tmp_path):
    one, other = agent_run(tmp_path / "1", [0, 1, 4]), agent_run(tmp_path / "2", [2, 3])
    (tmp_path / "best.json").write_text('{"reward": 9, "episodes": 10}')
    line = [f"best={tmp_path / 'best.json'}"]
    (axes,) = draw_curves(Namespace(runs=[f"lstm={one}", f"lstm={other}"], line=line)).axes
    mean, best = axes.lines
    assert mean.get_xdata().tolist() == [0.001, 0.002] and mean.get_ydata().tolist() == [1, 2]  # where both have been
    assert list(best.get_ydata()) == [9, 9]
    (band,) = axes.collections
    corners = {(0.001, 0), (0.001, 2), (0.002, 1), (0.002, 3)}
    assert set(map(tuple, band.get_paths()[0].vertices.tolist())) == corners
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["lstm, 2 trials", "best"]


def test_updates_of_another_size_after_a_resume_count_as_they_are(tmp_path):
    run = agent_run(tmp_path / "1", [0, 1, 4])
    log = (run / "train.log").read_text()
    (run / "train.log").write_text(log.replace('"reward": "4", "wpb": "100"', '"reward": "4", "wpb": "500"'))
    (axes,) = draw_curves(Namespace(runs=[f"lstm={run}"], line=[])).axes
    assert axes.lines[0].get_xdata().tolist() == [0.001, 0.002, 0.007]


def test_sizes_have_the_mean_of_their_trials(tmp_path):
    runs = [agent_run(tmp_path / f"{n}", [0, 1], last) for n, last in enumerate([0.5, 1.0, 0.25])]
    named = [f"feedback={size}:{run}" for size, run in zip((2, 2, 16), runs)]
    (axes,) = draw_sizes(Namespace(runs=named, line=[], size="span")).axes
    points = axes.containers[0].lines[0]
    assert points.get_xdata().tolist() == [2, 16] and points.get_ydata().tolist() == [0.75, 0.25]


@pytest.mark.parametrize("draw, runs, line, words", [
    (draw_curves, ["good"], None, "does not have the form NAME=RUN"),
    (draw_curves, ["a=bare"], None, "has no reward"),
    (draw_curves, ["a=good"], "b=bare/train.log", "train.log holds no mean reward"),
    (draw_curves, ["a=good"], "b=nan.json", "holds no mean reward \\(it is nan\\)"),
    (draw_curves, ["lstm=short", "lstm=late"], None, "runs of lstm have no steps in common"),
    (draw_curves, ["lstm=good", "lstm=good"], None, "lstm: good/train.log is named twice"),
    (draw_curves, ["lstm=good", "lstm=good/train.log"], None, "lstm: good/train.log is named twice"),
    (draw_sizes, ["a=good"], None, "does not have the form NAME=SIZE:RUN"),
    (draw_sizes, ["a=0:good"], None, "does not have the form NAME=SIZE:RUN"),
    (draw_sizes, ["a=4:good"], None, "no validation with a reward"),
    (draw_sizes, ["a=4:diverged"], None, "ends with no validation with a reward"),
    (draw_sizes, ["lstm=4:good", "lstm=4:good/train.log"], None, "lstm: good/train.log is named twice"),
])  # fmt: skip
def test_wrong_files_are_named(draw, runs, line, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, rewards in {"good": [0, 1], "short": [1], "late": ["nan", 2], "bare": []}.items():
        agent_run(Path(name), rewards)
    agent_run(Path("diverged"), [0, 1], last="nan")
    Path("bare/train.log").write_text(entry("train_inner", num_updates=1, loss=2))
    Path("nan.json").write_text('{"reward": NaN}')
    with pytest.raises(UserError, match=words):
        draw(Namespace(runs=runs, line=[line] if line else [], size="span"))


def test_one_reward_is_a_point(tmp_path):
    (axes,) = draw_curves(Namespace(runs=[f"lstm={agent_run(tmp_path / 'a', [1])}"], line=[])).axes
    assert axes.lines[0].get_marker() == "o"


def test_a_line_has_a_name_of_its_own(tmp_path):
    (tmp_path / "best.json").write_text('{"reward": 9}')
    lines = [f"best={tmp_path / 'best.json'}"] * 2
    with pytest.raises(UserError, match="there is another best="):
        draw_curves(Namespace(runs=[f"lstm={agent_run(tmp_path / 'a', [1])}"], line=lines))
