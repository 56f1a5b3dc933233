"""Packages of others in fixed versions, in a folder of their own."""

import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import paths  # noqa: F401  finds the suite

from fairseq_plugins.errors import UserError


def install(packages: Iterable[str], site: Path) -> None:
    """What is not there yet, without what it depends on: torch and the rest are those of the suite."""
    there = {f"{found.name.replace('_', '-')}=={found.version}" for found in metadata.distributions(path=[str(site)])}
    if missing := [name for name in packages if name not in there]:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(site)]
        if subprocess.run([*pip, *missing]).returncode:
            raise UserError(f"--site {site}: pip did not install {', '.join(missing)}; give a folder that has them.")
    sys.path.append(str(site))  # at the end, so that nothing there hides a package of the suite
