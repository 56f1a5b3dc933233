"""Lines of brackets for --task labelled_stream: each opening bracket is labelled with the number that are open."""

import random
from pathlib import Path

draw, folder = random.Random(1), Path("raw/brackets")
folder.mkdir(parents=True, exist_ok=True)
for split, lines in (("train", 500), ("valid", 50), ("test", 50)):
    with open(folder / f"{split}.txt", "w") as text, open(folder / f"{split}.labels", "w") as labels:
        for _ in range(lines):
            opened = 0
            for _ in range(20):
                symbol = "(" if opened == 0 or draw.random() < 0.5 else ")"
                opened += 1 if symbol == "(" else -1
                text.write(f"{symbol} ")
                labels.write(f"{opened} " if symbol == "(" else "_ ")
            text.write("|\n")
            labels.write("_\n")
