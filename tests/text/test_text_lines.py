import pytest

from fairseq_plugins.text.lines import halves, squeeze


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
