"""The README's first command, from another folder."""

import re
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


def test_quickstart_learns_to_translate(recipe, tmp_path):
    from_elsewhere = {"folder": RECIPES, "env": {"OUT": "out"}, "cwd": tmp_path}
    first = recipe("quickstart.sh", **from_elsewhere)
    assert first.returncode == 0, first.stderr
    assert float(re.search(r"tokenised BLEU = ([\d.]+)", first.stdout)[1]) >= 95  # as it promises
    assert len(re.findall(r"^translation \S+", first.stdout, re.MULTILINE)) == 3
    again = recipe("quickstart.sh", **from_elsewhere)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "out/test.out").exists()
    assert "of 500, epoch 2, validation" in first.stderr and "model is trained" in again.stderr
    assert "test.out is there" in again.stderr


def test_it_takes_no_options(recipe):
    assert recipe("quickstart.sh", "--help", folder=RECIPES).stdout.startswith("From nothing to a Feedback Transformer")
    done = recipe("quickstart.sh", "--smoke", folder=RECIPES)
    assert done.returncode == 2 and done.stderr.startswith("quickstart: error: --smoke: it takes no options")
