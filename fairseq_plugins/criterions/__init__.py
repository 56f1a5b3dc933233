"""fairseq criterions, registered by ``activation.py``."""

import fairseq  # noqa: F401  (see activation.py)
