"""fairseq criterions, registered by ``startup/activation.py``."""

import fairseq  # noqa: F401  (see startup/activation.py)
