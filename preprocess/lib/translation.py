"""From aligned raw text to binarised data for ``fairseq-train``.

    OUT/text        one raw sentence per line: train.en, train.de, valid.en ...
    OUT/tok         tokenised by Moses; for SentencePiece, the raw text
    OUT/clean       the training pairs after cleaning
    OUT/spacing.en.json   where the text has spaces between Moses tokens
    OUT/codes.bpe   joint byte pair encoding; or OUT/sentencepiece.model
    OUT/bpe         encoded
    OUT/bin         binarised: fairseq-train OUT/bin. prepared_text.json in it says how the text was prepared
    OUT/test.SOURCE-TARGET.ref   raw references, for sacreBLEU and ROUGE

The valid set has raw references, too, unless it is taken from the training set. Every step prints its numbers of input
and output lines.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path

import sacrebleu

from fairseq_plugins.options.ranges import number, whole
from fairseq_plugins.text import languages
from fairseq_plugins.text.levels import SentencePieces, settings_of
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.spacing import Spacing
from fairseq_plugins.text.tokenisers import Moses, Plain
from lib import binarise, locate, next_commands, options, raw_text, subwords
from lib.steps import Steps, UserError, add_workers

SPLITS = ("train", "valid", "test")
KEPT = {"spaces": "that do not break"}  # in raw text; earlier versions made them plain spaces
SPACING_LINES, SCORED_LINES = 50_000, 5000  # of train


def parser(doc: str, size: int, pieces: bool = False, several: bool = False, **defaults) -> argparse.ArgumentParser:
    """The options that all corpora share.

    Args:
        size, pieces: those of ``subwords.add_options``
        several: --raw may name several files
    """
    raw = {"raw": "files and folders with the raw text", "nargs": "+", "metavar": "PATH"} if several else {}
    parser = options.parser(doc, **raw)
    subwords.add_options(parser, size, pieces)
    parser.add_argument(
        "--max-words",
        type=whole(1),
        metavar="N",
        help="most words of a training line; letters, in scripts without spaces (%(default)s)",
    )
    add_workers(parser)
    parser.set_defaults(**{"max_words": 250} | defaults)
    return parser


def parallel_parser(*args, **defaults) -> argparse.ArgumentParser:
    """The options of parallel text. The arguments are those of ``parser``."""
    parallel = parser(*args, **defaults)
    for split in SPLITS:
        parallel.add_argument(f"--{split}-prefix", metavar="NAME", help=f"{split} files are NAME.LANGUAGE in --raw")
    parallel.add_argument(
        "--tokenised",
        nargs="+",
        choices=SPLITS,
        default=[],
        metavar="SPLIT",
        help="splits whose raw text is already tokenised, with Moses escapes",
    )
    ratio = "maximum ratio of lengths in a training pair (%(default)s)"
    parallel.add_argument("--max-ratio", type=number(1), metavar="R", help=ratio)
    return parallel


@dataclass(frozen=True)
class Side:
    """How one side of parallel text is prepared.

    Args:
        name: its suffix, such as en
        tokeniser: for raw lines, of ``fairseq_plugins/text/tokenisers.py``
        again: a tokeniser for the lines of splits that are tokenised already
        length: a function from a tokenised line to its number of words
    """

    name: str
    tokeniser: Plain | Moses
    again: Plain = Plain()
    length: Callable[[str], int] = languages.words


@dataclass(frozen=True)
class Untokenised(Plain):
    """The raw line of Moses tokens."""

    language: str = "en"

    def tokenise(self, line: str) -> str:
        return super().tokenise(Moses(self.language).detokenise(line))


def prepare_parallel(
    args,
    source: str,
    target: str,
    layouts: dict[str, list[list[str]]],
    raw: Path,
    steps: Steps,
    lower: bool = False,
    normalise: bool = False,
    carve: int = 0,
    arch: str = "feedback_transformer_iwslt",
) -> None:
    """Tokenise, clean, encode and binarise parallel text.

    Args:
        layouts: for every split, the ways in which its files may be named. A way is a list of files to join. Names may
            contain {language} and {role} (src or ref)
        carve: if there is no valid set, take every n-th clean training pair for it; 0: never
        arch: the architecture of the training that is printed at the end
    """
    options.check_raw(raw)
    subwords.check(args)
    if steps.out.resolve().is_relative_to(raw.resolve()) and raw != steps.out / "raw":
        raise UserError(
            f"--out {steps.out} lies in --raw {raw}, where it could be read as raw text: choose another folder."
        )
    raw_files = {}
    for split in SPLITS:
        if prefix := getattr(args, f"{split}_prefix"):
            layouts[split] = [[prefix + ".{language}"]]
        if split == "valid" and carve and _absent(raw, layouts[split], source):
            steps.forget("text-valid", "references-valid", *(f"tokenise-valid.{side}" for side in (source, target)))
        else:
            pairs = _find(raw, split, layouts[split], (source, target))
            raw_files[split] = [list(files) for files in zip(*pairs, strict=True)]
    used = Counter(file for files in raw_files.values() for file in files[0])
    if twice := [file for file, times in used.items() if times > 1]:
        raise UserError(
            f"{twice[0]} would be used for two of train, valid and test: give other files with --train-prefix, "
            "--valid-prefix or --test-prefix."
        )
    for split, (sources, targets) in raw_files.items():
        outputs = [steps.out / "text" / f"{split}.{language}" for language in (source, target)]
        steps.run(f"text-{split}", sources + targets, outputs, KEPT, partial(_collect, sources, targets))
    spaced = {
        language: languages.has_spaces(raw_text.read_lines(steps.out / "text" / f"train.{language}"))
        for language in (source, target)
    }
    split_by_user = set(raw_files) <= set(args.tokenised)
    kind = subwords.choose(args, [language for language in spaced if not spaced[language] and not split_by_user])
    sides = [_side(kind, language, spaced[language], split_by_user, lower, normalise) for language in spaced]
    prepare_text(args, steps, kind, sides, list(raw_files), args.tokenised, carve, next_commands.Advice(arch))


def _side(kind, language: str, spaced: bool, split_by_user: bool, lower: bool, normalise: bool) -> Side:
    """One language of parallel text."""
    length = languages.words if spaced or split_by_user else languages.words_and_letters
    tokeniser = kind.tokeniser(language, lower, normalise)
    if isinstance(tokeniser, Plain):
        return Side(language, tokeniser, Untokenised(lower, language), length)
    if spaced:
        return Side(language, tokeniser, Plain(lower), length)
    return Side(language, Plain(lower), Plain(lower), length)  # Moses knows no words here, only the user does


def prepare_text(
    args,
    steps: Steps,
    kind,
    sides: list[Side],
    splits: list[str],
    tokenised: list[str],
    carve: int,
    advice: next_commands.Advice,
) -> None:
    """Continue from ``OUT/text/SPLIT.SIDE``.

    Args:
        kind: of symbols: an object of subwords.py
        sides: source and target
        splits: those with text
        tokenised: splits whose text is tokenised already
        carve: as for ``prepare_parallel``
        advice: the settings of the commands that are printed at the end
    """
    out, (source, target) = steps.out, [side.name for side in sides]

    def pair(folder: str, split: str) -> list[Path]:
        return [out / folder / f"{split}.{side.name}" for side in sides]

    for split in splits:
        for side, raw, done in zip(sides, pair("text", split), pair("tok", split)):
            tokeniser = side.again if split in tokenised else side.tokeniser
            map_step(steps, f"tokenise-{done.name}", tokeniser.tokenise, raw, done, args.workers)
    held_out = sorted({"valid", "test"} & set(splits))
    for split in held_out:
        detokenise = (Moses(target) if split in tokenised else Plain()).detokenise
        reference = out / f"{split}.{source}-{target}.ref"
        map_step(steps, f"references-{split}", detokenise, pair("text", split)[1], reference, args.workers)

    cleaned = ["train"] + ["valid"] * bool(carve and "valid" not in splits)
    inputs, lengths = pair("tok", "train"), [side.length for side in sides]
    limits = dict(
        max_words=args.max_words, max_ratio=getattr(args, "max_ratio", None), carve=carve if cleaned[1:] else 0
    )
    settings = limits | {"lengths": [length.__name__ for length in lengths]}
    outputs = [file for split in cleaned for file in pair("clean", split)]
    steps.run("clean", inputs, outputs, settings, partial(_clean, inputs, lengths, **limits))
    others = {split: pair("tok", split) for split in ("valid", "test") if split in held_out}
    steps.run("overlap", [*inputs, *chain(*others.values())], [], {}, partial(_overlap, inputs, others))

    training, learned = pair("clean", "train"), out / kind.file
    read = training + ([kind.model] if isinstance(kind, subwords.Own) else [])
    steps.run(f"learn-{kind.name}", read, [learned], kind.settings, partial(kind.learn, training))
    tokenisers = [side.tokeniser if "train" in tokenised else with_spacing(steps, side) for side in sides]
    prepared = PreparedText(*tokenisers, kind.level(learned), source, target)
    encoded = []
    for split in SPLITS:
        for file, path in zip(pair("clean" if split in cleaned else "tok", split), pair("bpe", split)):
            map_step(steps, f"encode-{path.name}", prepared.level.encode, file, path, args.workers, [learned])
            encoded.append(path)
    settings = {side.name: [type(each).__name__, _given(asdict(each))] for side, each in zip(sides, tokenisers)}
    work = partial(_binarise, out, prepared)
    steps.run("binarise", [*encoded, learned], [out / "bin"], {"joined": True, "tokenisers": settings}, work)
    print(next_commands.translation(out, source, target, sides[1].tokeniser.lower, advice), flush=True)


def with_spacing(steps: Steps, side: Side) -> Plain | Moses:
    """The side's tokeniser; for Moses tokens, with the spaces of the training text between them."""
    tokeniser = side.tokeniser
    if type(tokeniser) is not Moses:
        return tokeniser
    text, tokens = (steps.out / folder / f"train.{side.name}" for folder in ("text", "tok"))
    file, work = steps.out / f"spacing.{side.name}.json", partial(_learn_spacing, tokeniser, text, tokens)
    steps.run(file.stem, [text], [file], _given(asdict(tokeniser)), work)  # which the tokens are made of
    return replace(tokeniser, spacing=Spacing.of(json.loads(file.read_text())))


