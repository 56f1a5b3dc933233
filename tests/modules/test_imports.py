"""`fairseq_plugins.modules` depends on nothing but torch and Python."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_plugins import modules

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


def test_the_package_exports_its_names_and_loads_torch_only():
    """Also where fairseq is not installed: sys.modules[name] = None makes every import of that name fail."""
    program = (
        "import sys; sys.modules['fairseq'] = None\n"
        "import fairseq_plugins.modules as modules\n"
        "print(len([getattr(modules, name) for name in modules.__all__]))\n"
        "print(*{name.partition('.')[0] for name, module in sys.modules.items() if module})"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    number, imported = done.stdout.splitlines()
    assert int(number) > 20 and "torch" in imported.split()
    assert {"fairseq", "omegaconf", "hydra", "sacrebleu", "sklearn"}.isdisjoint(imported.split())


SHAPE = re.compile(r"\[[A-Z, ]+\]")


@pytest.mark.parametrize(
    "name", [name for name in modules.__all__ if name.endswith(("Stack", "Stream", "Convolution"))]
)
def test_the_first_line_gives_the_order_of_dimensions(name):
    first = inspect.getdoc(getattr(modules, name)).splitlines()[0]
    wanted = {"FeedbackStack": {"[T, B, C]"}}.get(name, {"[B, M, C]", "[B, T, C]"})
    assert set(SHAPE.findall(first)) <= wanted and SHAPE.search(first)
