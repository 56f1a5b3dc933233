"""The folder of a converted model: a checkpoint, its dictionary, and how raw text becomes its symbols."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import DictConfig
from torch import Tensor, nn

from fairseq_plugins.conversion.placing import placed, places
from fairseq_plugins.conversion.sources import Converted
from fairseq_plugins.conversion.vocabulary import Vocabulary
from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.files import sealed
from fairseq_plugins.files.reading import BEST
from fairseq_plugins.files.whole import NotWritten, replacing
from fairseq_plugins.models.common.saving import checkpoint
from fairseq_plugins.text.keeping import Record
from fairseq_plugins.text.levels import guess, unescape
from fairseq_plugins.text.prepared import FILE, PreparedText
from fairseq_plugins.text.tokenisers import Plain

DICTIONARY = "dict.txt"
SPELL = """\
# write symbols that fairseq would misread, such as </s> and those with @@, as the dictionary does
python -c 'from fairseq_plugins.text.levels import Words
for line in open("test.txt"): print(Words().encode(line))' > test.symbols
"""
TASK = ["--task", "streaming_language_modeling"]


class Written(NamedTuple):
    """The content of a folder.

    Attributes:
        parameters: their number
        symbols: the kind of the symbols, in words
        model_flags: the architecture and its flags, for a training that goes on from the weights
        task_flags: of each command that reads text with the model
        escaped: has the dictionary another spelling of a symbol, since fairseq would misread it?
    """

    parameters: int
    symbols: str
    model_flags: list[str]
    task_flags: list[str]
    escaped: bool


def write(folder: Path, converted: Converted, vocabulary: Vocabulary) -> Written:
    """Write the folder of a model, whole or not at all. Raises UserError if the parameters do not fit the architecture,
    or the folder cannot be written."""
    text = prepared_text(vocabulary.symbols)
    found = places(vocabulary.symbols)
    converted = placed(converted, vocabulary.symbols)
    model_flags = ["--arch", converted.arch, *flags_of(converted.options)]
    task_flags = [*TASK, "--tokens-per-sample", str(converted.block)]
    if not vocabulary.ends_lines:
        task_flags.append("--no-end-of-line")
    with whole_folder(folder) as temporary:
        lines = "".join(f"{symbol} 1\n" for symbol in found.symbols)
        (temporary / DICTIONARY).write_text(lines, encoding="utf-8")
        text.save(temporary)
        cfg, model = build([*task_flags, *model_flags], temporary)
        fill(model, converted.state)
        cfg.task.data = str(folder.absolute())
        state = checkpoint(cfg, model)
        state["extra_state"]["text"] = Record.of_data(temporary, None).as_state()
        sealed.save(state, temporary / BEST)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    kind = f"{type(text.level).__name__.lower()}{', with an end of line' if vocabulary.ends_lines else ''}"
    escaped = any(unescape(symbol) != symbol for symbol in found.symbols)
    return Written(parameters, kind, model_flags, task_flags, escaped)


def build(flags: list[str], data: Path) -> tuple[DictConfig, nn.Module]:
    """The configuration and the model that fairseq-train makes of flags.

    Args:
        flags: of the task and the architecture
        data: a folder with the dictionary
    """
    parser = options.get_training_parser()
    words = [str(data), *flags, "--criterion", "streaming_lm"]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, input_args=words))
    return cfg, tasks.setup_task(cfg.task).build_model(cfg.model)


def fill(model: nn.Module, state: dict[str, Tensor]) -> None:
    """Raises UserError for parameters that are not those of the model's decoder."""
    try:
        model.get_submodule("decoder").load_state_dict(state)
    except RuntimeError as error:
        where = [*str(error).splitlines(), ""][1].strip() or error
        raise UserError(
            f"the parameters do not make a model ({where}); check --from, or get the checkpoint again."
        ) from error


def flags_of(options: dict[str, Any]) -> list[str]:
    """Options as flags: {"adaptive_span": True, "span_ramp": 32} -> ["--adaptive-span", "--span-ramp", "32"]"""
    words = []
    for name, value in options.items():
        if value is True:
            words.append(flag(name))
        elif value is not False:
            words += [flag(name), ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    return words


def prepared_text(symbols: list[str]) -> PreparedText:
    """The preparation that makes these symbols of raw text."""
    own = [symbol for symbol in symbols if not (symbol.startswith("<") and symbol.endswith(">"))]
    return PreparedText(Plain(), Plain(), guess(own))


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A new folder, which gets this name at the end of the context. After an error it is removed. Raises NotWritten if
    the system could not write it."""
    try:
        with replacing(folder.resolve()) as (temporary,):
            temporary.mkdir()
            yield temporary
    except OSError as error:
        raise NotWritten(
            f"--out {folder} could not be written ({error.strerror or error}); name a folder elsewhere."
        ) from error


def refuse_folder(folder: Path) -> None:
    """Raises UserError for a place where no new folder can be."""
    try:
        place = folder.resolve()
        if place.exists() and not place.is_dir():
            raise UserError(f"--out {folder} is a file; name a new folder.")
        if place.is_dir() and any(place.iterdir()):
            raise UserError(f"--out {folder} is not empty, and nothing is overwritten; name a new folder.")
    except (OSError, RuntimeError) as error:  # such as a name that is too long, or links in a circle
        raise UserError(f"--out {folder} cannot be a folder ({error}); name another.") from error
    if place == Path.cwd():  # a new folder in its place would not be that of the user's shell
        raise UserError(f"--out {str(folder)!r} is the folder that you are in; name a new folder.")


def told(folder: Path, converted: Converted, written: Written) -> str:
    """A report: the model, and the commands that use it."""
    package = Path(__file__).resolve().parents[1]
    out, plugins = shlex.quote(str(folder)), f"--user-dir {shlex.quote(os.path.relpath(package))}"
    task, model = shlex.join(written.task_flags), shlex.join(written.model_flags)
    text, spell = ("test.symbols", SPELL) if written.escaped else ("test.txt", "")
    dropout = "" if "dropout" in converted.options else " --dropout,"
    return f"""\
wrote {folder}: {converted.arch}, {written.parameters:,} parameters; symbols are {written.symbols}
{"".join(f"note: {note}{chr(10)}" for note in converted.notes)}
{spell}# binarise the repository's test.txt, and evaluate it block by block as the repository does
fairseq-preprocess {plugins} --only-source --srcdict {out}/{DICTIONARY} --testpref {text} --destdir DATA
cp {out}/{FILE} DATA
fairseq-eval-lm DATA {plugins} {task} --no-first-target --path {out}/{BEST} --gen-subset test --batch-size 1

# let it write, and score raw text
python -m fairseq_plugins.tools.sample --path {out}/{BEST} --prompt "" --length 200
python -m fairseq_plugins.tools.score_text {out}/{BEST} FILE

# train it further: DATA needs train and valid, too; add{dropout} an optimiser, --lr and --save-dir
fairseq-train DATA {plugins} {task} --criterion streaming_lm --finetune-from-model {out}/{BEST} {model}"""
