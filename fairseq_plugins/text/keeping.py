"""The folder of a model is complete: what its text needs is copied there from the data folder."""

import filecmp
import os
import shutil
from pathlib import Path

from fairseq_plugins.files.whole import write_whole
from fairseq_plugins.text.prepared import FILE, PreparedText


def keep_with_checkpoints(data: Path, folder: Path) -> None:
    """Copy ``prepared_text.json``, the files that it names, and the dictionaries from the data folder, unless they are
    there. Nothing is copied from a data folder without ``prepared_text.json``."""
    if not (data / FILE).is_file() or (folder.exists() and os.path.samefile(data, folder)):
        return
    for file in [*PreparedText.load(data).files, *sorted(data.glob("dict*.txt")), data / FILE]:
        copy = folder / file.name
        if not (copy.is_file() and filecmp.cmp(file, copy)):
            write_whole(copy, lambda temporary, file=file: shutil.copy2(file, temporary))
