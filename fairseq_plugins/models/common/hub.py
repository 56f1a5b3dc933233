"""Models in a program of your own: ``from_pretrained(folder)``, then ``translate``, ``score`` or ``sample`` raw text.

The folder of a training's checkpoints records how its text was prepared, so no other folder is needed.
"""

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, file_utils, hub_utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.registry import REGISTRIES
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_plugins.compat.archives import WANTED
from fairseq_plugins.compat.command_line import INT8, before_overrides, options_in
from fairseq_plugins.errors import UserError
from fairseq_plugins.files.exported import refuse_incomplete
from fairseq_plugins.files.reading import BEST, LAST, WEIGHTS, best_or_last
from fairseq_plugins.models.common.sampling import sample
from fairseq_plugins.models.common.saving import save
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.text.keeping import Record
from fairseq_plugins.text.lines import MAX_LEN_A, join, parts, squeeze
from fairseq_plugins.text.prepared import FILE, PreparedText, folder_of

OF_FAIRSEQ = {"user_dir", "generation_args", "is_vocoder", "archive_map"}  # arguments of its from_pretrained
LENGTH = 200  # tokens that are sampled by default
ENDINGS = (".pt", Path(WEIGHTS).suffix)
BATCH = 32  # pieces of texts that are scored at once


class ModelHub(hub_utils.GeneratorHubInterface):
    """A model with its text.

    Attributes:
        GENERATION: options of generation that differ from fairseq's defaults
    """

    GENERATION: Mapping[str, Any] = {}

    def save_pretrained(self, folder: str | Path, format: str = "torch") -> None:
        """Write a folder from which ``from_pretrained`` loads the same model with its text, in any place. It is written
        whole or not at all, and takes the place of an earlier one.

        Args:
            folder: a new one, or one that ``save_pretrained`` has written
            format: "torch", a checkpoint of fairseq, or "safetensors", weights that other tools read. A model that was
                made half precision is loaded in single precision

        Raises:
            UserError: the folder holds other files or cannot be written, or this is an ensemble
        """
        save(self, folder, format)


class FromFolder:
    """A model that ``from_pretrained`` loads with its text. To be named before fairseq's class among the bases."""

    HUB: type[ModelHub] = ModelHub

    @classmethod
    def from_pretrained(cls, model_name_or_path, checkpoint_file=None, data_name_or_path=None, **options):
        """The model of a training with its text, as a ``HUB``.

        Args:
            model_name_or_path: the folder of the checkpoints (--save-dir), an archive of one, or a checkpoint
            checkpoint_file: names in the folder, with colons between those of an ensemble (default: checkpoint_best.pt,
                else checkpoint_last.pt, else model.safetensors)
            data_name_or_path: folder of the dictionaries (default: the folder of the checkpoints if they are there,
                else the data folder of the training). As in fairseq, one that begins with a dot is meant from the
                folder of the checkpoints
            options: options that differ from the training's, by their names. Without prepared_text.json, beside the
                checkpoint or in the data folder, bpe and tokenizer and their options say how raw text becomes symbols

        Raises:
            UserError: something is missing, or the checkpoint is of another kind of model
        """
        folder, names = _checkpoints(model_name_or_path, checkpoint_file)
        home = folder_of(folder / names[0])
        data = _data(folder, home, names[0], data_name_or_path)
        options = (_text_options(home, data) or _recorded_options(folder / names[0], options)) | options
        _check_generation(generation := options.get("generation_args") or {})
        if generation := {**cls.HUB.GENERATION, **generation}:
            options["generation_args"] = generation
        with before_overrides(lambda cfg: _check_options(cfg, options)):
            loaded = hub_utils.from_pretrained(
                str(folder), os.pathsep.join(names), str(data.absolute()), archive_map=None, **options
            )
        _check_options(loaded["args"], options)  # of a checkpoint of old, with args in place of cfg
        for name, model in zip(names, loaded["models"]):
            if not isinstance(model, cls):
                raise UserError(
                    f"{folder / name} holds a {type(model).__name__}: call from_pretrained of that class, which is in"
                    f" {type(model).__module__}."
                )
        return cls.HUB(loaded["args"], loaded["task"], loaded["models"])


def _check_options(cfg, given: dict) -> None:
    """Raises UserError for an option that neither the training nor a way to prepare text has."""
    kinds = [kind for name in ("bpe", "tokenizer") for kind in REGISTRIES[name]["dataclass_registry"].values()]
    known = options_in(cfg) | {INT8} | {field.name for kind in kinds for field in fields(kind)} | OF_FAIRSEQ
    _refuse(set(given) - known, "from_pretrained: the checkpoint has no option", "its training")


