"""Pieces of Markdown: tables, code, and words that are no markup."""

import html
import re
from collections.abc import Iterable

SPECIAL = re.compile(r"[\\`*_{}\[\]()#+\-.!|~:]")


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Rows of cells under a header; bars within a cell are escaped."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def code(text: object) -> str:
    return f"`{text}`"


def code_block(text: str) -> str:
    """Lines that are shown as they are written."""
    return "\n".join(f"    {line}" for line in readable(text).splitlines())


def literal(value: object) -> str:
    """A user's words on one line, which neither Markdown nor HTML reads as markup."""
    words = html.escape(" ".join(readable(value).split()))
    return SPECIAL.sub(lambda found: f"&#{ord(found[0])};", words)


def readable(value: object) -> str:
    """The text with a question mark for each character that UTF-8 cannot write, as in the names of some files."""
    return str(value).encode(errors="replace").decode()
