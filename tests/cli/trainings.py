"""What the tests of commands ask of trainings: weights, losses, translations; and two ranks."""

import re
import sys
from pathlib import Path

import torch

from fairseq_plugins import compat  # noqa: F401  (allows torch.load to read fairseq's checkpoints)

BIN = Path(sys.executable).parent


def weights(place: Path) -> dict[str, torch.Tensor]:
    """Of a checkpoint, or of the last one in a folder."""
    return torch.load(place / "checkpoint_last.pt" if place.is_dir() else place)["model"]


def assert_same_weights(one: Path, other: Path, rtol=0.0, atol=0.0) -> None:
    """Bit for bit, unless a tolerance is given."""
    one, other = weights(one), weights(other)
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=rtol, atol=atol)


def torchrun(run, command, *options, **kwargs):
    """Run a command in two processes."""
    return run("torchrun", "--standalone", "--nproc_per_node", 2, BIN / command[0], *command[1:], *options, **kwargs)


def hypotheses(done) -> dict[int, str]:
    """Sentence number -> translation, from fairseq-generate or -interactive."""
    return {int(number): text for number, text in re.findall(r"^H-(\d+)\t\S+\t(.*)$", done.stdout, re.MULTILINE)}
