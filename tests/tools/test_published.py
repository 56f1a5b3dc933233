"""Published numbers of a paper's file, as they are written there."""

from pathlib import Path

from fairseq_plugins.tools.published import published

ROOT = Path(__file__).resolve().parents[2]


def test_numbers_keep_their_last_zeros():
    text = '{"published": {"Table 1": {"large": {"dev bpc": 1.060, "test bpc": 98, "speed": "84.4K"}}}}'
    assert published(text) == {
        ("Table 1", "large", "dev bpc"): "1.060",
        ("Table 1", "large", "test bpc"): "98",
        ("Table 1", "large", "speed"): "84.4K",
    }


def test_each_is_a_line_of_its_own(run):
    done = run("python", "fairseq_plugins/tools/published.py", ROOT / "recipes/all_attention/paper.json")
    assert "Table 1|small|test bpc\t1.01\n" in done.stdout
