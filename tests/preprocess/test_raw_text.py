from collections import Counter

from lib import raw_text

from fairseq_plugins.text.languages import words, words_and_letters


def test_strange_line_separators_do_not_shift_lines(tmp_path):
    file = tmp_path / "strange.en"
    file.write_bytes("one\u2028two\x85three\rfour\r\nnext\x0bline\n".encode())
    assert list(raw_text.read_sentences(file)) == ["one two three four", "next line"]


def test_a_byte_order_mark_is_left_out(tmp_path):
    (tmp_path / "marked.en").write_bytes("\ufeffone\r\n\ufefftwo\n".encode())
    assert list(raw_text.read_lines(tmp_path / "marked.en")) == ["one", "\ufefftwo"]
    assert "".join(raw_text.read_lines(tmp_path / "marked.en", ends=True)) == "one\r\n\ufefftwo\n"


def test_pairs_are_cleaned_by_their_own_lengths():
    pairs = [("老人看见月亮。", "the old man sees the moon."), ("老人", ""), ("老人看", "a b"), ("老人看", "a b c")]
    dropped = Counter()
    kept = list(raw_text.clean(pairs, (words_and_letters, words), max_words=6, max_ratio=1.2, dropped=dropped))
    assert kept == [pairs[3]]
    assert dropped == {"longer than --max-words 6": 1, "empty": 1, "more unequal than --max-ratio 1.2": 1}
