"""Load a language model and the preparation of its text: shared by the tools that read or write raw text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_plugins.errors import UserError
from fairseq_plugins.text.levels import Bytes, Characters, Level, Words, guess, join_pieces
from fairseq_plugins.text.prepared import FILE, PreparedText, find, folder_of
from fairseq_plugins.text.tokenisers import Plain
from fairseq_plugins.tools.lib.command import Command

if TYPE_CHECKING:
    from fairseq.data import Dictionary


class JoinedWords(Words):
    """Words, where a piece that ends with @@ is joined to the next piece."""

    def decode(self, symbols: str) -> str:
        return join_pieces(symbols)


# Kinds of symbols, for data without prepared_text.json
TOKENS: dict[str, Level] = {"bytes": Bytes(), "characters": Characters(space="_"), "words": JoinedWords()}


def add_options(parser: Command) -> None:
    """The options of a tool that calls load_language_model."""
    parser.option("--data", Path, None, "DIR", "folder of dict.txt (default: the checkpoint's, or as in training)")
    words = "kind of symbols, where prepared_text.json is missing or wrong"
    parser.add_argument("--tokens", choices=TOKENS, help=words)
    parser.add_cpu()
    parser.add_int8()


def load_language_model(checkpoint: Path, data: Path | None, tokens: str | None = None, cpu=False, int8=False):
    """The model, its configuration, its task, and how its text was prepared.

    Args:
        data: folder of dict.txt; None: the folder of the checkpoint, if it is complete, else the one of the training
        tokens: of TOKENS, in place of prepared_text.json or a guess from the dictionary
        cpu: keep the model on the CPU even if there is a GPU
        int8: compute the output layer in eight bits

    Raises:
        UserError: this is no language model over streams or of single lines
    """
    from fairseq import utils
    from fairseq.tasks import TASK_REGISTRY

    from fairseq_plugins.files.exported import refuse_incomplete
    from fairseq_plugins.tools.lib.load import load

    folder = folder_of(checkpoint)
    if not data:
        refuse_incomplete(folder)
        data = folder if (folder / "dict.txt").is_file() else None

    def check(task):
        if not (keeps_memory(TASK_REGISTRY.get(task._name)) or getattr(task, "sample_break_mode", None) == "eos"):
            raise UserError(
                f"{checkpoint} was trained with --task {task._name}: give a language model over streams (--task"
                " streaming_language_modeling), or of single lines (--task language_modeling --sample-break-mode eos)."
            )

    overrides = ({"data": str(data)} if data else {}) | ({"int8": True} if int8 else {})
    model, cfg, task = load(checkpoint, overrides, cpu, check)
    found = None if tokens else find(folder, Path(utils.split_paths(cfg.task.data)[0]))
    if not (found or tokens):
        refuse_lost(checkpoint, folder)
    text = found or PreparedText(Plain(), Plain(), TOKENS[tokens] if tokens else level_of(task.dictionary))
    return model, cfg, task, text


def refuse_lost(checkpoint: Path, folder: Path) -> None:
    """Raises UserError if the checkpoint knows that its text was prepared."""
    from fairseq import checkpoint_utils

    from fairseq_plugins.text.keeping import Record

    record = Record.of_checkpoint(checkpoint, checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint)))
    if record and record.prepared:
        raise UserError(
            f"{folder} has lost its {FILE}, which says how raw text becomes symbols: copy it, and the files that it"
            " names, from the data folder of the training, or give --tokens."
        )


def keeps_memory(task) -> bool:
    """May a text have several lines?"""
    return getattr(task, "keeps_memory", False)


def level_of(dictionary: Dictionary) -> Level:
    """The one of TOKENS that fits the symbols of a dictionary."""
    symbols = [symbol for symbol in dictionary.symbols[dictionary.nspecial :] if not symbol.startswith("madeupword")]
    level = guess(symbols)
    return JoinedWords() if isinstance(level, Words) else level
