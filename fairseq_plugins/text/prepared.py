"""How the text of a data folder was prepared: kept as ``prepared_text.json`` beside the dictionaries, and copied to the
checkpoints of a training, so that no command has to be told.

The file holds the SHA-256 of the codes or the model, of the dictionaries, and of itself. Files of earlier versions hold
none.
"""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.checksums import opened_json, sealed_json, sha256
from fairseq_plugins.files.whole import write_whole
from fairseq_plugins.text.levels import LEVELS, Bytes, Level
from fairseq_plugins.text.spacing import Spacing
from fairseq_plugins.text.tokenisers import TOKENISERS, Moses, Tokeniser

FILE = "prepared_text.json"
DICTIONARIES = "dict*.txt"


@dataclass(frozen=True)
class PreparedText:
    """
    Args:
        source, target: a language model has the same one twice
        source_language, target_language: their names in the data folder; None for a language model
        raw_bytes: for each split, the bytes of its raw text, newlines included
    """

    source: Tokeniser
    target: Tokeniser
    level: Level
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
        """Python's error handler for bytes of a raw text that are not UTF-8."""
        return "surrogateescape" if isinstance(self.level, Bytes) else "strict"

    @property
    def files(self) -> list[Path]:
        """The files that the level needs."""
        return [value for value in vars(self.level).values() if isinstance(value, Path)]

    @property
    def content(self) -> dict[str, Any]:
        """Its content in types of JSON, without checksums."""
        level = {name: value.name if isinstance(value, Path) else value for name, value in vars(self.level).items()}
        return {
            "level": {"kind": kind_of(LEVELS, self.level), **level},
            "source": {"kind": kind_of(TOKENISERS, self.source), **asdict(self.source)},
            "target": {"kind": kind_of(TOKENISERS, self.target), **asdict(self.target)},
            "source_language": self.source_language,
            "target_language": self.target_language,
            "raw_bytes": self.raw_bytes,
        }

    def save(self, folder: Path) -> None:
        """Write ``prepared_text.json`` into the folder, whose dictionaries are there already, and copy the files of the
        level there."""
        for file in self.files:
            if file.resolve() != (folder / file.name).resolve():
                write_whole(folder / file.name, partial(shutil.copyfile, file))
        kept = [folder / file.name for file in self.files] + sorted(folder.glob(DICTIONARIES))
        text = sealed_json({**self.content, "files": {file.name: sha256(file) for file in kept}})
        write_whole(folder / FILE, lambda temporary: temporary.write_bytes(text))

    @classmethod
    def load(cls, folder: Path) -> "PreparedText":
        """
        Raises:
            UserError: the folder has no such file, or it or one that it names is damaged, or another one is missing
        """
        path = folder / FILE
        if not path.is_file():
            raise UserError(f"{path} does not exist: prepare the text with a script of preprocess/.")
        try:
            content = opened_json(path.read_bytes())
            sums = content.pop("files", {})
            prepared = cls.of(content, folder)
            check_sums(sums)
        except OSError as error:
            raise UserError(f"{path} cannot be read ({error.strerror}): check the path.") from error
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise UserError(
                f"{path} is damaged ({error}): prepare the text again, or copy the file from the original folder."
            ) from error
        for file in prepared.files:
            if not file.is_file():
                raise UserError(f"{file} is missing: copy it from the folder where the text was prepared.")
        for name, checksum in sums.items():
            if (folder / name).is_file() and sha256(folder / name) != checksum:
                raise UserError(
                    f"{folder / name} is damaged, or not the file that {FILE} was written with: copy both from the"
                    " folder where the text was prepared, or prepare it again."
                )
        return prepared

    @classmethod
    def of(cls, content: Mapping[str, Any], folder: Path) -> "PreparedText":
        """The prepared text that has this content.

        Raises:
            ValueError, TypeError, LookupError, AttributeError: the content is none of a prepared text
        """
        content = dict(content)
        level = _build(LEVELS, content.pop("level"), folder)
        sides = {side: _tokeniser(content.pop(side)) for side in ("source", "target")}
        prepared = cls(level=level, **sides, **content)
        if (prepared.source_language, prepared.target_language) != (None, None):
            for name in ("source_language", "target_language"):
                _check_type(name, getattr(prepared, name), Path)  # a part of names of files
        for split, size in prepared.raw_bytes.items():
            _check_type(f"raw_bytes of {split}", size, int)
        return prepared


def check_sums(sums: Mapping[str, str]) -> None:
    """Raises ValueError unless these are checksums of files in a folder, by their names."""
    for name, checksum in sums.items():
        _check_type("a name of files", name, Path)
        _check_type(f"the checksum of {name}", checksum, str)


def find(*folders: Path) -> PreparedText | None:
    """The prepared text of the first folder that has one."""
    return next((PreparedText.load(folder) for folder in folders if (folder / FILE).is_file()), None)


def folder_of(checkpoint: Path) -> Path:
    """The folder of prepared_text.json, or else of the dictionaries: that of the checkpoint, or of the file that a link
    leads to."""
    folders = checkpoint.parent, checkpoint.resolve().parent
    for names in (FILE, DICTIONARIES):
        for folder in folders:
            if any(folder.glob(names)):
                return folder
    return folders[-1]


def kind_of(kinds: dict, value) -> str:
    """The name of an object's class in a table such as LEVELS."""
    return next(name for name, kind in kinds.items() if kind is type(value))


def _build(kinds: dict, settings: Mapping[str, Any], folder: Path | None = None):
    """The object of a kind, if its settings have the right types. Files are in the folder; lists become tuples."""
    settings = dict(settings)
    kind = kinds[settings.pop("kind")]
    hints = get_type_hints(kind)
    for name, value in settings.items():
        if name in hints:
            _check_type(name, value, hints[name])
            settings[name] = folder / value if hints[name] is Path else tuple(value) if type(value) is list else value
    return kind(**settings)


def _tokeniser(settings: Mapping[str, Any]):
    """Files of earlier versions do not say whether words stay whole: they did not."""
    if not issubclass(TOKENISERS[settings["kind"]], Moses):
        return _build(TOKENISERS, settings)
    settings = {"whole_words": False, "spacing": None, **settings}
    spacing = settings.pop("spacing")
    return replace(_build(TOKENISERS, settings), spacing=spacing and Spacing.of(spacing))


def _check_type(name: str, value, kind) -> None:
    """Raises ValueError for a value of another type; for Path, unless it is the name of a file."""
    if kind is Path:
        right = isinstance(value, str) and value.isprintable() and Path(value).name == value not in ("", "..")
        right = right and len(value.encode()) < 256  # systems allow no more
    elif kind == tuple[str, ...]:
        right = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    else:
        right = type(value) is kind and (kind is not int or value >= 0)
    if not right:
        raise ValueError(f"{name} cannot be {value!r:.50}")
