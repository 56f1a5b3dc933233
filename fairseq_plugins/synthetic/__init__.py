"""Inputs and answers of the papers' synthetic tasks."""

import fairseq  # noqa: F401  (see startup/activation.py)
