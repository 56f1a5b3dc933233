"""The README's first command, as it stands."""

import re
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


def test_quickstart_learns_to_translate(recipe, tmp_path):
    env = {"OUT": str(tmp_path / "out")}
    first = recipe("quickstart.sh", folder=RECIPES, env=env)
    assert first.returncode == 0, first.stderr
    assert float(re.search(r"tokenised BLEU = ([\d.]+)", first.stdout)[1]) > 90
    assert len(re.findall(r"^translation \S+", first.stdout, re.MULTILINE)) == 3
    again = recipe("quickstart.sh", folder=RECIPES, env=env)
    assert again.returncode == 0, again.stderr
    assert "perplexity" in first.stdout and "perplexity" not in again.stdout  # trained once
