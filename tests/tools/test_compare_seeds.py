from pathlib import Path

import pytest
from generation_logs import write_log

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import compare_seeds
from fairseq_plugins.tools.compare_seeds import table
from fairseq_plugins.tools.lib.generation_log import Example, of_other_sentences

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
    runs = {"ours": [translations(0), translations(1)], "theirs": [translations(20), translations(22)]}
    text = "\n".join(table(runs, REFERENCES, "en", False))
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


@pytest.mark.parametrize("system, baseline, flags, sentence", [
    (["a"], ["other"], [], "other and .*a have other references; give outputs for one test set"),
    (["a"], ["short"], [], "short and .*a have other references"),
    (["a", "a"], ["b", "b"], [], "--system: .*a is named twice"),
    (["a"], ["b"], ["--names", "x", "x"], "--names: both systems are called x"),
    (["a"], ["twice"], [], "twice has sentence 0 twice; give the output of one run"),
    (["a"], ["none"], [], "none has no sentences"),
])  # fmt: skip
def test_runs_that_cannot_be_compared_are_named(system, baseline, flags, sentence, tmp_path, monkeypatch, main):
    monkeypatch.chdir(tmp_path)
    Path("ref").write_text("\n".join(REFERENCES) + "\n")
    sets = {"a": REFERENCES, "b": REFERENCES, "other": REFERENCES[::-1], "short": REFERENCES[:9], "none": []}
    for name, references in sets.items():
        write_log(Path(name), references, references)
    Path("twice").write_text(Path("a").read_text() * 2)
    files = ["--references", "ref", "--system", *system, "--baseline", *baseline]
    with pytest.raises(UserError, match=sentence):
        main(compare_seeds, "--lang", "en", *files, *flags)


def test_one_test_set_may_be_lowercased_have_other_marks_or_be_raw_text():
    tokens, raw = Example("", "It &apos;s a Dog .", "x"), Example("", "It's a dog.", "y", raw=True)
    assert not of_other_sentences(tokens, tokens._replace(target="it &apos;s a dog ."))
    assert not of_other_sentences(tokens, tokens._replace(target="It ’ s a Dog ."))
    assert not of_other_sentences(tokens, raw)
    assert not of_other_sentences(Example("", "10 m² ½", ""), Example("", "10 m2 1⁄2", ""))
    assert of_other_sentences(tokens, tokens._replace(target="It &apos;s a cat ."))
