#!/usr/bin/env bash
# popgym 1.0.7, LabyrinthEscape and LabyrinthExplore: mazes come from the global generators of Python and numpy, which
# reset(seed=...) sets.
#
# Guess: as gymnasium says, reset(seed=1) seeds the environment's own generator, and the next reset() without a seed goes
# on with it. So the second maze of an environment does not depend on what else the process does, and the random numbers
# of the program do not depend on the environment. Seen: after reset(seed=1) the program's random.random() and
# numpy.random.random() are the same numbers each time, whatever it had drawn before; and the second maze is another one
# if the program draws a number in between, or has a second environment. So episodes depend on the number of
# environments in a process, and exploration with global generators repeats itself after each reset with a seed.
#
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 gymnasium==1.4.0 popgym==1.0.7 mazelib==0.9.16
"$folder/venv/bin/python" -W ignore - <<'PYTHON' 2>/dev/null
import random
import sys
from importlib import metadata

import gymnasium
import numpy as np
import popgym  # noqa: F401  registers its environments

NAMES = ["popgym-LabyrinthEscapeEasy-v0", "popgym-LabyrinthExploreEasy-v0", "popgym-RepeatPreviousEasy-v0"]


def after_reset(name: str, drawn_before: int) -> tuple[float, float]:
    """The program's next random numbers after a reset with a seed."""
    random.seed(drawn_before), np.random.seed(drawn_before)
    gymnasium.make(name).reset(seed=1)
    return random.random(), np.random.random()


def second_maze(name: str, draw: bool) -> list:
    """What an agent sees in the second episode, with the same actions."""
    environment = gymnasium.make(name)
    random.seed(2), np.random.seed(2)
    environment.reset(seed=1)
    if draw:
        random.random(), np.random.random()
    seen = [environment.reset()[0]]
    for action in [0, 1, 2, 3] * 4:
        observation, _, terminated, truncated, _ = environment.step(action % environment.action_space.n)
        seen.append(observation)
        if terminated or truncated:
            break
    return [np.concatenate([np.ravel(part) for part in (x if isinstance(x, tuple) else (x,))]).tolist() for x in seen]


print(f"popgym {metadata.version('popgym')}, gymnasium {metadata.version('gymnasium')}")
found = {}
for name in NAMES:
    found[name] = after_reset(name, 3) == after_reset(name, 4), second_maze(name, False) != second_maze(name, True)
    print(f"{name}: the program's generators are set: {found[name][0]}; a draw changes the next episode: {found[name][1]}")
sys.exit([*found.values()] != [(True, True), (True, True), (False, False)])
PYTHON
