#!/usr/bin/env bash
# POPGym 1.0.7, RepeatPrevious(k=1): the card that is asked for is the one in view, not the one before it.
#
# Guess: the documentation of the environment says that the agent must output the suit of the card of k timesteps ago,
# with k = 1 that of the previous card. So whoever outputs the suit that it saw a step earlier gets the highest reward, 1,
# and whoever repeats the suit in view gets about what chance gives, -0.5. Seen: it is the other way round. The suit in
# view gets 1, without any memory; with k = 4, as in RepeatPreviousEasy, the suit of three steps ago does. A comparison by
# k with other environments that ask for the k-th last symbol is off by one step of memory.
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
from statistics import mean

from popgym.envs.repeat_previous import RepeatPrevious

EPISODES = 50


def reward(k: int, back: int) -> float:
    """Of an episode, on average, of an agent that outputs the suit that it saw ``back`` steps ago."""
    environment, rewards = RepeatPrevious(k=k), []
    for seed in range(EPISODES):
        suit, _ = environment.reset(seed=seed)
        seen, total, ended = [suit], 0.0, False
        while not ended:
            suit, gained, terminated, truncated, _ = environment.step(seen[-1 - back] if len(seen) > back else 0)
            seen.append(suit)
            total, ended = total + gained, terminated or truncated
        rewards.append(total)
    return round(mean(rewards), 2)


found = {(k, back): reward(k, back) for k in (1, 4) for back in (k - 1, k)}
print("popgym", metadata.version("popgym"), {f"k={k}, {back} steps ago": value for (k, back), value in found.items()})
as_seen = found[1, 0] == found[4, 3] == 1 and found[1, 1] < 0 and found[4, 4] < 0
sys.exit(0 if as_seen else "another result than on 2026-11-30")
PYTHON