def _learn_spacing(tokeniser: Moses, text: Path, tokens: Path, output: Path) -> str:
    learned = tokeniser.learn(islice(_pairs([text, tokens]), SPACING_LINES))
    output.write_text(json.dumps(asdict(learned.spacing)))
    pairs = list(islice(_pairs([text, tokens]), SCORED_LINES))
    lines = [line.lower() if tokeniser.lower else line for line, _ in pairs]
    back = [learned.detokenise(line) for _, line in pairs]
    differ = sum(line != other for line, other in zip(lines, back))
    score = sacrebleu.corpus_bleu(back, [lines]).score
    of = "the first " * (len(lines) == SCORED_LINES) + f"{len(lines)} lines"
    return f"{differ} of {of} do not come back from their tokens; a perfect translation scores {score:.1f} BLEU"


def _given(settings: dict) -> dict:
    """Without options that are not given, as earlier versions have none of these."""
    return {name: value for name, value in settings.items() if value is not None}


def _absent(raw: Path, layouts, language: str) -> bool:
    return not any(locate.file(raw, name) for layout in layouts for name in _names(layout, language, "src"))


def _names(layout: list[str], language: str, role: str) -> list[str]:
    return [name.format(language=language, role=role) for name in layout]


def _find(raw: Path, split: str, layouts, sides: tuple[str, str]) -> list[list[Path]]:
    """The pairs of files that are to be joined. A pair is from one folder, unless no other file has either name."""
    roles = ("src", "ref")
    for layout in layouts:
        pairs = [list(pair) for pair in zip(*(_names(layout, *side) for side in zip(sides, roles)))]
        files = [locate.together(raw, pair) or [locate.file(raw, name) for name in pair] for pair in pairs]
        if all(map(all, files)):
            return files
    ones, others = (_find_side(raw, split, layouts, *side) for side in zip(sides, roles))
    if len(ones) != len(others):
        raise UserError(
            f"--raw {raw} has {split} text as {ones[0].name} and as {others[0].name}: give source and target names of"
            f" one kind, or give the files with --{split}-prefix."
        )
    return [list(pair) for pair in zip(ones, others)]  # their names are of different kinds


