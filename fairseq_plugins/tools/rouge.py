r"""ROUGE-1, -2 and -L (F1) of fairseq-generate's summaries.

    python -m fairseq_plugins.tools.rouge generated.txt \
        --references data/cnndm/test.article-highlights.ref --json rouge.json

There are two kinds of ROUGE-L. The papers on CNN-DailyMail report the summary-level one, over sentences (rouge-score's
rougeLsum, printed as ROUGE-L sum). The other one takes the whole summary as one sentence (ROUGE-L). Sentences are
separated by <q>, in hypotheses and in references. Moses tokens are joined and unescaped before scoring; raw text
(fairseq-generate --bpe prepared) is scored as it is. English words are stemmed, as is customary. Words of other
languages are counted as they are; in languages without spaces between words each character is one. The last line says
which it was.
"""

from pathlib import Path

from fairseq_plugins.files.whole import write_json
from fairseq_plugins.tools.lib.command import Command
from fairseq_plugins.tools.lib.generation_log import read_generation, read_references
from fairseq_plugins.tools.lib.rouge import NAMES, rouge, tokenisation


def main():
    parser = Command(__doc__)
    parser.add_argument("generated", type=Path, help="output of fairseq-generate")
    words = "raw summaries, one per line, with <q> between sentences"
    parser.add_argument("--references", type=Path, required=True, help=words)
    parser.add_argument("--lang", default="en", help="language, for words and the detokeniser (%(default)s)")
    parser.add_json("write the scores there, too")
    args = parser.parse()
    examples = read_generation(args.generated)
    references = read_references(args.references, len(examples))
    scores = rouge([example.hypothesis for example in examples], references, args.lang, examples[0].raw)
    for kind, name in NAMES.items():
        print(f"{name} = {scores[kind]:.2f}")
    print(f"({len(examples)} summaries, F1, {tokenisation(references, args.lang)}, rouge-score)")
    if args.json:
        write_json(args.json, {kind: round(score, 2) for kind, score in scores.items()})


if __name__ == "__main__":
    main()
