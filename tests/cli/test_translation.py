"""From raw text to a score with the real commands: feedback_transformer_tiny learns to reverse strings."""

import re

import pytest

FLAGS = (
    "--arch feedback_transformer_tiny --dropout 0.1 --optimizer adam --lr 0.005 --lr-scheduler inverse_sqrt"
    " --warmup-updates 100 --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-tokens 3000 --cpu"
    " --no-epoch-checkpoints --disable-validation --no-progress-bar --num-workers 0"
).split()


def train_and_translate(run, corpus, user_dir, folder, updates) -> tuple[float, list[str]]:
    """BLEU on the test set, and its hypotheses in order."""
    train = ["fairseq-train", corpus.bin, "--user-dir", user_dir, *FLAGS, "--save-dir", folder, "--max-update", updates]
    run(*train)
    out = run(
        "fairseq-generate", corpus.bin, "--user-dir", user_dir, "--path", folder / "checkpoint_last.pt", "--cpu"
    ).stdout
    hypotheses = {int(n): text for n, text in re.findall(r"^H-(\d+)\t[^\t]*\t(.*)$", out, re.MULTILINE)}
    return float(re.search(r"BLEU4? = ([\d.]+)", out)[1]), [hypotheses[n] for n in sorted(hypotheses)]


def test_an_untrained_model_scores_below_5(run, reverse_corpus, user_dir, tmp_path):
    bleu, _ = train_and_translate(run, reverse_corpus, user_dir, tmp_path, updates=1)
    assert bleu < 5


@pytest.fixture(scope="module")
def learned(run, reverse_corpus, user_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("learned")
    return folder, *train_and_translate(run, reverse_corpus, user_dir, folder, updates=350)


def test_350_updates_teach_it_to_reverse_strings(learned, reverse_corpus):
    _, bleu, hypotheses = learned
    assert bleu > 90
    assert len(hypotheses) == len(reverse_corpus.lines("test", "tgt"))


def test_interactive_reverses_a_string_of_our_own(learned, run, reverse_corpus, user_dir):
    folder, _, _ = learned
    command = [
        "fairseq-interactive",
        reverse_corpus.bin,
        "--user-dir",
        user_dir,
        "--path",
        folder / "checkpoint_last.pt",
    ]
    out = run(*command, "--cpu", input="a b c d\nh g\nf a c e d\n").stdout
    assert re.findall(r"^D-\d+\t[^\t]*\t(.*)$", out, re.MULTILINE) == ["d c b a", "g h", "d e c a f"]
