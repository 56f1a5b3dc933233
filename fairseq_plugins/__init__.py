"""Plugins for fairseq, loaded with ``--user-dir``."""

from fairseq_plugins import compat, errors

errors.install()
compat.apply()

from fairseq_plugins import criterions, optim  # noqa: E402, F401  (after the patches)
