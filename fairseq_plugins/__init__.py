"""Plugins for fairseq, loaded with ``--user-dir``.

Without fairseq the package ``fairseq_plugins.modules`` still works: plain torch modules for any training loop.
"""

from importlib.util import find_spec

if find_spec("fairseq"):
    from fairseq_plugins import compat, errors

    errors.install()
    compat.apply()

    from fairseq_plugins import criterions, optim  # noqa: F401  (after the patches)
    from fairseq_plugins.text import encoder  # noqa: F401
