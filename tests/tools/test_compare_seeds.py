from fairseq_plugins.tools.compare_seeds import table
from fairseq_plugins.tools.lib.generation_log import Example

REFERENCES = [
    f"the {animal} sees the {thing} in the {place} ."
    for animal in ("dog", "cat", "cow")
    for thing in ("ball", "tree", "boat")
    for place in ("garden", "house", "street")
]


def translations(mistakes):
    """Examples of which the first few get a word wrong."""
    return [Example("", ref, ref.replace("sees", "saw") if i < mistakes else ref) for i, ref in enumerate(REFERENCES)]


def test_means_spreads_and_a_difference_beyond_chance():
    lines = table(
        {"ours": [translations(0), translations(1)], "theirs": [translations(20), translations(22)]},
        REFERENCES,
        "en",
        False,
    )
    text = "\n".join(lines)
    assert "| ours | 100.00," in text
    assert "larger than the spread" in text
    p_values = [float(part.split(")")[0]) for part in text.split("p = ")[1:]]
    assert len(p_values) == 2 and max(p_values) < 0.01


def test_a_difference_within_the_spread_is_called_that():
    runs = [translations(2), translations(8)]
    text = "\n".join(table({"ours": runs, "theirs": runs[::-1]}, REFERENCES, "en", False))
    assert "+0.00, within the spread" in text


def test_one_seed_has_no_spread():
    text = "\n".join(table({"ours": [translations(1)], "theirs": [translations(1)]}, REFERENCES, "en", False))
    assert "(one seed)" in text and "p = 1.000" in text
