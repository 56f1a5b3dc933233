"""A training that stopped anywhere and went on has exactly the weights of the one that never stopped, and reads each
sentence once in each epoch.

``python benchmarks/robustness.py stops`` tries all kinds of trainings with all stops; the pairs that matter are here.
"""

from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/robustness_stops.py"


@pytest.fixture
def try_stops(run):
    def try_stops(training, *stops):
        done = run("python", SCRIPT, "--training", training, "--stops", *stops, check=False)
        row = f"| {training} | {' | '.join(['equal'] * len(stops))} |"
        assert row in done.stdout.splitlines(), done.stdout + done.stderr[-6000:]

    return try_stops


def test_translation(try_stops):
    try_stops(
        *("translation", "within epoch 1", "at its end", "within epoch 2", "two epochs later", "after a validation")
    )


@pytest.mark.parametrize("training", [
    "translation, two shards",
    "translation, two ranks and --update-freq 2",
    "translation, --update-ordered-indices-seed --curriculum 2 --valid-subset valid,train",
    "translation, --lr-scheduler reduce_lr_on_plateau --store-ema --ema-update-freq 4",
    "language_modeling over lines",
    "masked_lm, --num-workers 1",
    "multilingual_masked_lm",
    "translation_multi_simple_epoch, --sampling-method RoundRobin",
    "sentence_prediction",
    "streams, --stream-offset random and blocks of two lengths",
    "streams, two ranks",
    "labelled_stream",
    "synthetic_stream",
    "algorithmic_curriculum",
    "reinforcement_learning",
    "reinforcement_learning, ppo",
])  # fmt: skip
def test_every_kind(training, try_stops):
    """Stopped at the end of epoch 1, and again within epoch 3."""
    try_stops(training, "two epochs later")
