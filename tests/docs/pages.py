"""The pages of the documentation, and the blocks of code in them.

A comment on the line before a block gives the use of the block, where it is not plain:

    <!-- file: my_models/__init__.py -->    the block is that file
    <!-- run -->                            a block of bash that is really run, and not only parsed
    <!-- not run: why -->                   neither
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"(?:^<!-- ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class CodeBlock(NamedTuple):
    """
    Attributes:
        page: its page
        line: number of its first line of code
        language: bash, python, text...
        mark: the comment before it, "" without one
        code: its lines
    """

    page: Path
    line: int
    language: str
    mark: str
    code: str

    def __str__(self):
        return f"{name(self.page)}:{self.line}"

    @property
    def file(self) -> str | None:
        """The path that the block is to be written to."""
        return self.mark.removeprefix("file: ") if self.mark.startswith("file: ") else None

    @property
    def left_out(self) -> bool:
        return self.mark.startswith("not run: ")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[CodeBlock]:
    text = page.read_text(encoding="utf-8")
    return [
        CodeBlock(page, text.count("\n", 0, match.start(3)) + 1, match[2], match[1] or "", match[3])
        for match in FENCE.finditer(text)
    ]


def every_block(language: str, *pages: Path) -> list[CodeBlock]:
    """Those that are to be tried, of some pages, by default of all."""
    found = [block for page in pages or PAGES for block in blocks(page)]
    return [block for block in found if block.language == language and not block.left_out]


def read_tables(text: str) -> list[list[list[str]]]:
    """Markdown tables as lists of rows of cells, the line of dashes included."""
    tables, before = [], ""
    for line in text.splitlines():
        if line.startswith("|"):
            if not before.startswith("|"):
                tables.append([])
            tables[-1].append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]])
        before = line
    return tables
