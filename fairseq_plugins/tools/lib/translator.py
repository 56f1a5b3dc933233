"""Raw lines in, raw lines out: fairseq's search, with the preparation of prepared_text.json."""

import os
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq import checkpoint_utils, utils

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.exported import refuse_incomplete
from fairseq_plugins.text.lines import join, parts, squeeze
from fairseq_plugins.text.prepared import FILE, PreparedText, folder_of
from fairseq_plugins.tools.lib.load import batches, load_ensemble


def folder_of_text(checkpoint: Path) -> Path:
    """The folder with ``prepared_text.json`` and the dictionaries: that of the checkpoint, or the data folder. Raises
    UserError if neither has it."""
    folder = folder_of(checkpoint)
    refuse_incomplete(folder)
    if (folder / FILE).is_file():
        return folder
    state = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))
    data = Path(str(getattr(state["cfg"]["task"], "data", "")).split(os.pathsep)[0])
    if (data / FILE).is_file():
        return data
    raise UserError(
        f"the preparation of the text of {checkpoint} is not known: neither its folder nor its data folder {data} has a"
        f" {FILE}. Prepare the same text again with its script of preprocess/, and give OUT/bin with --prepared-text."
    )


@dataclass(frozen=True)
class Translated:
    """Lines, and which of them a user should look at.

    Args:
        translations: one for each line
        long: indices of the lines that had to be cut because the model takes no longer ones. The parts of such a line
            are translated apart, and joined
        unknown: indices of the lines with symbols that the source dictionary lacks
    """

    translations: list[str]
    long: list[int]
    unknown: list[int]


class Translator:
    """
    Args:
        checkpoints: one, or several of an ensemble
        folder: holds ``prepared_text.json`` and the dictionaries
        search: options of fairseq's search, by their names: beam, lenpen, ...
        max_tokens: source tokens of a batch, padding included
        cpu: use the CPU even if there is a GPU
        fp16: compute in half precision
        int8: compute the output layer in eight bits

    Raises:
        UserError: the checkpoint is not of a translation, or the folder is not complete
    """

    def __init__(
        self, checkpoints: list[Path], folder: Path, search: dict, max_tokens: int, cpu=False, fp16=False, int8=False
    ):
        self.text = PreparedText.load(folder)
        if not self.text.source_language:
            raise UserError(f"the text of {folder} is not parallel; give a checkpoint of a translation.")
        languages = {"source_lang": self.text.source_language, "target_lang": self.text.target_language}
        overrides = {"data": str(folder), **languages} | ({"int8": True} if int8 else {})
        self.models, cfg, self.task = load_ensemble(checkpoints, overrides, cpu)
        for model in self.models:
            if fp16:
                model.half()
            model.prepare_for_inference_(cfg)
        self.max_tokens = max_tokens
        positions = utils.resolve_max_positions(
            self.task.max_positions(), *(model.max_positions() for model in self.models)
        )
        self.longest = positions[0]  # tokens of a source line, end of line included
        self.generator = self.task.build_generator(self.models, Namespace(**search))

    def translate(self, lines: list[str]) -> Translated:
        """The translation of each line. An empty line stays empty."""
        sources = [parts(squeeze(line), self.encode, self.longest) for line in lines]
        found = iter(self.search([part for line in sources for part in line]))
        translations = [join([next(found) for _ in line]) for line in sources]
        long = [index for index, line in enumerate(sources) if len(line) > 1]
        unk = self.task.source_dictionary.unk()
        unknown = [index for index, line in enumerate(sources) if any(bool((part == unk).any()) for part in line)]
        return Translated(translations, long, unknown)

    def encode(self, line: str) -> torch.Tensor:
        """The tokens of a line, end of line included."""
        return self.task.source_dictionary.encode_line(self.text.encode(line), add_if_not_exist=False).long()

    def search(self, sources: list[torch.Tensor]) -> list[str]:
        """The raw translation of each source."""
        if not sources:
            return []
        lengths = list(map(len, sources))
        dataset = self.task.build_dataset_for_inference(sources, lengths)
        found: dict[int, str] = {}
        for batch in batches(self.models[0], self.task, dataset, max_tokens=max(self.max_tokens, *lengths)):
            hypotheses = self.task.inference_step(self.generator, self.models, batch)
            found |= {number: self.raw(best["tokens"]) for number, (best, *_) in zip(batch["id"].tolist(), hypotheses)}
        return [found[number] for number in range(len(sources))]

    def raw(self, tokens: torch.Tensor) -> str:
        """One raw line."""
        symbols = self.task.target_dictionary.string(tokens.int().cpu(), extra_symbols_to_ignore={self.generator.eos})
        return self.text.decode(symbols).replace("\n", " ").replace("\r", " ")
