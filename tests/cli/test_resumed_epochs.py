"""A training that stopped anywhere and went on has exactly the weights of the one that never stopped, and each sentence
once in each epoch.

``python benchmarks/robustness_stops.py`` tries all kinds of trainings with all stops; some of both are tried here.
"""

from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/robustness_stops.py"
STOPS = ("within epoch 1", "at its end", "within epoch 2", "two epochs later", "after a validation")


@pytest.fixture
def try_stops(run):
    def try_stops(training, *stops):
        done = run("python", SCRIPT, "--training", training, "--stops", *stops, check=False)
        rows = [line for line in done.stdout.splitlines() if line.startswith(f"| {training} |")]
        assert rows == [f"| {training} | {' | '.join(['equal'] * len(stops))} |"], done.stdout + done.stderr[-6000:]

    return try_stops


@pytest.mark.parametrize("stop", STOPS)
def test_translation(stop, try_stops):
    try_stops("translation", stop)


@pytest.mark.parametrize(
    "training",
    [
        "translation, two shards",
        "translation, --update-freq 2",
        "translation, two ranks",
        "translation, --update-ordered-indices-seed",
        "translation, --valid-subset valid,train",
        "translation, --lr-scheduler reduce_lr_on_plateau",
        "translation, an average with --ema-update-freq 4",
        "language_modeling over lines",
        "masked_lm, --num-workers 1",
        "sentence_prediction",
        "streams",
        "labelled_stream",
        "synthetic_stream",
        "algorithmic_curriculum",
        "reinforcement_learning",
    ],
)
def test_every_kind(training, try_stops):
    """At the end of epoch 1, and again within epoch 3."""
    try_stops(training, "two epochs later")
