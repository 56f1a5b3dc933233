"""The synthetic tasks through the real commands: a curriculum, labelled streams, their accuracy."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from fairseq_plugins.tools.lib import training_log

ROOT = Path(__file__).resolve().parents[2]
ALWAYS = "--criterion label_cross_entropy --cpu --num-workers 0 --no-progress-bar --log-format json --log-interval 1"
CURRICULUM = (
    "--task algorithmic_curriculum --algorithm not --epoch-batches 6 --batch-size 16 --arch active_memory_algorithmic"
    " --mixer convolution --decoder-layers 1 --decoder-embed-dim 16 --decoder-ffn-embed-dim 16 --kernel-size 3"
    " --dropout 0.1 --optimizer adam --lr 0.02"
)
WALK = (
    "--task synthetic_stream --kind random-walk --train-episodes 24 --test-episodes 7 --train-length 20"
    " --test-length 30 --arch lstm_stream_lm_tiny --dropout 0.2 --optimizer adam --lr 0.003 --batch-size 4"
    " --batch-size-valid 3 --tokens-per-sample 16 --stream-offset random"
)
COPY = (
    "--task synthetic_stream --kind copy --train-length 2 --train-episodes 160 --test-episodes 40"
    " --arch feedback_lm_tiny --optimizer adam --lr 0.01 --batch-size 16 --tokens-per-sample 32 --no-save"
)


@pytest.fixture
def train(run, user_dir, tmp_path):
    """train(name, flags, options...): into a folder of that name, which is returned with its log."""

    def train(name, flags, *options):
        folder = tmp_path / name
        words = [*flags.split(), *ALWAYS.split(), *options]
        done = run("fairseq-train", "--user-dir", user_dir, *words, "--save-dir", folder)
        (folder / "train.log").write_text(done.stdout + done.stderr)
        return folder, training_log.read(folder)

    return train


def test_a_curriculum_grows_and_is_evaluated(run, train, user_dir):
    """A validation in the middle of the fourth epoch does not count."""
    folder, log = train("whole", f"{CURRICULUM} --max-epoch 7", "--save-interval-updates", 20)
    ends = [entry for entry in log.valid if entry["num_updates"] % 6 == 0]
    sizes = [entry["size"] for entry in ends]
    assert sizes[0] == 5 and sizes[-1] > 5 and len(ends) == 7
    for end, following in zip(ends, [*sizes[1:], None]):
        grows = end["wrong"] == 0
        assert following in (None, end["size"] + grows)
        assert not grows or end["reached"] == end["size"]

    use = ["--task", "algorithmic_curriculum", "--path", folder / "checkpoint_last.pt", "--cpu", "--num-workers", 0]
    longer = ["--batch-size", 7, "--valid-subset", "test", "--model-overrides", "{'start_size': 11}"]
    validated = run("fairseq-validate", "--user-dir", user_dir, *use, *longer)
    said = re.findall(r"size (\d+) .* wpb (\d+) \| bsz (\d+)", validated.stdout + validated.stderr)[-1]
    assert said == ("11", "77", "7")


def test_labelled_streams_are_learned(train):
    """Digits are copied; by chance one in ten is right."""
    _, log = train("copy", f"{COPY} --max-update 30")
    assert log.valid[0]["accuracy"] < 50 and log.valid[-1]["accuracy"] > 90


def test_labelled_streams_are_evaluated(run, train, user_dir, tmp_path):
    folder, _ = train("whole", f"{WALK} --max-update 20")
    checkpoint = folder / "checkpoint_last.pt"
    use = ["--user-dir", user_dir, "--task", "synthetic_stream", "--path", checkpoint, "--cpu", "--num-workers", 0]
    validated = run("fairseq-validate", *use, "--valid-subset", "test", "--batch-size", 3)
    said = re.findall(r"accuracy ([\d.]+) \| wrong (\d+)", validated.stdout + validated.stderr)[-1]
    tool = ["python", "-m", "fairseq_plugins.tools.label_accuracy", checkpoint, "--streams", 3, "--cpu"]
    run(*tool, "--json", tmp_path / "test.json")
    figures = json.loads((tmp_path / "test.json").read_text())
    assert figures["labels"] == 7 * 30 and figures["episodes"] == 7
    assert figures["accuracy"] == pytest.approx(float(said[0]), abs=1e-3)
    assert round(figures["labels"] * (1 - figures["accuracy"] / 100)) == int(said[1])


def test_lines_of_the_users_own_are_episodes(run, train, tmp_path):
    for split in ("train", "valid"):
        (tmp_path / f"{split}.txt").write_text("a b a\nb a\nb\n")
        (tmp_path / f"{split}.labels").write_text("_ 1 2\n_ 1\n_\n")
    run(sys.executable, ROOT / "preprocess/labelled_text.py", "--raw", tmp_path, "--out", tmp_path)
    flags = "--task labelled_stream --arch lstm_stream_lm_tiny --optimizer adam --batch-size 2 --tokens-per-sample 4"
    folder, _ = train("lines", f"{flags} --split-streams 2 --max-update 2", tmp_path / "bin")
    tool = ["python", "-m", "fairseq_plugins.tools.label_accuracy", folder / "checkpoint_last.pt", "--cpu"]
    run(*tool, "--split", "valid", "--json", folder / "valid.json")
    figures = json.loads((folder / "valid.json").read_text())
    assert (figures["labels"], figures["episodes"]) == (3, 2)  # a line without labels does not count
    refused = run(*tool, "--split", "valid", "--episodes", 3, check=False)
    assert refused.returncode and "--episodes is for episodes that are drawn" in refused.stderr
    other = shutil.copytree(tmp_path / "bin", tmp_path / "other")
    (other / "dict.txt").write_text("".join(reversed((other / "dict.txt").read_text().splitlines(keepends=True))))
    run(*tool, "--split", "valid", "--data", tmp_path / "bin")
    refused = run(*tool, "--split", "valid", "--data", other, check=False)
    assert refused.returncode and f"--data {other} has another dictionary than the training" in refused.stderr


def test_labels_of_programs_are_counted_by_variables(run, train):
    sizes = "--train-episodes 8 --test-episodes 9 --train-length 12 --test-length 12 --tokens-per-sample 32"
    flags = "--task synthetic_stream --kind programs-3 --arch lstm_stream_lm_tiny --optimizer adam --batch-size 4"
    folder, _ = train("programs", f"{flags} {sizes} --max-update 1")
    tool = ["python", "-m", "fairseq_plugins.tools.label_accuracy", folder / "checkpoint_last.pt", "--cpu"]
    run(*tool, "--json", folder / "test.json")
    figures = json.loads((folder / "test.json").read_text())
    labels, right = figures["labels_by_group"], figures["by_group"]
    assert sum(labels.values()) == figures["labels"] and {"1", "2"} <= labels.keys() <= {"1", "2", "3"}
    rights = sum(right[name] * number for name, number in labels.items()) / figures["labels"]
    assert rights == pytest.approx(figures["accuracy"])
