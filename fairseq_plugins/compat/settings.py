"""Patches that treat the settings in a checkpoint as data: they run no code and no shell command, and write no file."""

import argparse
import shlex
import sys
import tarfile

import omegaconf
from fairseq import checkpoint_utils, file_utils
from fairseq.data.fasta_dataset import FastaDataset

from fairseq_plugins.compat.patch import replace
from fairseq_plugins.errors import UserError
from fairseq_plugins.literals import evaluate

# Settings of fairseq's criterions and tasks that name files to write or programs to run. Only the user may set them.
OUTPUTS = ("save_predictions", "tensorboard_logdir", "post_save_script")


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


def outputs_are_the_users():
    """fairseq-validate builds the task and the criterion of a checkpoint. Some of them write or empty a file that their
    settings name. The patch removes such settings from a loaded checkpoint."""

    @replace(checkpoint_utils, "load_checkpoint_to_cpu")
    def load_checkpoint_to_cpu(original, *args, **kwargs):
        state = original(*args, **kwargs)
        if isinstance(state, dict):
            forget_outputs(state.get("cfg"))
        return state


def forget_outputs(cfg) -> None:
    """Unset the ``OUTPUTS`` of a configuration and of its parts."""
    if isinstance(cfg, argparse.Namespace):
        vars(cfg).update(dict.fromkeys(set(OUTPUTS) & set(vars(cfg))))
    elif isinstance(cfg, omegaconf.DictConfig):
        with omegaconf.open_dict(cfg):
            for name in cfg:
                if name in OUTPUTS:
                    cfg[name] = None
                elif name in cfg:  # it may be missing
                    forget_outputs(cfg[name])


def archives_stay_in_their_folder():
    """When fairseq unpacks the archive of a pretrained model, names in it may point outside its folder. The patch
    refuses such names, as Python 3.14 does by itself."""

    @replace(file_utils, "load_archive_file")
    def load_archive_file(original, archive_file):
        trusting = tarfile.TarFile.extraction_filter
        tarfile.TarFile.extraction_filter = staticmethod(within_folder)
        try:
            return original(archive_file)
        except tarfile.FilterError as error:
            raise UserError(f"{archive_file} is not an archive of a model: {error}; nothing was loaded.") from error
        finally:
            tarfile.TarFile.extraction_filter = trusting


def within_folder(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """A filter for ``tarfile`` that also refuses absolute names, since fairseq would move the files there."""
    if member.name.startswith("/"):
        raise tarfile.AbsolutePathError(member)
    return tarfile.data_filter(member, folder)
