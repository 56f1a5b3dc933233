"""fairseq criterions, registered when ``--user-dir`` is loaded."""

from fairseq_plugins.criterions import label_cross_entropy, streaming_lm  # noqa: F401