def _find_side(raw: Path, split: str, layouts, language: str, role: str) -> list[Path]:
    named = [_names(layout, language, role) for layout in layouts]
    for names in named:
        files = [locate.file(raw, name) for name in names]
        if all(files):
            return files
    wanted = "; or ".join(" and ".join(names) for names in named)
    raise UserError(
        f"--raw {raw} has no {split} text for '{language}': put {wanted} there (it may be compressed), or give the "
        f"files with --{split}-prefix."
    )


def _collect(sources: list[Path], targets: list[Path], *outputs: Path) -> str:
    counts = Counter()

    def pairs():
        for files in zip(sources, targets):
            for pair in raw_text.read_pairs(*files):
                counts[files] += 1
                yield 0, pair

    raw_text.write_pairs(pairs(), outputs)
    report = ", ".join(f"{one.name} + {other.name} {counts[one, other]}" for one, other in zip(sources, targets))
    return f"{report} lines in, {counts.total()} pairs out"


def map_step(steps: Steps, name: str, function, source: Path, destination: Path, workers: int, more_inputs=()) -> None:
    """A step that writes ``function(line)`` for every line of ``source``. The function is a method of a tokeniser or of
    a level."""

    def work(path):
        return f"{(number := raw_text.map_lines(function, source, path, workers))} lines in, {number} out"

    steps.run(name, [source, *more_inputs], [destination], _description(function), work)


