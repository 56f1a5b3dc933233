"""Import this first: a script of this folder then finds the suite, and the modules of shared/."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks/shared")]
