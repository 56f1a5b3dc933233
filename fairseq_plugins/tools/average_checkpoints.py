"""Average the parameters of several checkpoints of one run.

    python -m fairseq_plugins.tools.average_checkpoints runs/wmt --last 10 --by update --output runs/wmt/average.pt
    python -m fairseq_plugins.tools.average_checkpoints a.pt b.pt --output average.pt

Sums are in float64, means of half precision in float32. Parameters that are tied in every checkpoint are averaged once
and stay tied. The result can be used for generation, and as the start of a training. A training cannot be resumed from
it, since it has no optimizer state.
"""

import filecmp
import re
from itertools import combinations
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.options.ranges import whole
from fairseq_plugins.tools.lib.command import Command, each_once
from fairseq_plugins.tools.lib.out_file import CHECKPOINT

OF_TRAINING = r"checkpoint(\d|_\d|_best|_last|\.best_)"  # how the names begin that fairseq-train gives
PATTERNS = {"epoch": r"checkpoint(\d+)\.pt", "update": r"checkpoint_\d+_(\d+)\.pt"}


def main():
    parser = Command(__doc__)
    parser.add_argument("inputs", type=Path, nargs="+", help="checkpoints; with --last, the folder of a training")
    parser.option("--last", whole(1), None, "N", "average the last N checkpoints of the folder")
    parser.add_argument("--by", choices=PATTERNS, help="with --last: written after epochs (default), or after updates")
    parser.add_argument("--output", type=CHECKPOINT, required=True, metavar="FILE", help="such as average.pt")
    args = parser.parse()
    from fairseq_plugins.files import sealed
    from fairseq_plugins.text.keeping import holds_other_text, keep_with_checkpoints
    from fairseq_plugins.text.prepared import folder_of

    paths = to_average(args.inputs, args.last, args.by)
    if args.output.exists() and re.match(OF_TRAINING, args.output.name):
        raise UserError(f"--output: {args.output} is a checkpoint already; name another file, such as average.pt.")
    text, folder = folder_of(paths[-1]), args.output.resolve().parent
    if holds_other_text(text, folder):
        raise UserError(
            f"--output: {folder} holds files of a text that was prepared otherwise than that of {paths[-1]}; name a"
            " file in another folder."
        )
    print(f"averaging {len(paths)} checkpoints: {' '.join(path.name for path in paths)}", flush=True)
    state = average(paths)
    keep_with_checkpoints(text, folder)
    sealed.save(state, args.output)
    print(f"wrote {args.output}")


def to_average(inputs: list[Path], last: int | None, by: str | None) -> list[Path]:
    """The checkpoints that are named, or the last ones of a folder. Raises UserError if the flags do not go together, a
    file is named twice, or one is a copy of another."""
    if not last:
        if by:
            raise UserError("--by needs --last, the number of checkpoints; add it, or leave out --by.")
        return no_copies(each_once("inputs", inputs))
    if len(inputs) > 1:
        raise UserError(f"--last takes one folder, not {len(inputs)}; average each on its own.")
    return last_checkpoints(inputs[0], last, by or "epoch")


def no_copies(paths: list[Path]) -> list[Path]:
    """The paths, if no file is a copy of another. fairseq copies checkpoints to checkpoint_best and checkpoint_last."""
    for one, other in combinations([path for path in paths if path.is_file()], 2):
        if filecmp.cmp(one, other, shallow=False):
            raise UserError(f"{other} is a copy of {one}, which would count twice; leave one of them out.")
    return paths


def last_checkpoints(folder: Path, number: int, by: str) -> list[Path]:
    """The ``number`` newest epoch or update checkpoints, oldest first."""
    from fairseq import checkpoint_utils

    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: --last takes the --save-dir of a training.")
    paths = checkpoint_utils.checkpoint_paths(str(folder), PATTERNS[by])
    if not 1 <= number <= len(paths):
        raise UserError(
            f"{folder} holds {len(paths)} checkpoints by {by}, fewer than --last {number}: choose another number,"
            " or another --by."
        )
    return [Path(path) for path in reversed(paths[:number])]


def average(paths: list[Path]) -> dict:
    """The state of the last checkpoint, with the mean of all checkpoints' parameters. Integer buffers are those of the
    last checkpoint. Raises UserError if a file is missing or damaged, or the parameters differ in names or shapes."""
    import torch
    from omegaconf import OmegaConf

    totals: dict = {}
    storages: dict[str, tuple] = {}
    text: dict = {}
    for path in paths:
        state = _load(path)
        model = state["model"]
        if totals:
            _check_same(totals, model, paths[0], path)
        symbols = (state["extra_state"].get("text") or {}).get("symbols") or {}
        if any(text.setdefault(side, each) != each for side, each in symbols.items()):
            raise UserError(
                f"{path} is of a text with other symbols than {paths[0]}: give checkpoints of one model only."
            )
        for name, tensor in model.items():
            # tensors with the same address are tied; the address of empty tensors is 0
            address = tensor.data_ptr() or name
            storages[name] = storages.get(name, ()) + (address,)
            totals[name] = tensor.double() + totals.get(name, 0) if tensor.is_floating_point() else tensor
    means: dict = {}
    for name, tensor in model.items():
        if tensor.is_floating_point():
            tensor = (totals[name] / len(paths)).to(torch.promote_types(tensor.dtype, torch.float32))
        model[name] = means.setdefault((storages[name], tensor.shape), tensor)
    state.pop("last_optimizer_state", None)
    state["extra_state"].pop("identity", None)  # the memory files belong to the last checkpoint, not to the average
    if OmegaConf.is_config(state.get("cfg")):
        # as fairseq's trainer saves it
        state["cfg"] = OmegaConf.to_container(state["cfg"], resolve=True, enum_to_str=True)
    return state


def _load(path: Path) -> dict:
    from fairseq import checkpoint_utils

    if path.is_dir():
        raise UserError(f"{path} is a folder: name its checkpoints, or add --last to average the last ones.")
    if not path.is_file():
        raise UserError(f"{path} does not exist: name a checkpoint file, or a folder together with --last.")
    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
        state["model"].items()
    except UserError:
        raise
    except Exception as error:  # torch raises many kinds, by where the file is cut
        raise UserError(
            f"{path} is not a readable fairseq checkpoint ({type(error).__name__}: {str(error).splitlines()[0]})."
        ) from error
    return state


def _check_same(one: dict, other: dict, first: Path, path: Path) -> None:
    if names := sorted(one.keys() ^ other.keys()):
        raise UserError(
            f"{path} and {first} differ in parameter {names[0]} ({len(names)} in all): give checkpoints of one"
            " model only."
        )
    for name in one:
        if one[name].shape != other[name].shape:
            raise UserError(
                f"{name} has shape {tuple(other[name].shape)} in {path} but {tuple(one[name].shape)} in {first}: "
                "give checkpoints of one model only."
            )


if __name__ == "__main__":
    main()
