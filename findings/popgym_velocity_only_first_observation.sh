#!/usr/bin/env bash
# popgym 1.0.7, VelocityOnlyCartPole: the first observation of each episode is the position and the angle.
#
# Guess: the documentation says that position and angle are deleted, so the agent sees two velocities from the first
# observation on, and can at best know how far it has moved. Seen: reset() gives the position and the angle, in the places
# of the velocities, and step() gives the velocities. So the start is told: whoever adds up the velocities from there has
# the whole state, which is meant to be hidden. And one observation of each episode means something else than the others,
# also to a model without a memory. PositionOnlyCartPole has the same line in reset(), where it is right.
#
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet popgym==1.0.7 gymnasium==1.4.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys
from importlib import metadata

import numpy
from popgym.envs import velocity_only_cartpole

EPISODES, STEPS = 20, 5


def shown(environment, observation) -> str:
    """The part of the state that an observation is."""
    position, velocity, angle, turning = environment.get_state()
    parts = {"velocities": (velocity, turning), "position and angle": (position, angle)}
    return "".join(name for name, part in parts.items() if numpy.array_equal(observation, numpy.float32(part)))


def observations(kind) -> dict[str, set[str]]:
    environment, found = kind(), {"reset": set(), "step": set()}
    for seed in range(EPISODES):
        found["reset"].add(shown(environment, environment.reset(seed=seed)[0]))
        for step in range(STEPS):
            found["step"].add(shown(environment, environment.step(step % 2)[0]))
    return found


print("popgym", metadata.version("popgym"))
expected, as_seen = {"reset": {"position and angle"}, "step": {"velocities"}}, True
for name in (f"VelocityOnlyCartPole{level}" for level in ("Easy", "Medium", "Hard")):
    found = observations(getattr(velocity_only_cartpole, name))
    print(name, {call: " or ".join(parts) for call, parts in found.items()})
    as_seen &= found == expected
sys.exit(not as_seen)
PYTHON
