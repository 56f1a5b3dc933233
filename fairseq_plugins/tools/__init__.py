"""What the recipes call that fairseq does not ship; each is ``python -m fairseq_plugins.tools.NAME``."""
