"""Ages of the tokens that a block looks at."""

from fairseq_plugins.modules.transformer_xl import ages
from fairseq_plugins.modules.transformer_xl.ages import Run


def test_a_memory_and_the_block_after_it_are_one_run():
    seen = ages.followed_by(ages.just_before(4), ages.of_block(3))
    assert seen == (Run(7, -2),)
    assert ages.tensor(seen).tolist() == [4, 3, 2, 1, 0, -1, -2]


def test_a_memory_that_was_retained_lies_further_back():
    retained = ages.after(ages.just_before(4), 3)
    seen = ages.followed_by(retained, ages.of_block(2))
    assert seen == (Run(4, 4), Run(2, -1))
    assert ages.tensor(seen).tolist() == [7, 6, 5, 4, 0, -1]


def test_the_last_tokens_of_several_runs():
    seen = (Run(4, 4), Run(2, -1))
    assert ages.last(seen, 5) == (Run(3, 4), Run(2, -1))
    assert ages.last(seen, 1) == (Run(1, -1),)
    assert ages.last(seen, 9) == seen
    assert ages.last(seen, 0) == ()


def test_an_empty_memory_has_no_runs():
    assert ages.just_before(0) == ()
    assert ages.tensor(()).tolist() == []
