"""CNN-DailyMail summarisation, non-anonymised: the first 400 words of an article to its highlights, 32K joint BPE.

    python preprocess/cnndm.py --out data/cnndm                       # downloads 590 MB
    python preprocess/cnndm.py --out data/cnndm --raw DIR             # train, valid, test .jsonl (or .jsonl.gz) in DIR

Each line is a JSON object with the text fields id, article and highlights, where newlines separate sentences. --train,
--valid and --test name other files, each with an optional range of lines: valid-1000.jsonl:1-800. Words are Moses
tokens, cased, and with --bpe sentencepiece those between spaces. In training targets and in the reference file <q>
separates the sentences of highlights, as ROUGE-L over sentences needs them. Records without an article or without
highlights are removed from the training set.
"""

import hashlib
import json
import re
from functools import partial
from pathlib import Path

from lib import locate, next_commands, options, raw_text, subwords, translation
from lib.download import Remote, fetch_all
from lib.steps import Steps, UserError, command_line

from fairseq_plugins.options.ranges import whole
from fairseq_plugins.text.lines import squeeze
from fairseq_plugins.text.tokenisers import SENTENCE_END, MosesBeginning, MosesSentences, Plain, PlainBeginning

STORIES = "https://huggingface.co/datasets/cnn_dailymail/resolve/main/data/"
DRIVE = "https://drive.usercontent.google.com/download?export=download&confirm=t&id="
LISTS = "https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists/"
LISTS_MIRROR = "https://cdn.jsdelivr.net/gh/abisee/cnn-dailymail@master/url_lists/"


def _archive(name: str, drive: str, sha256: str) -> Remote:
    return Remote(name, (STORIES + name, DRIVE + drive), sha256)


def _list(name: str, sha256: str) -> Remote:
    return Remote(name, (LISTS + name, LISTS_MIRROR + name), sha256)


REMOTES = [
    _archive(
        "cnn_stories.tgz",
        "0BwmD_VLjROrfTHk4NFg2SndKcjQ",
        "e8fbc0027e54e0a916abd9c969eb35f708ed1467d7ef4e3b17a56739d65cb200",
    ),
    _archive(
        "dailymail_stories.tgz",
        "0BwmD_VLjROrfM1BxdkxVaTY2bWs",
        "ad69010002210b7c406718248ee66e65868b9f6820f163aa966369878d14147e",
    ),
    _list("all_train.txt", "a5cee49f3a6c862c26ce29308236d2a99625ab6c86a43be22d5206b2790d8029"),
    _list("all_val.txt", "81887e982b045083409c6ee838aede8ff4b97291605bcfb21bffc456a16991db"),
    _list("all_test.txt", "c4f5efb5ec2126430a5c156efbd13d0e9c4cb490169e552c38b4a51981a009bd"),
]
SIDES = ("article", "highlights")


def main():
    parser = translation.parser(__doc__, 32000, max_words=1000)  # removes extremely long highlights only
    parser.add_argument(
        "--article-words", type=whole(1), default=400, metavar="N", help="words used of an article (%(default)s)"
    )
    for split in translation.SPLITS:
        parser.add_argument(
            f"--{split}",
            nargs="+",
            default=[f"{split}.jsonl"],
            metavar="FILE[:FIRST-LAST]",
            help="files in --raw, with lines counted from 1 (%(default)s)",
        )
    args = parser.parse_args()
    args.max_words = max(args.max_words, args.article_words)
    steps = Steps(args.out)
    raw = args.raw or _records_of_stories(fetch_all(REMOTES, steps), steps)
    options.check_raw(raw)
    for split in translation.SPLITS:
        parts = [_part(raw, split, part) for part in getattr(args, split)]
        outputs = [args.out / "text" / f"{split}.{side}" for side in SIDES]
        steps.run(
            f"text-{split}",
            [file for file, _, _ in parts],
            outputs,
            {"lines": [part[1:] for part in parts]},
            partial(_write_sides, parts),
        )
    kind = subwords.choose(args, [], whole=(SENTENCE_END,))
    if kind.name == subwords.SENTENCEPIECE:
        tokenisers = PlainBeginning(words=args.article_words), Plain()
    else:
        tokenisers = MosesBeginning("en", words=args.article_words), MosesSentences("en")
    sides = [translation.Side(name, tokeniser) for name, tokeniser in zip(SIDES, tokenisers)]
    translation.prepare_text(args, steps, kind, sides, list(translation.SPLITS), [], 0, next_commands.SUMMARIES)


def _part(raw: Path, split: str, part: str) -> tuple[Path, int, int | None]:
    """The file, the first line and the last line (None: the end) of ``NAME[:FIRST-LAST]``."""
    name, first, last = re.fullmatch(r"(.*?)(?::(\d+)-(\d+))?", part).groups()
    file = locate.plain_or_compressed(raw / name)
    if not file:
        raise UserError(f"--raw {raw} has no {name}: put it there, or name other files with --{split}.")
    if first and not 1 <= int(first) <= int(last):
        raise UserError(f"--{split} {part} is not a range of lines; write it as FIRST-LAST, counted from 1.")
    return file, int(first or 1), int(last) if last else None


def _write_sides(parts, *outputs: Path) -> str:
    counts = []

    def pairs():
        for file, first, last in parts:
            number = 0
            for number, record in enumerate(raw_text.read_records(file, ("id", *SIDES), first, last), 1):
                sentences = filter(None, map(squeeze, record["highlights"].splitlines()))
                yield 0, (squeeze(record["article"]), f" {SENTENCE_END} ".join(sentences))
            if number == 0 or last and number != last - first + 1:
                raise UserError(
                    f"{file} has {number} records from line {first} on, but lines up to {last or first} were requested."
                )
            counts.append(f"{file.name} {number}")

    number = raw_text.write_pairs(pairs(), outputs).total()
    return f"{', '.join(counts)} records in, {number} pairs out"


def _records_of_stories(raw: Path, steps: Steps) -> Path:
    """JSON lines from the story files, in the order and with the splits of the published lists of addresses."""
    records = steps.out / "records"
    for split, name in (("train", "all_train.txt"), ("valid", "all_val.txt"), ("test", "all_test.txt")):
        steps.run(
            f"records-{split}", [raw / name], [records / f"{split}.jsonl"], {}, partial(_write_records, raw, raw / name)
        )
    return records


def _write_records(raw: Path, addresses: Path, output: Path) -> str:
    def records():
        for address in raw_text.read_lines(addresses):
            name = hashlib.sha1(address.encode()).hexdigest()
            places = [raw / f"{site}_stories" / site / "stories" / f"{name}.story" for site in ("cnn", "dailymail")]
            file = next((path for path in places if path.is_file()), None)
            if not file:
                raise UserError(f"{raw} has no story for {address}: expected {places[0]} or {places[1]}.")
            yield json.dumps(dict(id=name, **story("\n".join(raw_text.read_lines(file)))), ensure_ascii=False)

    return f"{raw_text.write_lines(output, records())} records out, one for each address of {addresses.name}"


def story(content: str) -> dict[str, str]:
    """Article and highlights of a story file, in which each highlight follows a line "@highlight"."""
    article, *highlights = re.split(r"^@highlight\s*$", content, flags=re.MULTILINE)
    sentences = [squeeze(highlight) for highlight in highlights]
    return {
        "article": squeeze(article),
        "highlights": "\n".join(s if s.endswith((".", "!", "?", "'", '"', ")")) else s + " ." for s in sentences),
    }


if __name__ == "__main__":
    command_line(main)