def _check_generation(given) -> None:
    """Raises UserError for an option of generation that fairseq does not have."""
    if not isinstance(given, Mapping):
        raise UserError(f'generation_args {given!r:.50} does not fit; give a dictionary, such as {{"beam": 5}}.')
    unknown = set(given) - {field.name for field in fields(GenerationConfig)}
    _refuse(unknown, "generation_args: fairseq has no option of generation", "fairseq-generate")


def _refuse(unknown: set, why: str, command: str) -> None:
    if unknown:
        names = ", ".join(sorted(map(str, unknown)))
        raise UserError(f"{why} {names}; write options as the flags of {command}, without -- and with _ for -.")


def _text_options(*folders: Path) -> dict[str, Any]:
    """The options that say how raw text becomes symbols, by the first folder that knows."""
    for folder in folders:
        if (folder / FILE).is_file():
            text = PreparedText.load(folder)
            languages = {"source_lang": text.source_language, "target_lang": text.target_language}
            return {"bpe": "prepared", "prepared_text": str(folder)} | (languages if text.source_language else {})
    return {}


def _recorded_options(checkpoint: Path, given: dict) -> dict[str, str]:
    """The languages of a translation, as its checkpoint knows them. Raises UserError if the text was prepared but
    prepared_text.json is lost, and no other option says how."""
    record = Record.of_checkpoint(checkpoint, checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint)))
    if record and record.prepared and "bpe" not in given:
        raise UserError(
            f"{folder_of(checkpoint)} has lost its {FILE}, which says how raw text becomes symbols: copy it, and the"
            " files that it names, from the data folder of the training, or say so with bpe and tokenizer (None for"
            " text of symbols)."
        )
    return dict(zip(("source_lang", "target_lang"), record.languages)) if record and record.languages else {}


def _checkpoints(place, names) -> tuple[Path, list[str]]:
    """The folder of the checkpoints, and their names in it."""
    if names is not None and not isinstance(names, str | Path):
        raise UserError(
            f"checkpoint_file {names!r:.50} does not fit; give a name, or several with {os.pathsep} between them."
        )
    if isinstance(place, str | Path) and str(place):
        place = os.path.expanduser(place)
        if os.path.isfile(place) and Path(place).suffix in ENDINGS:
            place, names = Path(place).parent, names or Path(place).name
    folder = Path(file_utils.load_archive_file(place))
    found = sorted(path.name for path in folder.glob("*") if path.suffix in ENDINGS)
    if names is None:
        if (chosen := best_or_last(folder)) is None:
            others = f". It has {', '.join(found[:5])}: name one." if found else f": {WANTED}."
            raise UserError(f"{place} has none of {BEST}, {LAST} and {WEIGHTS}{others}")
        names = chosen.name
    wanted = str(names).split(os.pathsep)
    for name in wanted:
        if not (folder / name).is_file():
            raise UserError(
                f"{os.path.join(place, name)} does not exist; there is {', '.join(found[:5]) or 'no checkpoint'}."
            )
    return folder, wanted


def _data(folder: Path, home: Path, checkpoint: str, given) -> Path:
    """The folder of the dictionaries; ``home`` belongs to the checkpoint, which may be a link."""
    if given is not None:
        if not isinstance(given, str | Path):
            raise UserError(f"data_name_or_path {given!r:.50} does not fit; give the folder that has the dictionary.")
        data = folder / given if str(given).startswith(".") else Path(given).expanduser()
        if not data.is_dir():
            raise UserError(
                f"the data folder {data} does not exist: give the folder that has the dictionary, dict.*.txt."
            )
        return data
    refuse_incomplete(home)
    if any(home.glob("dict*.txt")):
        return home
    state = checkpoint_utils.load_checkpoint_to_cpu(str(folder / checkpoint))
    data = Path(str(getattr(state["cfg"]["task"], "data", "")).split(os.pathsep)[0])
    if not any(data.glob("dict*.txt")):
        raise UserError(
            f"neither {folder} nor the data folder of the training, {data}, has a dictionary (dict.*.txt): give the"
            " folder that has it as data_name_or_path."
        )
    return data


