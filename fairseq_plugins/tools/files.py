"""Files that are whole or not there."""

import json
import os
from pathlib import Path


def write_whole(path: Path, write) -> None:
    """Call ``write(temporary_path)``, then give its file the name ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, content) -> None:
    write_whole(path, lambda temporary: temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8"))
