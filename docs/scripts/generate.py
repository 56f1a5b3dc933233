"""Write the numbers of the papers' statements, and the parts of docs/ and benchmarks/ that come from the code,
paper.json and statements.json.

    python docs/scripts/generate.py            every generated part, anew
    python docs/scripts/generate.py --check    only name the files that are out of date; the exit status is 1 if any is

A page holds its generated parts between two comments, and prose around them:

    <!-- generated: architectures feedback -->
    ...
    <!-- end -->
"""

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(DOCS / "scripts")]

import code_tables  # noqa: E402
import notebook  # noqa: E402
import paper_tables  # noqa: E402
import statement_numbers  # noqa: E402

from fairseq_plugins.tools.lib import statements  # noqa: E402

PART = re.compile(r"(<!-- generated: (\w+) ?([\w /-]*?) ?-->\n).*?(<!-- end -->)", re.DOTALL)

PARTS: dict[str, Callable[[str], str]] = {
    "architectures": code_tables.architectures,
    "options": code_tables.options,
    "tools": code_tables.tools,
    "scripts": code_tables.scripts,
    "patches": code_tables.patches,
    "notebook": notebook.page,
    "settings": paper_tables.settings,
    "initial_weights": paper_tables.initial_weights,
    "published": paper_tables.published,
    "effect": lambda _: statements.EFFECT,
    "held": paper_tables.held,
    "rules": paper_tables.rules,
    "results": paper_tables.results,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing")
    check = parser.parse_args().check
    files = {statement_numbers.NUMBERS: lambda text: statement_numbers.numbers()}  # first: pages show them
    files |= {page: fresh for page in sorted([*DOCS.rglob("*.md"), *ROOT.glob("benchmarks/*.md")])}
    stale = []
    for file, made in files.items():
        text = file.read_text(encoding="utf-8")
        if (new := made(text)) != text:
            stale.append(file)
            if not check:
                file.write_text(new, encoding="utf-8")
            print(f"{file.relative_to(ROOT)} {'is out of date' if check else 'is written'}")
    sys.exit(check and bool(stale))


def fresh(text: str) -> str:
    """A page with its generated parts as they should be."""
    return PART.sub(lambda part: f"{part[1]}{PARTS[part[2]](part[3]).strip()}\n{part[4]}", text)


if __name__ == "__main__":
    main()
