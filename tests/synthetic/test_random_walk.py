"""The walk against an agent that is told in complex numbers."""

from collections import Counter
from random import Random

from fairseq_plugins.synthetic.random_walk import ACTIONS, LOCATIONS, walk


def follow(actions):
    place, ahead = 4 + 4j, -1  # the real part grows downwards, the imaginary part to the right
    for action in actions:
        ahead *= {"left": 1j, "right": -1j}.get(action, 1)
        if action == "forward" and all(0 <= part < 8 for part in ((place + ahead).real, (place + ahead).imag)):
            place += ahead
        yield f"{place.real:.0f},{place.imag:.0f}"


def test_labels_are_where_the_agent_is():
    random, seen = Random(1), Counter()
    for _ in range(200):
        (reset, *actions), (nothing, *places) = walk(random, 100)
        assert reset == "reset" and nothing is None and len(actions) == 100
        assert list(follow(actions)) == places
        seen.update(places)
    assert set(seen) == set(LOCATIONS)


def test_actions_are_equally_likely():
    actions = Counter(walk(Random(1), 9000).symbols[1:])
    assert actions.keys() == set(ACTIONS) and all(abs(number - 3000) < 200 for number in actions.values())
