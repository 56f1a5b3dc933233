"""`fairseq_plugins.modules` depends on nothing but torch and Python."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "fairseq_plugins" / "modules").rglob("*.py"))
ALLOWED = {"torch", *sys.stdlib_module_names}


def imported(file: Path) -> set[str]:
    """The names of all modules that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            names.add(node.module)
    return names


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_imports_torch_python_and_modules_only(file):
    others = {name for name in imported(file) if name.partition(".")[0] not in ALLOWED}
    assert all(name.startswith("fairseq_plugins.modules.") for name in others), others


def test_every_module_is_imported_without_fairseq():
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in FILES]
    program = (
        f"import sys, importlib\nsys.modules['fairseq'] = None\nfor name in {names}: importlib.import_module(name)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
