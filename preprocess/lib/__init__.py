"""The parts that the scripts share. They are imported first, and find the package where it is not installed."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from fairseq_plugins.startup import error_hook  # noqa: E402

error_hook.install()  # an interrupt of the next imports ends without a traceback
