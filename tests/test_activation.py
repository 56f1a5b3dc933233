"""Importing ``fairseq_plugins`` is light, and enough: fairseq is patched and knows the suite, whichever is imported
first."""

import ast
import subprocess
import sys
from pathlib import Path

import fairseq
import pytest
from fairseq import checkpoint_utils
from fairseq.models import ARCH_MODEL_REGISTRY

import fairseq_plugins  # noqa: F401  (here after fairseq; the first test below imports it before)
from fairseq_plugins.startup import activation

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fairseq_plugins"
# These may be imported in the middle of it: nothing of tools/ takes part, nor of conversion/, which a tool imports
# after fairseq; and nobody imports names from the others. So environments need no fairseq.
SAFE = (*(f"{name.replace('.', '/')}.py" for name in activation.MODULES), "tools/", "conversion/")


def python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_with_the_suite_first_fairseq_is_patched_and_knows_its_names():
    said = python(
        "import logging, sys, fairseq_plugins\n"
        "print(sorted({'fairseq', 'torch', 'numpy'} & sys.modules.keys()))\n"
        "from fairseq.models import ARCH_MODEL_REGISTRY\n"
        "from fairseq.tasks import TASK_REGISTRY\n"
        "from fairseq.optim import OPTIMIZER_REGISTRY\n"
        "from fairseq.criterions import CRITERION_REGISTRY\n"
        "from fairseq.data.encoders import BPE_REGISTRY\n"
        "from fairseq import checkpoint_utils, utils\n"
        "print('feedback_lm' in ARCH_MODEL_REGISTRY, 'synthetic_stream' in TASK_REGISTRY,\n"
        "      'adagrad_clipped' in OPTIMIZER_REGISTRY, 'streaming_lm' in CRITERION_REGISTRY,\n"
        "      'prepared' in BPE_REGISTRY, hasattr(checkpoint_utils.load_checkpoint_to_cpu, '__wrapped__'),\n"
        "      utils.eval.__module__, sys.excepthook.__module__)\n"
        "print('sklearn' in sys.modules, 'torch._dynamo' in sys.modules)\n"
        "from fairseq.criterions import sentence_prediction\n"
        "print(sentence_prediction.f1_score([0, 1, 1], [0, 1, 0]), 'sklearn' in sys.modules)\n"
        "print(logging.root.level == logging.WARNING, logging.root.handlers)"
    )
    assert said.splitlines() == [
        "[]",
        "True True True True True True fairseq_plugins.options.literals fairseq_plugins.startup.error_hook",
        "False False",  # large packages: fairseq needs one for this one score, torch's compiler the other
        "0.6666666666666666 True",
        "True []",  # the log is the program's
    ]


def test_with_fairseq_first_too():
    assert "feedback_lm" in ARCH_MODEL_REGISTRY and hasattr(checkpoint_utils.load_checkpoint_to_cpu, "__wrapped__")
    assert fairseq.utils.eval.__module__ == "fairseq_plugins.options.literals"


def test_a_command_of_fairseqs_may_be_what_imports_it():
    said = python(
        "import fairseq_plugins\nfrom fairseq_cli import train\nprint(hasattr(train.add_defaults, '__wrapped__'))"
    )
    assert said == "True\n"


def test_finding_fairseq_is_not_importing_it():
    said = python(
        "import fairseq_plugins, importlib.util, sys\n"
        "spec = importlib.util.find_spec('fairseq')\n"
        "print(spec.origin, 'fairseq' in sys.modules)"
    )
    assert said.split() == [fairseq.__file__, "False"]


def imports_fairseq(file: Path) -> bool:
    """Does the file import fairseq when it is imported itself?"""
    statements = ast.parse(file.read_text()).body
    names = [alias.name for statement in statements if isinstance(statement, ast.Import) for alias in statement.names]
    names += [str(statement.module) for statement in statements if isinstance(statement, ast.ImportFrom)]
    return any(name.partition(".")[0] == "fairseq" for name in names)


NEED_FAIRSEQ = [file.relative_to(PACKAGE) for file in sorted(PACKAGE.rglob("*.py")) if imports_fairseq(file)]


@pytest.mark.parametrize("file", NEED_FAIRSEQ, ids=str)
def test_a_subpackage_that_needs_fairseq_imports_it_first(file):
    """So what happens to fairseq does not depend on which file is imported first."""
    packages = [PACKAGE / folder / "__init__.py" for folder in file.parents]
    assert str(file).startswith(SAFE) or any(map(imports_fairseq, packages))
