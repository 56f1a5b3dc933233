"""Patches of the installed fairseq for today's Python, numpy and torch, applied by ``startup/activation.py``.

Each function patches one fault. Files are sorted by the part of fairseq that has the fault. A docstring says the fault
and its repair. A patch has no effect on a fairseq without the fault. It wraps a function of fairseq, which can still be
reached as ``__wrapped__``; no code of fairseq is copied.
"""

import fairseq  # noqa: F401  (see startup/activation.py)
