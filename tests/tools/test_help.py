"""``--help`` of a tool is there at once: it waits for no large package."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = sorted(file.stem for file in (ROOT / "fairseq_plugins/tools").glob("[!_]*.py"))
LARGE = {"torch", "fairseq", "numpy", "matplotlib", "sacrebleu", "nltk"}


@pytest.mark.parametrize("tool", TOOLS)
def test_help_imports_neither_torch_nor_fairseq(tool):
    program = (
        "import runpy, sys\n"
        "try:\n"
        f"    runpy.run_module('fairseq_plugins.tools.{tool}', run_name='__main__', alter_sys=True)\n"
        "except SystemExit as end:\n"
        "    print(end.code, *sys.modules, file=sys.stderr)"
    )
    words = [sys.executable, "-c", program, "--help"]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    code, *imported = done.stderr.splitlines()[-1].split()
    assert code in ("0", "None") and done.stdout.startswith("usage: ")
    assert LARGE.isdisjoint(imported)
