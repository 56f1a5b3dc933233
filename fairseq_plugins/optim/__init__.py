"""fairseq optimisers and learning rates, registered by ``startup/activation.py``."""

import fairseq  # noqa: F401  (see startup/activation.py)
