"""``save_pretrained``: a folder from which ``from_pretrained`` loads the same model with its text, in any place."""

import copy
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fairseq.hub_utils import GeneratorHubInterface
from omegaconf import DictConfig, OmegaConf, open_dict
from torch import nn

from fairseq_plugins.compat.texts import first_data_folder, languages_of, options_of
from fairseq_plugins.errors import UserError
from fairseq_plugins.files import exported, sealed
from fairseq_plugins.files.reading import BEST, FORMATS
from fairseq_plugins.files.whole import NotWritten, content, flush, remove, replacing
from fairseq_plugins.models.common.int8 import in_int8
from fairseq_plugins.text import dictionaries
from fairseq_plugins.text.keeping import Record
from fairseq_plugins.text.prepared import PreparedText

# Files of fairseq's ways to encode raw text, with the names under which its from_pretrained finds them in a folder
ENCODERS = {
    "bpe_codes": "bpecodes",
    "sentencepiece_model": "sentencepiece.bpe.model",
    "bpe_merges": "merges.txt",
    "bpe_vocab": "vocab.json",
}


def save(hub: GeneratorHubInterface, folder: str | Path, format: str = "torch") -> None:
    """Write the folder of a model, whole or not at all (see ``ModelHub.save_pretrained``)."""
    if format not in FORMATS:
        raise UserError(f"format {format!r} does not fit; give {' or '.join(FORMATS)}.")
    if len(hub.models) > 1:
        raise UserError(f"this is an ensemble of {len(hub.models)} models: load and save each for itself.")
    if in_int8(hub.models[0]):
        raise UserError("a model with int8 cannot be saved: load it without int8, and save that.")
    place = checked(folder)
    with new_folder(place) as temporary:
        keep_text(hub, temporary)
        state = checkpoint(settings_in(hub, place), hub.models[0])
        state["extra_state"]["text"] = Record.of_data(temporary, languages(hub)).as_state()
        kind = type(hub.models[0])
        about: dict[str, Any] = {"class": f"{kind.__module__}.{kind.__qualname__}", "format": format}
        if format == "safetensors":
            about |= exported.write_weights(state, temporary)
        else:
            sealed.save(state, temporary / BEST)
        exported.write_config(about, temporary)


def checkpoint(cfg: DictConfig, model: nn.Module) -> dict[str, Any]:
    """The content of a checkpoint of fairseq, without the state of an optimiser."""
    history = {"num_updates": 0, "criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
    return {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": model.state_dict(),
        "optimizer_history": [history],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}, "val_loss": None},
        "last_optimizer_state": None,
    }


def keep_text(hub: GeneratorHubInterface, folder: Path) -> None:
    """Copy the dictionaries, and the files that say how raw text becomes symbols."""
    data = data_of(hub)
    found = dictionaries.of_task(data, languages(hub))
    if not found:
        raise UserError(f"{data} no longer has the dictionaries of the model: load it again, from where they are.")
    for name in found.values():
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(data / name, folder / name)
    if text := prepared(hub):
        text.save(folder)
        return
    for part in ("bpe", "tokenizer"):
        for name, value in (hub.cfg.get(part) or {}).items():
            if isinstance(value, str) and os.path.isfile(value):
                if name not in ENCODERS:
                    raise UserError(f"{name} is the file {value}, which from_pretrained would not find in a folder.")
                shutil.copyfile(value, folder / ENCODERS[name])


def settings_in(hub: GeneratorHubInterface, folder: Path) -> DictConfig:
    """The configuration of a model whose text is in this folder."""
    cfg = copy.deepcopy(hub.cfg)
    with open_dict(cfg):
        cfg.task.data = str(folder)
        if prepared(hub):
            cfg.bpe = None  # from_pretrained finds prepared_text.json
    return cfg


def prepared(hub: GeneratorHubInterface) -> PreparedText | None:
    """How raw text becomes symbols, if the encoder is ``--bpe prepared``."""
    text = getattr(hub.bpe, "text", None)
    return text if isinstance(text, PreparedText) else None


def data_of(hub: GeneratorHubInterface) -> Path:
    return first_data_folder(options_of(hub.task, hub.cfg.task)) or Path()


def languages(hub: GeneratorHubInterface) -> tuple[str, str] | None:
    return languages_of(options_of(hub.task, hub.cfg.task), data_of(hub))


def checked(folder: str | Path) -> Path:
    """The whole path of a folder. Raises UserError for a place where ``new_folder`` cannot put one."""
    if not isinstance(folder, str | Path) or not str(folder):
        raise UserError(f"{folder!r:.50} is no folder; give the path of a new one.")
    try:
        place = Path(folder).expanduser().resolve()
        if place.exists() and not place.is_dir():
            raise UserError(f"{folder} is a file; name a new folder.")
        if place.is_dir() and any(place.iterdir()) and not exported.is_export(place):
            raise UserError(f"{folder} is not empty, and no export alone is in it: name a new folder.")
    except (OSError, RuntimeError, ValueError) as error:  # such as a name that is too long, or links in a circle
        if isinstance(error, UserError):
            raise
        raise UserError(f"{folder} cannot be a folder ({error}); name another.") from error
    if place == Path.cwd():  # a new folder in its place would not be that of the user's shell
        raise UserError(f"{folder} is the folder that you are in; name a new folder.")
    return place


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A new folder, which gets this name at the end of the context, also in the place of an earlier one. After an error
    it is removed, and the earlier one is there.

    Raises:
        NotWritten: the system could not write it
    """
    earlier = folder.with_name(f"{folder.name}.{os.getpid()}.earlier")
    try:
        with replacing(folder) as (temporary,):
            temporary.mkdir()
            yield temporary
            if folder.is_dir():
                for path in content(temporary):  # before the earlier one goes
                    flush(path)
                os.replace(folder, earlier)
    except OSError as error:
        raise NotWritten(f"{folder} could not be written ({error.strerror or error}); name another folder.") from error
    finally:
        with suppress(OSError):
            if folder.is_dir():
                remove(earlier)
            elif earlier.is_dir():
                os.replace(earlier, folder)
