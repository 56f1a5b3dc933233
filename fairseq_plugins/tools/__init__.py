"""Commands that the recipes need and fairseq does not have: ``python -m fairseq_plugins.tools.NAME``. What several of
them share is in ``lib``."""
