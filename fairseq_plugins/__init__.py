"""Plugins for fairseq, loaded with ``--user-dir``, or with ``import fairseq_plugins`` in a program of your own.

The import itself is light. As soon as fairseq is imported too, before or afterwards, fairseq is patched and knows the
names of everything here. Without fairseq, ``fairseq_plugins.modules`` still works: plain torch modules for any training
loop.
"""

from fairseq_plugins.startup import activation

activation.when_fairseq_is_imported()
