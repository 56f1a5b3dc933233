"""Which values an option takes: numbers in a range, options that go together, settings that are data and not code.

The ranges, the combinations and the checks import neither torch nor fairseq, so scripts and recipes use them, too.
"""
