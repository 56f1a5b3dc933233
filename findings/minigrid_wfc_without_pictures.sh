#!/usr/bin/env bash
# minigrid 3.2.0 from PyPI: none of the six registered MiniGrid-WFC environments can be reset.
#
# Guess: with the extra that they ask for, `pip install minigrid[wfc]`, all registered environments can be made and
# reset. Seen: all six with wave function collapse end in FileNotFoundError, as the wheel has the code that reads
# pictures of patterns, and no picture. A list of environments that is taken from gymnasium's registry has six that
# nobody can train in.
#
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 gymnasium==1.4.0 'minigrid[wfc]==3.2.0'
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys
from importlib import metadata
from pathlib import Path

import gymnasium
import minigrid

found = {}
for name in sorted(name for name in gymnasium.registry if name.startswith("MiniGrid-WFC")):
    try:
        gymnasium.make(name).reset(seed=1)
        found[name] = "reset"
    except FileNotFoundError as error:
        found[name] = f"lacks {Path(error.filename).name}"
pictures = [path for path in metadata.files("minigrid") if path.suffix == ".png"]
print(f"minigrid {metadata.version('minigrid')}, gymnasium {metadata.version('gymnasium')}; pictures: {len(pictures)}")
print(*(f"{name}: {what}" for name, what in found.items()), sep="\n")
sys.exit(not (len(found) == 6 and not pictures and all(what.startswith("lacks") for what in found.values())))
PYTHON
