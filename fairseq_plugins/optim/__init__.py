"""fairseq optimisers and learning rates, registered when ``--user-dir`` is loaded."""

from fairseq_plugins.optim import adagrad_clipped, cosine_wave  # noqa: F401
