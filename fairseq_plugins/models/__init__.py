"""fairseq models and their architectures, registered by ``activation.py``."""

import fairseq  # noqa: F401  (see activation.py)
