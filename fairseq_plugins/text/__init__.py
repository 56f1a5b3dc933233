"""From a raw line to the symbols that a model reads, and back.

``PreparedText`` (in prepared.py) says how the text of a data folder was prepared, so that commands need no flags for
it. This package imports neither torch nor fairseq, except encoder.py and keeping.py.
"""