class TranslationHub(ModelHub):
    """A translation model for raw text."""

    GENERATION = {"max_len_a": MAX_LEN_A}  # as tools.translate: fairseq's limit of 200 would cut long translations

    def sample(self, sentences: str | list[str], beam: int = 1, verbose: bool = False, **options) -> str | list:
        """The translation of a line, else of each of a list. ``translate`` does the same, with a beam of 5.

        An empty line stays empty. A byte order mark before a line, as of a file, is dropped. A line that is longer than
        the model takes is cut between sentences or words; the parts are translated apart, and joined.

        Args:
            options: fairseq's options of generation, such as lenpen. With nbest above 1 each line has a list of
                translations, the best first
        """
        if isinstance(sentences, str):
            return self.sample([sentences], beam, verbose, **options)[0]
        longest, _ = self.max_positions
        sources = [parts(squeeze(line.removeprefix("\ufeff")), self.encode, longest) for line in _checked(sentences)]
        wanted = [part for line in sources for part in line]
        found = iter(self.generate(wanted, beam, verbose, **options) if wanted else [])
        texts = [[[self.decode(each["tokens"]) for each in next(found)] for _ in line] for line in sources]
        nbest = options.get("nbest", 1)  # an empty part has one translation only
        ranked = [[join([part[min(rank, len(part) - 1)] for part in line]) for rank in range(nbest)] for line in texts]
        return ranked if nbest > 1 else [best for best, *_ in ranked]

    def _build_batches(self, tokens, skip_invalid_size_inputs):
        """fairseq's, where --max-tokens of the training does not limit the length of a line."""
        batches = self.cfg.dataset
        if batches.max_tokens:
            batches.max_tokens = max(batches.max_tokens, *map(len, tokens))
        return super()._build_batches(tokens, skip_invalid_size_inputs)


