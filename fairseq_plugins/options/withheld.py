"""Settings of a checkpoint that name something to import or to fetch.

Only names from the user are imported or fetched. A name from a checkpoint is withheld: a text that names nothing takes
its place.
"""

import json
import re
import sys

from fairseq_plugins.errors import UserError, flag

MARK = "withheld: "
PLACE = re.compile(r"://|^\s*(https?|s3):", re.IGNORECASE)  # a URL, or a text that fairseq takes for one
WORD = re.compile(r"[\w-]*")  # names no file, and no module of a package


def withhold(name: str, value: str) -> str:
    """The text that takes the place of a setting."""
    return f"{MARK}{name}={value}"


def given_back(value: str) -> str:
    """The setting that was withheld. Any other value is returned as it is."""
    return value.partition("=")[2] if value.startswith(MARK) else value


def refuse_withheld(value) -> None:
    """Raises UserError for a setting that was withheld."""
    if isinstance(value, str) and value.startswith(MARK):
        name, _, said = value.removeprefix(MARK).partition("=")
        raise UserError(
            f"the checkpoint names {said} as its {name}, and a name in a file is not imported or fetched; if you trust"
            f" it, name it yourself: {flag(name)} '{said}', or {name}='{said}' from Python."
        )


def registered(environment: str) -> bool:
    """Whether gymnasium knows this name without an import."""
    gymnasium = sys.modules.get("gymnasium")
    return gymnasium is not None and environment in gymnasium.registry


def name_more(settings: str) -> bool:
    """Whether the settings of an environment, in JSON, could name a module or a file."""
    try:
        return not all(map(WORD.fullmatch, strings(json.loads(settings or "{}"))))
    except (ValueError, RecursionError):
        return False  # these are no settings; the code that uses them reports it


def strings(value) -> list[str]:
    """All strings in a value of JSON, without the names in its objects."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [string for part in parts for string in strings(part)]
