"""What is left of a perfect translation: each line is encoded and brought back, by language and tokeniser.

    python benchmarks/round_trip.py --data DIR    # texts named de.txt, fr.txt.gz ... (../shared/data/languages)

A row for each language: sacreBLEU of the lines that come back against the lines themselves, and how many differ. Moses'
own rules, Moses with the spacing that was learned from three quarters of the lines (scored on the last quarter),
and pieces, which are the default of ``preprocess/parallel.py``.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import sacrebleu
from paths import ROOT

sys.path.insert(0, str(ROOT / "preprocess"))

from lib import raw_text, subwords  # noqa: E402

from fairseq_plugins.files.compressed import plain_name  # noqa: E402
from fairseq_plugins.text.languages import has_spaces  # noqa: E402
from fairseq_plugins.text.levels import SentencePieces  # noqa: E402
from fairseq_plugins.text.tokenisers import Moses  # noqa: E402

SYMBOLS = 2000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    print("| language | lines | Moses | Moses, learned spacing | pieces |\n| --- | --- | --- | --- | --- |")
    for path in sorted(parser.parse_args().data.glob("*.txt*")):
        lines = [line for line in raw_text.read_sentences(path) if line]
        print("|", " | ".join([path.name.split(".")[0], str(len(lines)), *row(path, lines)]), "|", flush=True)


def row(path: Path, lines: list[str]) -> list[str]:
    moses = Moses(plain_name(path).split(".")[0])
    known = 3 * len(lines) // 4
    with TemporaryDirectory() as folder:
        model = Path(folder, "sentencepiece.model")
        subwords.learn_sentence_pieces(lines, model, SYMBOLS, path.name)
        level = SentencePieces(model)
        back = [level.decode(level.encode(line)) for line in lines]
    learned = moses.learn((line, moses.tokenise(line)) for line in lines[:known])
    return [scored(round_trip(moses, lines), lines), scored(round_trip(learned, lines[known:]), lines[known:]),
            scored(back, lines)]  # fmt: skip


def round_trip(moses: Moses, lines: list[str]) -> list[str]:
    return [moses.detokenise(moses.tokenise(line)) for line in lines]


def scored(back: list[str], lines: list[str]) -> str:
    tokenise = "13a" if has_spaces(lines) else "char"
    differ = sum(one != other for one, other in zip(back, lines))
    score = sacrebleu.corpus_bleu(back, [lines], tokenize=tokenise).score
    return f"{score:.1f}, {100 * differ / len(lines):.0f} %"


if __name__ == "__main__":
    main()