class LanguageModelHub(ModelHub):
    """A language model for raw text. A newline in a text is the end-of-line token. It is no token for a model that was
    trained with --no-end-of-line."""

    def encode(self, text: str) -> Tensor:
        """The tokens [T] of a text, with an end of line after each of its lines, the last one included. A model without
        ends of lines has one at the end only."""
        *lines, last = (super(LanguageModelHub, self).encode(line) for line in text.split("\n"))
        kept = -1 if getattr(self.task.args, "no_end_of_line", False) else None
        return torch.cat([*(line[:kept] for line in lines), last])

    def decode(self, tokens: Tensor) -> str:
        """The text of tokens [T]. The tokens after the last end of line, perhaps none, are the last line."""
        ends = [-1, *tokens.eq(self.src_dict.eos()).nonzero().flatten().tolist(), len(tokens)]
        return "\n".join(super(LanguageModelHub, self).decode(tokens[a + 1 : b]) for a, b in zip(ends, ends[1:]))

    @torch.no_grad()
    def score(self, texts: str | list[str]) -> dict | list[dict]:
        """The log-probability of every token of a text. The first token follows an end of line. A model that was
        trained with --no-first-target reads it only, so its tokens and scores begin with the second.

        Returns:
            for a text, else for each of a list, a dictionary: "tokens" [T]; "positional_scores" [T], their natural
            log-probabilities; "score", the mean of these. An ensemble has the mean probabilities of its models
        """
        if isinstance(texts, str):
            return self.score([texts])[0]
        tokens = [self.encode(text)[:-1] for text in _checked(texts)]
        if min(map(len, tokens), default=2) <= self._only_read:
            few = "a text of one token, which is read only," if self._only_read else "an empty text"
            raise UserError(f"{few} has no score: leave it out.")
        pieces = [self._pieces(each) for each in tokens]
        found = iter(self._log_probs([piece for text in pieces for piece in text]))
        scores = [torch.cat([torch.empty(0), *(next(found) for _ in text)]) for text in pieces]
        return [
            {"tokens": text, "score": each.mean(), "attention": None, "alignment": None, "positional_scores": each}
            for text, each in zip((text[self._only_read :] for text in tokens), scores)
        ]

    @property
    def _only_read(self) -> int:
        """The number of tokens at the beginning of a text that are no targets."""
        return int(getattr(self.task.args, "no_first_target", False))

    def sample(
        self, texts: str | list[str] = "", length: int = LENGTH, temperature: float = 1.0, top_k: int = -1,
        top_p: float = -1.0, seed: int | None = None, **options,
    ) -> str | list[str]:  # fmt: skip
        """Sample the continuation of a text.

        Args:
            texts: the beginning of a text, or a list of beginnings
            length: number of tokens to sample; a model of single lines stops at the end of the line
            temperature: values below 1 give more likely text
            top_k: sample from this many most likely tokens; -1: from all
            top_p: sample from the most likely tokens whose probabilities sum to this; -1: from all
            seed: of the random numbers; None: go on with torch's
            options: fairseq's options of generation, such as beam. With any of these fairseq continues each text to
                the end of its line, or by max_len_b tokens, and there is no length

        Returns:
            for a text, else for each of a list, that text and its continuation; with nbest above 1 a list of them
        """
        if isinstance(texts, str):
            return self.sample([texts], length, temperature, top_k, top_p, seed, **options)[0]
        texts = _checked(texts)
        choices: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        with torch.random.fork_rng(enabled=seed is not None):
            if seed is not None:
                torch.manual_seed(seed)
            if options:
                return self._search(texts, length, **choices, options=options)
            prompts = [self.encode(text)[:-1].tolist() for text in texts]
            drawn = (sample(self.task, list(self.models), prompt, length, **choices)[0] for prompt in prompts)
            return [self.decode(torch.tensor(tokens, dtype=torch.long)) for tokens in drawn]

    def translate(self, sentences: str | list[str], beam: int = 5, verbose: bool = False, **options):
        """``sample`` with a beam."""
        return self.sample(sentences, beam=beam, verbose=verbose, **options)

    def _search(self, texts: list[str], length: int, temperature: float, top_k: int, top_p: float, options: dict):
        """Each text as fairseq's search continues it, with its own options."""
        if length != LENGTH:
            raise UserError("length has no effect beside fairseq's options: give max_len_b in its place.")
        for text in texts:
            if "\n" in text:
                raise UserError(
                    "fairseq's search goes to the end of a line, but the text has several; give its last line, or leave"
                    f" out {', '.join(options)}."
                )
        ours = {"temperature": temperature, "sampling_topk": top_k, "sampling_topp": top_p}
        found = super().sample(texts, **{"beam": 1, **ours, **options})
        if options.get("nbest", 1) > 1:
            return [[text.removesuffix("\n") for text in each] for each in found]
        return [text.removesuffix("\n") for text in found]

    def _log_probs(self, pieces: list[Tensor]) -> list[Tensor]:
        """The log-probabilities of the targets of each piece, which follows an end of line. Pieces of similar lengths
        are read at once."""
        found, order = list(pieces), sorted(range(len(pieces)), key=lambda i: len(pieces[i]))
        skipped = self._only_read
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            target = pad_sequence([pieces[i] for i in chosen], True, self.src_dict.pad()).to(self.device)
            source = torch.cat([target.new_full((len(target), 1), self.src_dict.eos()), target[:, :-1]], dim=1)
            source, target = source[:, skipped:], target[:, skipped:]
            each = torch.stack([self._score_batch(model, source, target) for model in self.models])
            mean = (torch.logsumexp(each, dim=0) - math.log(len(each))).cpu()
            for i, row in zip(chosen, mean):
                found[i] = row[: len(pieces[i]) - skipped]
        return found

    def _pieces(self, tokens: Tensor) -> list[Tensor]:
        """The tokens of a text [T], cut where the model's memory ends; no piece is empty."""
        raise NotImplementedError

    def _score_batch(self, model, source: Tensor, target: Tensor) -> Tensor:
        """The log-probabilities of targets [B, T], after the sources [B, T]."""
        raise NotImplementedError


class StreamHub(LanguageModelHub):
    """A language model whose memory goes from block to block. It scores a text of any length as fairseq-eval-lm does
    with --batch-size 1 and the training's --tokens-per-sample."""

    def _pieces(self, tokens):
        return [tokens] if len(tokens) else []

    def _score_batch(self, model, source, target):
        memory, block = StreamMemory(), self.task.args.tokens_per_sample
        blocks = zip(source.split(block, dim=1), target.split(block, dim=1))
        return -torch.cat([model.token_nll(model(inputs, memory=memory), wanted) for inputs, wanted in blocks], dim=1)


class LineHub(LanguageModelHub):
    """A language model of single lines. It scores each line of a text for itself, as it was trained."""

    def _pieces(self, tokens):
        ends = [0, *(tokens.eq(self.src_dict.eos()).nonzero().flatten() + 1).tolist(), len(tokens)]
        return [tokens[a:b] for a, b in zip(ends, ends[1:]) if a < b]

    def _score_batch(self, model, source, target):
        log_probs = model.get_normalized_probs(model(source), log_probs=True)
        return log_probs.gather(-1, target.unsqueeze(-1)).squeeze(-1)


def _checked(texts) -> list[str]:
    texts = list(texts) if isinstance(texts, Iterable) else [texts]
    for text in texts:
        if not isinstance(text, str):
            raise UserError(f"a text is a string, not a {type(text).__name__}; give a string or a list of strings.")
    return texts
