"""fairseq criterions, registered when ``--user-dir`` is loaded."""

from fairseq_plugins.criterions import streaming_lm  # noqa: F401
