"""What a checkpoint says of itself is data: no code, no command for a shell, no file to write."""

import argparse
import ast
import operator
import shlex
import sys
import tarfile

import omegaconf
from fairseq import checkpoint_utils, file_utils
from fairseq.data.fasta_dataset import FastaDataset

from fairseq_plugins.compat.patch import replace
from fairseq_plugins.errors import UserError

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
LONGEST, MOST = 10_000, 1_000  # characters of a setting, entries of a product in it

# Settings of fairseq's criterions and tasks that name what is written or run: what a command writes is its user's choice.
OUTPUTS = ("save_predictions", "tensorboard_logdir", "post_save_script")


def settings_are_data():
    """fairseq calls ``eval`` on strings of a configuration, such as "[(512, 3)] * 4". A checkpoint brings its own
    configuration and chooses the architecture that reads it, so loading one could run any code. Every module of fairseq
    gets an ``eval`` of its own, which stands in front of Python's and computes only what such strings are meant to be."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("fairseq", "fairseq_cli"):
            module.eval = evaluate


def names_are_no_commands():
    """fairseq reads a FASTA file with commands of a shell, into which it writes the file's name; the languages in it may
    come from a checkpoint."""

    @replace(FastaDataset, "_build_index")
    def build_index(original, self, path):
        return original(self, shlex.quote(path))


def outputs_are_the_users():
    """fairseq-validate builds the task and criterion that a checkpoint names, and some empty or write a file that their
    settings name."""

    @replace(checkpoint_utils, "load_checkpoint_to_cpu")
    def load_checkpoint_to_cpu(original, *args, **kwargs):
        state = original(*args, **kwargs)
        if isinstance(state, dict):
            forget_outputs(state.get("cfg"))
        return state


def forget_outputs(cfg) -> None:
    """Unset what a configuration, or a part of it, says of files to write."""
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
    """fairseq unpacks the archive of a pretrained model wherever the names in it point to, also outside of its folder.
    Python 3.14 refuses that by itself."""

    @replace(file_utils, "load_archive_file")
    def load_archive_file(original, archive_file):
        trusting = tarfile.TarFile.extraction_filter
        tarfile.TarFile.extraction_filter = staticmethod(within_folder)
        try:
            return original(archive_file)
        except tarfile.FilterError as error:
            raise UserError(f"{archive_file} is no archive of a model: {error}; nothing of it was loaded.") from error
        finally:
            tarfile.TarFile.extraction_filter = trusting


def within_folder(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """A filter of ``tarfile`` that also refuses absolute names, to which fairseq would move what lies there."""
    if member.name.startswith("/"):
        raise tarfile.AbsolutePathError(member)
    return tarfile.data_filter(member, folder)


def evaluate(text):
    """What a setting says: "[1000] * 3 + [0.5]" -> [1000, 1000, 1000, 0.5]

    Numbers, strings, None, True and False; lists, tuples and dictionaries of these; sums, differences, products and
    quotients. Nothing else has a meaning, so nothing is ever called, imported or looked up.

    Raises:
        UserError: the text is anything else
        TypeError: it is no text, as ``eval`` raises it, which fairseq relies on
    """
    if not isinstance(text, str):
        raise TypeError("a setting must be a string")
    try:
        if len(text) > LONGEST:
            raise ValueError("too long")
        return value_of(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError) as error:
        shown = text if len(text) < 100 else f"{text[:100]}..."
        raise UserError(
            f"the setting {shown!r} could be code and was not evaluated: a setting is a number, a list, a tuple or a"
            " dictionary, or a sum or product of such. Correct the flag, or take another checkpoint."
        ) from error


def value_of(node: ast.expr):
    """The value of a part of a setting; raises ValueError where it has none."""
    match node:
        case ast.Constant(value=int() | float() | str() | None as value):
            return value
        case ast.List(elts=parts):
            return [value_of(part) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(value_of(part) for part in parts)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {value_of(key): value_of(value) for key, value in zip(keys, values)}
        case ast.UnaryOp(op=sign, operand=part) if type(sign) in OPERATORS:
            return OPERATORS[type(sign)](value_of(part))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
            left, right = value_of(left), value_of(right)
            if isinstance(sign, ast.Mult):
                check_product(left, right)
            return OPERATORS[type(sign)](left, right)
    raise ValueError(f"{type(node).__name__} has no meaning in a setting")


def check_product(left, right) -> None:
    """Refuse lists and strings that are repeated until they fill the memory."""
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, list | tuple | str) and isinstance(times, int) and len(sequence) * times > MOST:
            raise ValueError("too long")
