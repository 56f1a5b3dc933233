"""The Python in the pages runs, and prints the text in the comment beside a print."""

import re

import pytest
from pages import PAGES, blocks, every_block, name

WITH_PYTHON = [
    page for page in PAGES if any(block.language == "python" or block.mark == "run" for block in blocks(page))
]
FEW_UPDATES = ["--max-update", "4"]  # of two options the last counts
EXPECTED = re.compile(r"\)  # (?!such as )(.+)$")


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name)
def test_python_runs_and_prints_what_it_says(page, run, shell, workspace):
    """All blocks of a page are one script, with the line numbers of the page."""
    lines = [""] * len(page.read_text(encoding="utf-8").splitlines())
    for block in every_block("python", page):
        code = block.code.splitlines()
        if block.file:
            (workspace / block.file).parent.mkdir(exist_ok=True)
            (workspace / block.file).write_text(block.code)
        else:
            lines[block.line - 1 : block.line - 1 + len(code)] = code
    for block in every_block("bash", page):
        for words in shell.calls(block.code) if block.mark == "run" else []:
            few = FEW_UPDATES if words[0] == "fairseq-train" else []
            run(*words, *few, cwd=workspace, input="")
    script = workspace / f"{page.stem}_page.py"
    script.write_text("\n".join(lines))
    said = run("python", script.name, cwd=workspace).stdout.splitlines()
    printed = [line for line in lines if line.startswith("print(")]
    for line, output in zip(printed, said, strict=True):
        expected = EXPECTED.search(line)
        assert not expected or output == expected[1], line
