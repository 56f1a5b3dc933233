import pytest

from fairseq_plugins.text.lines import halves, join, parts, squeeze


def test_control_characters_are_spaces():
    assert squeeze(" one\x85two\tthree  \x1c four\n") == "one two three four"


@pytest.mark.parametrize(
    "line, parts",
    [
        ("It rained. We went home. Nobody came.", ("It rained. We went home.", "Nobody came.")),
        ("老人看见月亮。女孩看见大海。", ("老人看见月亮。", "女孩看见大海。")),
        ("one two three four", ("one two", "three four")),
        ("老人看见月亮", ("老人看", "见月亮")),
    ],
)
def test_a_line_is_cut_where_it_hurts_least(line, parts):
    assert halves(line) == parts


def test_a_long_line_is_cut_until_its_parts_fit():
    def encode(line):
        return [*line.split(), "end"]

    assert parts("one two three four five six seven", encode, 4) == [
        ["one", "two", "end"], ["three", "four", "end"], ["five", "six", "seven", "end"],
    ]  # fmt: skip
    assert parts("one two", encode, 3) == [["one", "two", "end"]] and parts("", encode, 3) == []


def test_parts_are_joined_as_their_language_is_written():
    assert (
        join(["It rained.", "We left."]) == "It rained. We left." and join(["老人看见", "月亮。"]) == "老人看见月亮。"
    )
    assert join([]) == ""
