"""Import this first: a script of this folder finds the suite, and what the tests use, too, in shared/."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks/shared")]
