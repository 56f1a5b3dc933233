"""Commands that the recipes need and fairseq does not have: ``python -m fairseq_plugins.tools.NAME``. What several of
them share is in ``lib``; their frame is ``lib/command.py``.

A tool imports fairseq, torch and other large packages inside the functions that use them, so that ``--help`` and a
wrong flag are answered at once.
"""

from fairseq_plugins.startup import error_hook

error_hook.install()
