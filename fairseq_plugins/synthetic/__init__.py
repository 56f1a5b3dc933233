"""Inputs and answers of the papers' synthetic tasks."""

import fairseq  # noqa: F401  (see activation.py)
