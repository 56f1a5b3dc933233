import pytest
import raw_text


def test_strange_line_separators_do_not_shift_lines(tmp_path):
    file = tmp_path / "strange.en"
    file.write_bytes("one\u2028two\x85three\rfour\r\nnext\x0bline\n".encode())
    assert list(raw_text.read_sentences(file)) == ["one two three four", "next line"]


@pytest.mark.parametrize("line", ["It's Tom's well-known “café”, isn't it?", "Er sagte: „Nein, 3,5 % & <b> | [x]“."])
def test_tokens_detokenise_to_the_line(line):
    assert raw_text.detokenise(raw_text.tokenise(line, "en"), "en").replace(" ", "") == line.replace(" ", "")


def test_hyphenated_words_stay_whole():
    assert raw_text.tokenise("a well-known man.", "en", lower=True) == "a well-known man ."


def test_summary_sentences_are_separated_and_nothing_in_the_text_can_pose_as_separator():
    assert raw_text.tokenise_summary("Rain fell. <q> He <q>left.", "en") == "Rain fell . <q> He &lt; q &gt; left ."


def test_articles_are_cut_at_tokens():
    assert raw_text.tokenise_words("One, two, three, four.", "en", 5) == "One , two , three"
