"""How the text of a data folder was prepared: kept as ``prepared_text.json`` beside the dictionaries, and copied to the
checkpoints of a training, so that no command has to be told."""

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.whole import write_json, write_whole
from fairseq_plugins.text.levels import LEVELS, Bytes
from fairseq_plugins.text.tokenisers import TOKENISERS, Moses

FILE = "prepared_text.json"


@dataclass(frozen=True)
class PreparedText:
    """
    Args:
        source, target: tokenisers, of tokenisers.py; a language model has the same one twice
        level: an object of levels.py
        source_language, target_language: their names in the data folder; None for a language model
        raw_bytes: for each split, the bytes of its raw text, newlines included
    """

    source: object
    target: object
    level: object
    source_language: str | None = None
    target_language: str | None = None
    raw_bytes: dict[str, int] = field(default_factory=dict)

    def encode(self, line: str) -> str:
        """The symbols of a raw source line, between spaces."""
        return self.level.encode(self.source.tokenise(line))

    def encode_target(self, line: str) -> str:
        """The symbols of a raw target line, between spaces."""
        return self.level.encode(self.target.tokenise(line))

    def decode(self, symbols: str) -> str:
        """The raw target line of symbols between spaces."""
        return self.target.detokenise(self.level.decode(symbols))

    @property
    def errors(self) -> str:
        """What to do with bytes of a raw text that are not UTF-8: Python's name of an error handler."""
        return "surrogateescape" if isinstance(self.level, Bytes) else "strict"

    @property
    def files(self) -> list[Path]:
        """The files that the level needs."""
        return [value for value in vars(self.level).values() if isinstance(value, Path)]

    def save(self, folder: Path) -> None:
        """Write ``prepared_text.json`` into the folder, and copy the files of the level there."""
        for file in self.files:
            if file.resolve() != (folder / file.name).resolve():
                write_whole(folder / file.name, lambda temporary, file=file: shutil.copyfile(file, temporary))
        level = {name: value.name if isinstance(value, Path) else value for name, value in vars(self.level).items()}
        write_json(
            folder / FILE,
            {
                "level": {"kind": _kind(LEVELS, self.level), **level},
                "source": {"kind": _kind(TOKENISERS, self.source), **asdict(self.source)},
                "target": {"kind": _kind(TOKENISERS, self.target), **asdict(self.target)},
                "source_language": self.source_language,
                "target_language": self.target_language,
                "raw_bytes": self.raw_bytes,
            },
        )

    @classmethod
    def load(cls, folder: Path) -> "PreparedText":
        """
        Raises:
            UserError: the folder has no such file, or it is damaged, or another one is missing
        """
        path = folder / FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            level = dict(content.pop("level"))
            level = {name: _in_folder(folder, name, value) for name, value in level.items()}
            sides = {side: _tokeniser(content.pop(side)) for side in ("source", "target")}
            prepared = cls(level=_build(LEVELS, level), **sides, **content)
        except FileNotFoundError:
            raise UserError(f"{path} does not exist: prepare the text with a script of preprocess/.") from None
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise UserError(
                f"{path} is damaged ({error}): prepare the text again, or copy the file from the original folder."
            ) from error
        for file in prepared.files:
            if not file.is_file():
                raise UserError(f"{file} is missing: copy it from the folder where the text was prepared.")
        return prepared


def find(*folders: Path) -> PreparedText | None:
    """The prepared text of the first folder that has one."""
    return next((PreparedText.load(folder) for folder in folders if (folder / FILE).is_file()), None)


def folder_of(checkpoint: Path) -> Path:
    """The folder that says how the text of a checkpoint was prepared. A link that has no such file beside it leads to
    the folder."""
    return checkpoint.parent if (checkpoint.parent / FILE).is_file() else checkpoint.resolve().parent


def _kind(kinds: dict, value) -> str:
    return next(name for name, kind in kinds.items() if kind is type(value))


def _build(kinds: dict, settings: dict):
    return kinds[settings["kind"]](**{name: value for name, value in settings.items() if name != "kind"})


def _tokeniser(settings: dict):
    """Files of earlier versions do not say whether words stay whole: they did not."""
    moses = issubclass(TOKENISERS[settings["kind"]], Moses)
    return _build(TOKENISERS, {"whole_words": False, **settings} if moses else settings)


def _in_folder(folder: Path, name: str, value):
    """The value of a level's setting: names of files are of files in the folder, never outside; lists are tuples."""
    if name in ("codes", "model"):
        if Path(value).name != value:
            raise ValueError(f"{value} is not the name of a file in this folder")
        return folder / value
    return tuple(value) if isinstance(value, list) else value