def _description(method) -> dict:
    """The name of a method, and the settings of its object other than files, which are inputs."""
    return {"function": method.__qualname__, **_given(settings_of(method.__self__))}


def _clean(inputs: list[Path], lengths: list, *outputs: Path, max_words: int, max_ratio, carve: int) -> str:
    dropped = Counter()
    pairs = enumerate(raw_text.clean(_pairs(inputs), lengths, max_words, max_ratio, dropped), 1)
    kept = raw_text.write_pairs(((int(carve and number % carve == 0), pair) for number, pair in pairs), outputs)
    why = ", ".join(f"{number} {reason}" for reason, number in dropped.items()) or "none"
    if not kept[0]:
        raise UserError(
            f"no pair of {inputs[0]} and {inputs[1]} is left after cleaning (dropped: {why}): raise the limit, or put "
            "text into both files."
        )
    left = f"{kept[0]} train" + (f" and {kept[1]} valid (one in {carve})" if carve else "")
    return f"{kept.total() + dropped.total()} pairs in, {left} out, dropped: {why}"


def _overlap(train: list[Path], held_out: dict[str, list[Path]]) -> str:
    """How many pairs of valid and test are in train, too."""
    pairs = {split: Counter(_pairs(files)) for split, files in held_out.items()}
    seen = set().union(*pairs.values()).intersection(_pairs(train))
    counts = {split: sum(number for pair, number in found.items() if pair in seen) for split, found in pairs.items()}
    report = " and ".join(f"{counts[split]} of {found.total()} {split} pairs" for split, found in pairs.items())
    much = any(2 * counts[split] > found.total() for split, found in pairs.items())
    return f"{report} are in train, too" + (": a score on them says little about new text" if much else "")


def _pairs(files: list[Path]) -> Iterator[tuple[str, ...]]:
    return zip(*map(raw_text.read_lines, files), strict=True)


def _binarise(out: Path, prepared: PreparedText, destination: Path) -> str:
    """Binarise all splits with one dictionary for both languages."""
    destination.mkdir()
    source, target = sides = prepared.source_language, prepared.target_language
    counts = binarise.count([out / "bpe" / f"train.{side}" for side in sides])
    always = prepared.level.symbols() if isinstance(prepared.level, SentencePieces) else []
    reports = []
    for side in sides:
        binarise.write_dictionary(destination / f"dict.{side}.txt", counts, always, multiple=8)
        indices = binarise.Indices(destination / f"dict.{side}.txt")
        for split in SPLITS:
            text = out / "bpe" / f"{split}.{side}"
            made = binarise.binarise(text, destination / f"{split}.{source}-{target}.{side}", indices)
            tokens = made.tokens + made.ends
            reports.append(f"{text.name} {made.lines} lines, {tokens} tokens, {made.percent_unknown:.3}% unknown")
    prepared.save(destination)
    return f"dictionary {len(indices)} types; {'; '.join(reports)}"
