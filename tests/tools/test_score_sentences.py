"""Figures of sentence classifiers, from checkpoints that fairseq-train wrote."""

import json
import random
import shutil

import pytest

from fairseq_plugins.tools.score_sentences import over_seeds, score, spread


def test_figures_are_in_percent_and_of_the_label_1():
    """Two hits, one wrong, one missed and none of the rest."""
    figures = score(["1", "1", "1", "0"], ["1", "1", "0", "1"])
    assert figures == pytest.approx({"accuracy": 50, "f1": 200 / 3, "matthews": -100 / 3})


def test_three_classes_have_an_accuracy_only():
    assert score(["neutral", "entailment", "neutral"], ["neutral", "entailment", "contradiction"]) == {
        "accuracy": pytest.approx(200 / 3)
    }


def test_spread_is_that_of_a_sample():
    figures = over_seeds([{"accuracy": 80.0}, {"accuracy": 82.0}, {"accuracy": 87.0}])
    assert figures == pytest.approx({"accuracy": 83.0, "accuracy_deviation": 13**0.5})
    assert spread(figures, "accuracy") == "83.00 ± 3.61"
    assert spread(over_seeds([{"accuracy": 80.0}]), "accuracy") == "80.00"


@pytest.fixture(scope="module")
def classifier(run, user_dir, tmp_path_factory):
    """Data in which the label is whether there is an a, and a checkpoint trained on it from a masked language model."""
    folder = tmp_path_factory.mktemp("sentences")
    draw = random.Random(1)
    sentences = [draw.choices("abcdefgh", k=draw.randint(2, 6)) for _ in range(400)]
    contents = {"input0": [" ".join(s) for s in sentences], "label": [str(int("a" in s)) for s in sentences]}
    for part, lines in contents.items():
        (folder / part).write_text("\n".join(lines) + "\n")
        run(
            "fairseq-preprocess", "--only-source", "--trainpref", folder / part, "--validpref", folder / part,
            "--destdir", folder / "bin" / part,
        )  # fmt: skip
    small = "--encoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 32 --encoder-attention-heads 4".split()
    train = ["--user-dir", user_dir, *small, *"--cpu --num-workers 0 --optimizer adam --lr 0.01".split()]
    run(
        "fairseq-train", folder / "bin/input0", *train,
        *"--task masked_lm --criterion masked_lm --arch roberta".split(),
        *"--tokens-per-sample 64 --batch-size 8 --max-update 3 --disable-validation".split(),
        "--save-dir", folder / "roberta",
    )  # fmt: skip
    run(
        "fairseq-train", folder / "bin", *train, *"--task sentence_prediction --criterion sentence_prediction".split(),
        *"--arch roberta_cross_head --num-classes 2 --init-token 0 --batch-size 40 --max-update 60".split(),
        *"--max-positions 64 --disable-validation --dropout 0 --attention-dropout 0".split(),
        "--finetune-from-model", folder / "roberta/checkpoint_last.pt", "--save-dir", folder / "classifier",
    )  # fmt: skip
    return folder


def test_checkpoints_are_scored(classifier, tool):
    checkpoint, scores = classifier / "classifier/checkpoint_last.pt", classifier / "scores.json"
    other = shutil.copy(checkpoint, classifier / "classifier/other.pt")
    done = tool("score_sentences", classifier / "bin", "--cpu", "--path", checkpoint, other, "--json", scores)
    figures = json.loads(scores.read_text())
    assert figures["accuracy"] > 90 and figures["matthews"] > 80 and figures["accuracy_deviation"] == 0
    assert f"accuracy = {figures['accuracy']:.2f} ± 0.00 (" in done.stdout


@pytest.mark.parametrize(
    "flags, sentence",
    [
        (
            "--path {0}/classifier/checkpoint_last.pt {0}/classifier/checkpoint_last.pt",
            "checkpoint_last.pt is named twice",
        ),
        ("--path {0}/classifier/checkpoint_last.pt --split nosuch", "nosuch; choose another split"),
        (
            "--path {0}/roberta/checkpoint_last.pt",
            "is not a sentence classifier; give a checkpoint of --task sentence_",
        ),
    ],
)
def test_what_cannot_be_scored_is_named(classifier, tool, flags, sentence):
    done = tool("score_sentences", classifier / "bin", "--cpu", *flags.format(classifier).split())
    assert done.returncode == 1 and "Traceback" not in done.stderr and sentence in done.stderr
