"""Write the folder of a trained model: its weights, its dictionaries, and how raw text becomes symbols.

    python -m fairseq_plugins.tools.export runs/mine --out mine
    python -m fairseq_plugins.tools.export runs/mine/checkpoint_last.pt --out mine --format safetensors

``from_pretrained`` and the tools read the folder in any place, and give exactly the same scores. It holds no state of
an optimiser: to go on with a training, keep the checkpoint. With --format safetensors the weights are in
model.safetensors, which needs the package safetensors, and everything else is in config.json. An earlier export is
replaced; other files never are.
"""

from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.reading import FORMATS, checkpoint
from fairseq_plugins.tools.lib.command import Command


def main():
    parser = Command(__doc__)
    parser.add_argument("checkpoint", type=checkpoint, help="a checkpoint, or its folder")
    parser.option("--out", Path, None, "FOLDER", "a new folder", required=True)
    parser.add_argument("--format", choices=FORMATS, default="torch", help="of the weights (%(default)s)")
    parser.option("--data", Path, None, "DIR", "folder of the dictionaries, if it is elsewhere")
    args = parser.parse()
    from fairseq_plugins.models.common import saving

    saving.checked(args.out)
    kind = model_of(args.checkpoint)
    hub = kind.from_pretrained(args.checkpoint.parent, args.checkpoint.name, args.data)
    hub.save_pretrained(args.out, args.format)
    print(f"wrote {args.out}: {sum(file.stat().st_size for file in args.out.iterdir()):,} bytes. To load it:")
    print(f"from {kind.__module__} import {kind.__name__}")
    print(f"model = {kind.__name__}.from_pretrained({str(args.out)!r})")


def model_of(path: Path):
    """The class of the model in a checkpoint. Raises UserError for one without ``save_pretrained``."""
    from fairseq import checkpoint_utils

    from fairseq_plugins.models.common.architectures import model_class
    from fairseq_plugins.models.common.hub import FromFolder

    if not path.is_file():
        raise UserError(f"the checkpoint {path} does not exist; give one that fairseq-train wrote.")
    settings = checkpoint_utils.load_checkpoint_to_cpu(str(path))["cfg"].model
    name = getattr(settings, "_name", None) or getattr(settings, "arch", None)
    kind = model_class(str(name))
    if kind is None or not issubclass(kind, FromFolder):
        raise UserError(f"{path} holds a {name}; give a language model or a translation model of this suite.")
    return kind


if __name__ == "__main__":
    main()
