"""Lines of a log of fairseq-train, as it prints them with --log-format json."""

import json


def entry(kind, **values):
    """A line with these metrics. ``kind`` is train_inner, train or valid."""
    prefix = "valid_" if kind == "valid" else ""
    logged = {"epoch": 1, **{prefix + name: str(value) for name, value in values.items()}}
    return f"2026-01-01 00:00:00 | INFO | {kind} | {json.dumps(logged)}\n"
