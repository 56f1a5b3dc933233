"""Ages of the tokens that a block looks at."""

from fairseq_plugins.modules.transformer_xl import ages
from fairseq_plugins.modules.transformer_xl.ages import Run


def test_a_memory_and_the_block_after_it_are_one_run():
    seen = ages.followed_by(ages.just_before(4), ages.of_block(3))
    assert seen == (Run(7, -2),)
    assert ages.tensor(seen).tolist() == [4, 3, 2, 1, 0, -1, -2]


def test_an_empty_memory_has_no_runs():
    assert ages.just_before(0) == ()
    assert ages.tensor(()).tolist() == []
