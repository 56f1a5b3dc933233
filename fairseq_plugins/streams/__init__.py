"""The cut of a text into streams and blocks, the checkpoint of a memory, exact evaluation."""

import fairseq  # noqa: F401  (see startup/activation.py)
