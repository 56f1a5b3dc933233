"""Checkpoints of the papers' public code become checkpoints of this suite: ``python -m fairseq_plugins.tools.convert``.

``sources`` has the repositories, each a file of its own here: names and shapes there -> an architecture and parameters
here. ``reading`` reads their files and runs no code of them, ``weights`` hands out the parameters, ``vocabulary`` finds
the symbols, ``placing`` gives them their places in a dictionary of fairseq's, ``writing`` writes the folder.
"""
