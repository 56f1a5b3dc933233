"""Patches that treat the settings in a checkpoint as data: they run no code and no shell command."""

import shlex
import sys

from fairseq.data.fasta_dataset import FastaDataset

from fairseq_plugins.compat.patch import replace
from fairseq_plugins.options.literals import evaluate


def settings_are_data():
    """fairseq calls ``eval`` on strings of a configuration, such as "[(512, 3)] * 4". A checkpoint contains its
    configuration and the name of the architecture that reads it, so loading a checkpoint could run any code. The patch
    replaces ``eval`` in every module of fairseq by ``evaluate``, which computes numbers, lists and the like only."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("fairseq", "fairseq_cli"):
            module.eval = evaluate


def names_are_no_commands():
    """fairseq reads a FASTA file with shell commands that contain the file's name, parts of which may come from a
    checkpoint. The patch quotes the name."""

    @replace(FastaDataset, "_build_index")
    def build_index(original, self, path):
        return original(self, shlex.quote(path))
