import pytest
from sentences import PARTS, sentences

from fairseq_plugins.text.languages import by_script, has_spaces, words, words_and_letters


@pytest.mark.parametrize("language", PARTS)
def test_scripts_tell_whether_words_are_apart(language):
    assert has_spaces(sentences(language, 20)) == (language not in ("zh", "ja"))


@pytest.mark.parametrize(
    "line, spaces",
    [
        ("ฉันเห็นดวงจันทร์ และทะเล", False),
        ("កុមារីឃើញព្រះច័ន្ទ", False),
        ("소녀는 달을 봅니다.", True),
        ("The word 月 means moon.", True),
        ("", True),
    ],
)
def test_scripts_of_other_languages(line, spaces):
    assert has_spaces([line]) == spaces


def test_kana_is_japanese_and_characters_alone_are_chinese():
    assert [by_script(sentences(language, 9)) for language in ("ja", "zh", "fi")] == ["ja", "zh", None]


def test_letters_count_as_words_where_nothing_else_does():
    assert words("我喜欢 the moon") == 3
    assert words_and_letters("我喜欢 the moon") == 5
    assert words_and_letters("老人，看见 月亮。") == 8  # the marks stand apart
