"""Do faster tokenisers and byte pair encoders give the text that ours give?

    pip install opus-fast-mosestokenizer tokenizers                     # libraries that are not installed are left out
    python benchmarks/same_text.py                                      # 100,000 lines of benchmarks/preprocessing.py
    python benchmarks/same_text.py --text newstest2013.de newstest2013.en train.en       # real ones; .gz may follow

Moses tokens by sacremoses, which preprocess/ uses, and by the port of Moses to C++; then byte pair encoding, learned
and applied by subword-nmt, by our table of words over subword-nmt, and by Hugging Face's tokenizers. Each is compared
with the first of its kind, line by line, in one process.
"""

import argparse
import datetime
import gzip
import importlib.util
import io
import os
import platform
import tempfile
from contextlib import redirect_stderr
from importlib.metadata import version
from itertools import islice
from pathlib import Path

from preprocessing import LANGUAGES, Language
from timing import timed

from fairseq_plugins.text.levels import BytePairs
from fairseq_plugins.text.tokenisers import Moses

MERGES = 10_000
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread, as the others have
MODULES = {"opus-fast-mosestokenizer": "mosestokenizer", "tokenizers": "tokenizers"}  # that need not be installed
Texts = dict[str, list[str]]  # lines by language


def generated(number: int) -> Texts:
    texts = {}
    for seed, name in enumerate(LANGUAGES):
        language = Language(seed)
        texts[name] = [language.sentence() for _ in range(number // 2)]
    return texts


def read(paths: list[Path], number: int) -> Texts:
    """At most so many lines. A file's language is the end of its name."""
    texts: Texts = {}
    for path in paths:
        packed = path.suffix == ".gz"
        language = (path.with_suffix("") if packed else path).suffix[1:]
        left = number - sum(map(len, texts.values()))
        with (gzip.open if packed else open)(path, "rt", encoding="utf-8") as file:
            texts.setdefault(language, []).extend(line.rstrip("\n") for line in islice(file, left))
    return texts


def sacremoses(language: str):
    return Moses(language).tokenise


def fast_moses(language: str):
    from mosestokenizer import MosesTokenizer

    tokeniser = MosesTokenizer(language, escape_xml=True, url_handling=False)  # as sacremoses does
    return lambda line: " ".join(tokeniser.tokenize(line))


def learn_subword_nmt(lines: list[str], codes: Path) -> None:
    from subword_nmt.learn_bpe import learn_bpe

    with open(codes, "w", encoding="utf-8") as file, redirect_stderr(io.StringIO()):  # a bar
        learn_bpe(lines, file, MERGES)


def learn_tokenizers(lines: list[str], codes: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    # it is given a number of symbols, not of merges
    symbols = MERGES + len({*"".join(lines)} - {" "}) + len({word[-1] for line in lines for word in line.split()})
    trainer = trainers.BpeTrainer(
        vocab_size=symbols, min_frequency=2, end_of_word_suffix="</w>", show_progress=False, limit_alphabet=10**6
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.model.save(str(codes.parent))
    merges = (codes.parent / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
    codes.write_text("\n".join(["#version: 0.2", *merges[:MERGES], ""]), encoding="utf-8")


def apply_subword_nmt(codes: Path):
    from subword_nmt.apply_bpe import BPE

    with open(codes, encoding="utf-8") as file:
        return BPE(file).process_line


def apply_table(codes: Path):
    return BytePairs(codes).encode


def apply_tokenizers(codes: Path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    merges = [tuple(line.split()) for line in codes.read_text(encoding="utf-8").splitlines()[1:]]
    characters = set(map(chr, (*range(32, 0xD800), *range(0xE000, 0x20000))))  # surrogates are no characters
    symbols = characters | {f"{each}</w>" for each in characters} | {"".join(merge) for merge in merges}
    vocabulary = {symbol: number for number, symbol in enumerate(sorted(symbols))}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()

    def encode(line: str) -> str:
        joined = "@@ ".join(tokenizer.encode(line).tokens)
        return joined.replace("</w>@@", "").removesuffix("</w>")

    return encode


def installed(makers: dict) -> dict:
    """Those of these libraries that are installed."""
    return {
        name: make for name, make in makers.items() if name not in MODULES or importlib.util.find_spec(MODULES[name])
    }


def compare(texts: Texts, folder: Path) -> list[tuple]:
    """Rows of what, by which library, seconds, and lines that are the same."""
    rows = []

    def row(what: str, library: str, seconds: float, got: list[str], expected: list[str]) -> None:
        same = sum(a == b for a, b in zip(got, expected, strict=True))
        rows.append((what, library, f"{seconds:.1f}", f"{same:,} of {len(expected):,}"))

    tokens: list[str] = []
    for library, make in installed({"sacremoses": sacremoses, "opus-fast-mosestokenizer": fast_moses}).items():
        got, seconds = [], 0.0
        for language, own in texts.items():
            tokenise = make(language)
            tokenise("")  # loads its files once
            results, taken = timed(list, map(tokenise, own))
            got, seconds = got + results, seconds + taken
        tokens = tokens or got
        row("Moses tokens", library, seconds, got, tokens)

    codes, expected = {}, []
    for library, learn in installed({"subword-nmt": learn_subword_nmt, "tokenizers": learn_tokenizers}).items():
        codes[library] = folder / library / "codes.bpe"
        codes[library].parent.mkdir()
        _, seconds = timed(learn, tokens, codes[library])
        encoded = list(map(BytePairs(codes[library]).encode, tokens))
        expected = expected or encoded
        row(f"{MERGES:,} merges, learned", library, seconds, encoded, expected)

    expected = []
    appliers = {"subword-nmt": apply_subword_nmt, "ours": apply_table, "tokenizers": apply_tokenizers}
    for library, make in installed(appliers).items():
        got, seconds = timed(list, map(make(codes["subword-nmt"]), tokens))
        expected = expected or got
        row("merges, applied", library, seconds, got, expected)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--text", type=Path, nargs="+", help="files of raw text (default: generated text)")
    args = parser.parse_args()
    texts = read(args.text, args.lines) if args.text else generated(args.lines)
    with tempfile.TemporaryDirectory() as folder:
        rows = compare(texts, Path(folder))
    names = dict.fromkeys(library for _, library, *_ in rows if library != "ours")
    print(f"{datetime.date.today()}, CPU ({platform.machine()}), {os.cpu_count()} cores, Python "
          f"{platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in names))  # fmt: skip
    for line in [("what", "by", "seconds", "the same lines"), ("---",) * 4, *rows]:
        print(f"| {' | '.join(line)} |")


if __name__ == "__main__":
    main()
