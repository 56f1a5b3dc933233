"""fairseq optimisers, registered when ``--user-dir`` is loaded."""

from fairseq_plugins.optim import adagrad_clipped  # noqa: F401
