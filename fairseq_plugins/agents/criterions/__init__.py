"""The losses by which agents learn."""

import fairseq  # noqa: F401  (see startup/activation.py)
