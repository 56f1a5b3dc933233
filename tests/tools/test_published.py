"""Published numbers of a paper's file, as they are written there."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_number_is_a_line_of_its_own_with_its_last_zeros(run):
    done = run("python", "fairseq_plugins/tools/published.py", ROOT / "recipes/skip_cross_head/paper.json")
    assert "Table 1|skip-cross-head-1600|dev bpc\t1.060\n" in done.stdout
