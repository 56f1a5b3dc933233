"""The start of a command: fairseq is patched and gets the names of the suite, and uncaught errors become one sentence.

Nothing here imports torch or fairseq before it is needed.
"""
