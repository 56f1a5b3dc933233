"""A patch of how fairseq unpacks the archives of pretrained models."""

import gzip
import hashlib
import lzma
import os
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path

from fairseq import file_utils

from fairseq_plugins.compat.patch import replace
from fairseq_plugins.errors import UserError

WANTED = "give the folder of a training's checkpoints (--save-dir), or an archive of one"
# RuntimeError: an encrypted zip, or one that is packed in an unknown way
CUT = (tarfile.ReadError, gzip.BadGzipFile, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, RuntimeError)


def archives_stay_as_they_are():
    """fairseq 0.12.3.1 unpacks the archive of a pretrained model and puts a folder of the same name in its place. An
    archive of two folders is deleted, and the call fails. Names in an archive may point outside its folder. A missing
    archive ends in a traceback. The patch unpacks an archive into fairseq's cache (``PYTORCH_FAIRSEQ_CACHE``), in a
    folder named by its content, and leaves the archive alone. It refuses other files in a sentence."""

    @replace(file_utils, "load_archive_file")
    def load_archive_file(original, archive_file):
        if not isinstance(archive_file, str | Path) or not str(archive_file):
            raise UserError(f"{archive_file!r} is no path of a model: {WANTED}.")
        try:
            place = Path(file_utils.cached_path(archive_file))
        except (OSError, ValueError, ImportError) as error:
            if isinstance(error, UserError):
                raise
            why = f"cannot be fetched ({error})" if "://" in str(archive_file) else "does not exist"
            raise UserError(f"{archive_file} {why}: {WANTED}.") from error
        return str(place) if place.is_dir() else str(unpacked(place, archive_file))


def unpacked(archive: Path, name) -> Path:
    """The folder of the model in an archive, to which the user gave this name. It is unpacked unless that was done
    before. Raises UserError if it is no archive of one model, or there is no place for it."""
    if not archive.is_file() or archive.suffix == ".pt":
        raise UserError(f"{name} is neither a folder nor an archive: {WANTED}.")
    cache = Path(file_utils.PYTORCH_FAIRSEQ_CACHE)
    try:
        with open(archive, "rb") as file:
            folder = cache / f"unpacked-{hashlib.file_digest(file, 'sha256').hexdigest()}"
        if not folder.is_dir():
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as temporary:
                inside = Path(temporary, "model")
                unpack(archive, inside)
                if not folder.is_dir():  # another process may have been faster
                    os.replace(inside, folder)
    except tarfile.FilterError as error:
        raise UserError(f"{name} is not an archive of a model: {error}; nothing was loaded.") from error
    except CUT as error:
        said = str(error).partition("\n")[0].rstrip(":")
        raise UserError(
            f"{name} is damaged, cut or no archive ({said}): {WANTED}, as .tar, .tar.gz, .tgz, .tar.xz or .zip."
        ) from error
    except OSError as error:
        raise UserError(
            f"{name} could not be unpacked in {cache} ({error.strerror or error}): unpack it yourself and give the"
            " folder, or choose another place with the environment variable PYTORCH_FAIRSEQ_CACHE."
        ) from error
    return model_in(folder, name)


def model_in(folder: Path, name) -> Path:
    """The folder that has the checkpoints, or the dictionaries if there are none: the whole, or the only one in it.
    Files beside it count for nothing, nor do macOS's of hidden names. Raises UserError if there is none, or there are
    several."""
    if any(map(shown, [*folder.glob("*.pt"), *folder.glob("dict*.txt")])):
        return folder
    for kind in ("*.pt", "dict*.txt"):
        having = {path.parent for path in folder.rglob(kind) if shown(path)}
        outermost = sorted(each for each in having if having.isdisjoint(each.parents))
        if len(outermost) == 1:
            return outermost[0]
        if outermost:
            several = " and ".join(str(each.relative_to(folder)) for each in outermost[:5])
            raise UserError(
                f"{name} holds several folders, {several}: unpack it yourself and give the folder of the model."
            )
    raise UserError(f"{name} holds neither a checkpoint (*.pt) nor a dictionary (dict*.txt): {WANTED}.")


def shown(file: Path) -> bool:
    return file.is_file() and not file.name.startswith(".")


def unpack(archive: Path, folder: Path) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder)  # leaves .. and a leading / out of names
    else:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter=within_folder)
            while packed.fileobj.read(1 << 20):  # the checksum is at the end
                pass
    folder.mkdir(exist_ok=True)


def within_folder(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """A filter for ``tarfile`` that also refuses absolute names, since the files would land elsewhere than they say."""
    if member.name.startswith("/"):
        raise tarfile.AbsolutePathError(member)
    return tarfile.data_filter(member, folder)
