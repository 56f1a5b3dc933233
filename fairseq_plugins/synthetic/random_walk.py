"""A random walk on a grid: where is the agent after each of its actions? (Feedback paper, section 7.1)

The agent turns left, turns right or steps forward, with equal probabilities. A step out of the grid is ignored. An
episode begins with "reset", which puts the agent back to its start. Our choices: the agent starts in the middle and
faces up, and "reset" has no label, since there is nothing to predict.
"""

from random import Random

from fairseq_plugins.synthetic.episodes import Episode, Kind

SIZE = 8
START = (SIZE // 2, SIZE // 2)
DIRECTIONS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left
TURNS = {"left": -1, "right": 1}
ACTIONS = ("forward", *TURNS)


def walk(draw: Random, length: int) -> Episode:
    """An episode of ``length`` actions. Labels are row and column, such as 4,3."""
    (row, column), direction = START, 0
    actions, labels = [draw.choice(ACTIONS) for _ in range(length)], []
    for action in actions:
        if action in TURNS:
            direction = (direction + TURNS[action]) % len(DIRECTIONS)
        else:
            down, right = DIRECTIONS[direction]
            if 0 <= row + down < SIZE and 0 <= column + right < SIZE:
                row, column = row + down, column + right
        labels.append(f"{row},{column}")
    return Episode(["reset", *actions], [None, *labels])


LOCATIONS = tuple(f"{row},{column}" for row in range(SIZE) for column in range(SIZE))
RANDOM_WALK = Kind(walk, ("reset", *ACTIONS, *LOCATIONS), 100, 100)
