"""The files that tools write. A tool knows its own by their ending, so no result takes the place of a checkpoint, a
table or a log that was named by mistake."""

import argparse
from pathlib import Path


class OutFile:
    """A type for argparse: the path of a file whose name has one of these endings."""

    def __init__(self, *endings: str):
        self.endings = endings

    def __call__(self, name: str) -> Path:
        path = Path(name)
        if path.is_dir():
            raise argparse.ArgumentTypeError(f"{name!r} is a folder; give the name of a file")
        if path.suffix.lower() not in self.endings:
            endings = " or ".join(self.endings)
            raise argparse.ArgumentTypeError(f"{name!r} is no name of a file that ends in {endings}; give one")
        return path


JSON = OutFile(".json")
CHECKPOINT = OutFile(".pt")
HTML = OutFile(".html")
PICTURE = OutFile(".png", ".pdf", ".svg")
ANIMATION = OutFile(".gif")
