"""Plugins for fairseq, loaded with ``--user-dir``."""

from fairseq_plugins import compat, errors

errors.install()
compat.apply()
