"""Entries in the lines of a log of fairseq.

It knows --log-format json and simple, each as it is printed, as --log-file writes it, and as hydra prints it. It
imports neither torch nor fairseq, because recipes read the log of a training while it runs.
"""

import json
import re
from contextlib import suppress
from typing import NamedTuple

JSON = re.compile(r'\{"epoch": .*\}\s*$')
# epoch 003:    100 / 253 loss=4.1, num_updates=600
INNER = re.compile(r"epoch (\d{1,9}):\s+(\d{1,9}) / ([1-9]\d{0,8}) (\S+=.*)")
# epoch 003 | valid on 'valid' subset | loss 4.1 | ppl 17
END = re.compile(r"epoch (\d{1,9}) \| (?:valid on '(\S+)' subset \| )?(\w+ \S+(?: \| \w+ \S+)*)\s*$")
PLACES, END_OF_TIME = ("num_updates", "epochs"), 1e12  # no training makes so many updates
VALID, TRAIN = "valid_", "train_"


class Entry(NamedTuple):
    """One line of metrics.

    Attributes:
        kind: "inner", in an epoch; "train", the means of an epoch; or "valid", those on the validation set
        values: numbers by name, as "num_updates" and "loss"; "epochs" is how many epochs are done, with a fraction
    """

    kind: str
    values: dict[str, float]


def read_line(line: str) -> Entry | None:
    """The entry in a line, or None. Other validation sets than "valid" are left out, and lines that are damaged."""
    entry = _read(line)
    places = [entry.values[name] for name in PLACES if name in entry.values] if entry else []
    return entry if all(0 <= place < END_OF_TIME for place in places) else None


def _read(line: str) -> Entry | None:
    if found := JSON.search(line):
        return _from_json(found[0])
    if found := INNER.search(line):
        epoch, step, of, pairs = found.groups()
        values = _numbers(pair.partition("=")[::2] for pair in pairs.split(", "))
        return Entry("inner", {**values, "epochs": int(epoch) - 1 + int(step) / int(of)})
    if (found := END.search(line)) and found[2] in (None, "valid"):
        values = _numbers(pair.split(" ") for pair in found[3].split(" | "))
        return Entry("valid" if found[2] else "train", {**values, "epochs": float(found[1])})
    return None


def _from_json(text: str) -> Entry | None:
    try:
        logged = json.loads(text)
    except (ValueError, RecursionError):  # cut off, or no entry of a log
        return None
    prefixes = {name.partition("_")[0] + "_" for name in logged if name.endswith("_num_updates")}
    prefix = prefixes.pop() if prefixes else ""
    if prefix not in ("", VALID, TRAIN):
        return None
    values = _numbers((name.removeprefix(prefix), value) for name, value in logged.items())
    values["epochs"] = values.pop("update", values.pop("epoch", 0))
    return Entry({"": "inner", VALID: "valid", TRAIN: "train"}[prefix], values)


def _numbers(pairs) -> dict[str, float]:
    numbers = {}
    for name, value in pairs:
        with suppress(TypeError, ValueError, OverflowError):  # "wps": "n/a" and the like
            numbers[name] = float(value)
    return numbers
