"""A small corpus from a seeded grammar: English, and Lomi, an invented language with another word order.

    python preprocess/synthetic.py --out data/lomi/raw
    python preprocess/parallel.py --raw data/lomi/raw --source en --target lomi --bpe 400 --out data/lomi

    the old farmers did not see a red boat in the forest because every girl cries .
    sol lesi plake ka , tomaki vani vesksa lodikn kasn un ma vidolt .

How Lomi differs from English:

- the verb comes last, the object before it, and the place before the object;
- adjectives follow their noun and take its endings: plural -i, then accusative -n or locative -sa;
- "the" is not said, "a" is the word "un" after the noun phrase, "every" is "sol" before it;
- verbs end in -e (present) or -ol (past), and -t after a plural subject; "not" is "ma" before the verb, without "do";
- a subordinate clause comes first and its conjunction last in it.

No sentence occurs twice on either side, so no sentence of the test set occurs in training. With --format the same text
is written in the layout of another corpus, so that the script for that corpus can be tried without its data. For the
corpus of a language model only the English side is written.
"""

import argparse
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lib.steps import UserError, command_line, writing

from fairseq_plugins.files.whole import replacing
from fairseq_plugins.options.ranges import whole


def _lexicon(words: str) -> dict[str, str]:
    """Translations by word, from "word translation word translation ..."."""
    return dict(zip(words.split()[::2], words.split()[1::2], strict=True))


BEINGS = _lexicon("""
    farmer tomak  girl lesi  boy rudo  teacher pavel  doctor mikor  king dran  queen dranel  soldier katur
    dog wuf  cat nami  horse hapro  bird tisil  wolf garu  child oli  friend besk  baker furon  sailor navot
    singer salid
""")
THINGS = _lexicon("""
    house dom  boat lodik  book biro  letter skarv  apple jablo  bread hemu  stone gork  tree arvo  lamp lumi
    table tavol  box kesto  song melu  coat palt  knife zev  wheel rondo  flower floriz
""")
PLACES = _lexicon("""
    garden sadin  forest vesk  village selu  market bazor  kitchen kuhin  field pelt  school skolu  tower turim
    street ulit  church kirok
""")
ADJECTIVES = _lexicon("""
    old van  young jun  red kas  small mik  big bol  happy fel  poor bid  quiet tis  strange cud  black nok
    green zel  clever umi  tired utom  beautiful krasiv
""")
TRANSITIVE = _lexicon("""
    see vid  find nald  love amor  carry nes  buy kup  sell prod  paint malo  hide skriv  watch gled
    follow sled  draw risu  clean cist  want hot  bring dones  know zan
""")
INTRANSITIVE = _lexicon("""
    sleep dorm  sing sal  laugh smej  wait cek  dance tanc  work robu  run beg  cry plak
""")
CONJUNCTIONS = _lexicon("""
    because ka  when tem  if li  although ham
""")
# irregular English forms
PAST = _lexicon("""
    see saw  find found  buy bought  sell sold  hide hid  draw drew  bring brought  know knew  sleep slept
    sing sang  run ran
""")
PLURALS = _lexicon("""
    wolf wolves  child children  knife knives
""")


@dataclass(frozen=True)
class Phrase:
    """A noun phrase: determiner, adjectives, noun."""

    determiner: str
    adjectives: tuple[str, ...]
    noun: str
    plural: bool

    def english(self) -> str:
        noun = PLURALS.get(self.noun, _with_s(self.noun)) if self.plural else self.noun
        words = [self.determiner, *self.adjectives, noun]
        if words[0] == "a" and words[1][0] in "aeiou":
            words[0] = "an"
        return " ".join(filter(None, words))

    def lomi(self, case: str) -> str:
        ending = "i" * self.plural + case
        words = ["sol"] if self.determiner == "every" else []
        words += [
            (BEINGS | THINGS | PLACES)[self.noun] + ending,
            *(ADJECTIVES[word] + ending for word in self.adjectives),
        ]
        return " ".join(words + ["un"] * (self.determiner == "a"))


@dataclass(frozen=True)
class Clause:
    subject: Phrase
    verb: str
    past: bool
    negated: bool
    object: Phrase | None
    place: Phrase | None

    def english(self) -> str:
        if self.negated:
            verb = ("did" if self.past else "do" if self.subject.plural else "does") + f" not {self.verb}"
        elif self.past:
            verb = PAST.get(self.verb) or self.verb.removesuffix("y").removesuffix("e") + (
                "ied" if self.verb.endswith("ry") else "ed"
            )
        else:
            verb = self.verb if self.subject.plural else _with_s(self.verb)
        object = self.object.english() if self.object else ""
        place = f"in {self.place.english()}" if self.place else ""
        return " ".join(filter(None, [self.subject.english(), verb, object, place]))

    def lomi(self) -> str:
        verb = (TRANSITIVE | INTRANSITIVE)[self.verb] + ("ol" if self.past else "e") + "t" * self.subject.plural
        place = self.place.lomi("sa") if self.place else ""
        object = self.object.lomi("n") if self.object else ""
        return " ".join(filter(None, [self.subject.lomi(""), place, object, "ma" if self.negated else "", verb]))

    def short(self) -> "Clause":
        """The clause without adjectives and place, for a summary."""
        bare = {
            name: phrase and replace(phrase, adjectives=())
            for name, phrase in (("subject", self.subject), ("object", self.object))
        }
        return replace(self, place=None, **bare)


@dataclass(frozen=True)
class Sentence:
    main: Clause
    conjunction: str = ""
    subordinate: Clause | None = None

    def english(self) -> str:
        tail = f" {self.conjunction} {self.subordinate.english()}" if self.subordinate else ""
        return f"{self.main.english()}{tail} ."

    def lomi(self) -> str:
        head = f"{self.subordinate.lomi()} {CONJUNCTIONS[self.conjunction]} , " if self.subordinate else ""
        return f"{head}{self.main.lomi()} ."


class Grammar:
    """Draws sentences that are all different in both languages."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.seen = set()

    def pairs(self, number: int) -> list[tuple[str, str]]:
        """(English, Lomi) pairs."""
        pairs, tries = [], 0
        while len(pairs) < number:
            sentence = self.sentence()
            pair = sentence.english(), sentence.lomi()
            if self.seen.isdisjoint(pair):
                self.seen.update(pair)
                pairs.append(pair)
            elif (tries := tries + 1) > 100 * number:
                raise UserError(f"the grammar has too few sentences for {number} more: choose smaller numbers.")
        return pairs

    def sentence(self) -> Sentence:
        if self.random.random() < 0.3:
            return Sentence(self.clause(), self.random.choice(list(CONJUNCTIONS)), self.clause())
        return Sentence(self.clause())

    def clause(self) -> Clause:
        transitive = self.random.random() < 0.65
        return Clause(
            self.phrase(BEINGS),
            self.random.choice(list(TRANSITIVE if transitive else INTRANSITIVE)),
            self.chance(0.5),
            self.chance(0.25),
            self.phrase(BEINGS | THINGS) if transitive else None,
            replace(self.phrase(PLACES), determiner="the", adjectives=()) if self.chance(0.35) else None,
        )

    def phrase(self, nouns: dict) -> Phrase:
        plural = self.chance(0.35)
        determiner = self.random.choice(["the", ""] if plural else ["the", "the", "a", "every"])
        adjectives = self.random.sample(list(ADJECTIVES), self.random.choice([0, 0, 0, 1, 1, 2]))
        return Phrase(determiner, tuple(adjectives), self.random.choice(list(nouns)), plural)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def article(self) -> dict[str, str]:
        """Article and highlights in English. The highlights are the first and the last sentence, shortened."""
        clauses = [self.clause() for _ in range(self.random.randint(4, 10))]
        return {
            "article": " ".join(clause.english() + " ." for clause in clauses),
            "highlights": "\n".join(clause.short().english() + " ." for clause in (clauses[0], clauses[-1])),
        }


def _with_s(word: str) -> str:
    if word.endswith(("ch", "x", "s")):
        return word + "es"
    return word[:-1] + "ies" if word.endswith("ry") else word + "s"


# The layouts of corpora: functions from a grammar and the numbers of sentences in train, valid and test to the content
# of each file


def _parallel(splits: str, english: str, lomi: str, grammar: Grammar, numbers) -> dict[str, str]:
    """Sentences in both languages. ``english`` and ``lomi`` are the suffixes of their files."""
    pairs = [(name, list(zip(*grammar.pairs(number)))) for name, number in zip(splits.split(), numbers)]
    return {
        f"{name}.{ending}": "".join(line + "\n" for line in lines)
        for name, sides in pairs
        for ending, lines in zip((english, lomi), sides)
    }


def _records(grammar: Grammar, numbers) -> dict[str, str]:
    """Articles with highlights as JSON lines."""
    return {
        f"{name}.jsonl": "".join(json.dumps({"id": f"{name}-{n}"} | grammar.article()) + "\n" for n in range(number))
        for name, number in zip(("train", "valid", "test"), numbers)
    }


def _english(names: str, write: Callable[[list[str]], str], grammar: Grammar, numbers) -> dict[str, str]:
    """English sentences for a language model. ``write`` turns them into text; one name means one file for all
    splits."""
    files = names.split()
    texts = [[english for english, _ in grammar.pairs(n)] for n in (numbers if len(files) > 1 else [sum(numbers)])]
    return {name: write(sentences) for name, sentences in zip(files, texts, strict=True)}


def _glue(grammar: Grammar, numbers) -> dict[str, str]:
    """Tasks of GLUE, each with a training and a validation set, but no test set, which would have no labels."""
    return {
        f"{task}/{name}.tsv": rows.text(grammar, number)
        for task, rows in GLUE.items()
        for name, number in zip(("train", rows.dev), numbers)
    }


@dataclass(frozen=True)
class Rows:
    """A task of GLUE. ``row(clause, other clause, label)`` returns the columns; ``header`` is the line of their
    names."""

    row: Callable[[Clause, Clause, int], tuple]
    header: str
    labels: int = 2
    dev: str = "dev"

    def text(self, grammar: Grammar, number: int) -> str:
        rows = [self.row(grammar.clause(), grammar.clause(), n % self.labels) for n in range(number)]
        return self.header + "".join("\t".join(map(str, row)) + "\n" for row in rows)


def _statement(clause: Clause) -> str:
    return f"{clause.english()} ."


def _question(clause: Clause) -> str:
    return f"is it true that {clause.english()} ?"


def _acceptable(clause: Clause, other: Clause, label: int) -> tuple:
    sentence = _statement(clause)
    return ("gen", 1, "", sentence) if label else ("gen", 0, "*", " ".join(reversed(sentence.split())))


def _inference(clause: Clause, other: Clause, label: int) -> tuple:
    short = clause.short()
    claim = (short, other.short(), replace(short, negated=not short.negated))[label]
    return 0, _statement(clause), _statement(claim), ("entailment", "neutral", "contradiction")[label]


GLUE = {
    "MRPC": Rows(
        lambda clause, other, label: (label, 1, 2, _statement(clause), _statement((other, clause)[label].short())),
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n",
    ),
    "QQP": Rows(
        lambda clause, other, label: (0, 1, 2, _question(clause), _question((other, clause)[label].short()), label),
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n",
    ),
    "CoLA": Rows(_acceptable, ""),
    "SST-2": Rows(
        lambda clause, other, label: (_statement(replace(clause, negated=not label)), label), "sentence\tlabel\n"
    ),
    "MNLI": Rows(_inference, "index\tsentence1\tsentence2\tgold_label\n", labels=3, dev="dev_matched"),
    "QNLI": Rows(
        lambda clause, other, label: (
            0,
            _question((other, clause)[label].short()),
            _statement(clause),
            ("not_entailment", "entailment")[label],
        ),
        "index\tquestion\tsentence\tlabel\n",
    ),  # fmt: skip
}


def _markup(sentences: list[str]) -> str:
    """Pages of XML, each with a link in Cyrillic letters of two bytes, as in a Wikipedia dump."""
    pages = [sentences[start : start + 5] for start in range(0, len(sentences), 5)]
    return "".join(
        f"<page>\n  <title>{page[0].split()[1].title()}</title>\n  <text>{'  '.join(page)}\n"
        f"[[ru:Дом {n}]]</text>\n</page>\n\n"
        for n, page in enumerate(pages)
    )


def _letters(sentences: list[str]) -> str:
    return " ".join(" ".join(sentence.rstrip(" .").split()) for sentence in sentences)


def _articles(sentences: list[str]) -> str:
    """Articles of a heading and a paragraph, with empty lines between them. Each line starts and ends with a space."""
    parts = [sentences[start : start + 5] for start in range(0, len(sentences), 5)]
    return "".join(f" \n = {part[0].split()[1].title()} = \n \n {' '.join(part)} \n" for part in parts)


def _spaced(sentences: list[str]) -> str:
    return " " + "\n ".join("".join(f"{c} " for c in s.replace(" ", "_").rstrip("._")) for s in sentences) + "\n "


FORMATS = {
    "parallel": partial(_parallel, "train valid test", "en", "lomi"),
    "wmt14_ende": partial(_parallel, "train newstest2013 newstest2014", "en", "de"),
    "iwslt14_deen": partial(_parallel, "train valid test", "en", "de"),
    "multi30k": partial(_parallel, "train val test_2016_flickr", "en", "de"),
    "cnndm": _records,
    "enwik8": partial(_english, "enwik8", _markup),
    "text8": partial(_english, "text8", _letters),
    "wikitext103": partial(_english, "wiki.train.tokens wiki.valid.tokens wiki.test.tokens", _articles),
    "char_ptb": partial(_english, "ptb.char.train.txt ptb.char.valid.txt ptb.char.test.txt", _spaced),
    "glue": _glue,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write the raw text to")
    parser.add_argument(
        "--format", choices=FORMATS, default="parallel", help="corpus whose layout is used (%(default)s)"
    )
    parser.add_argument("--seed", type=whole(0), default=1, metavar="N", help="seed of the sentences (%(default)s)")
    for split, number in (("train", 20000), ("valid", 500), ("test", 500)):
        parser.add_argument(
            f"--{split}", type=whole(0), default=number, metavar="N", help=f"number of {split} sentences (%(default)s)"
        )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    numbers = (args.train, args.valid, args.test)
    for name, content in FORMATS[args.format](Grammar(args.seed), numbers).items():
        (args.out / name).parent.mkdir(exist_ok=True)
        with writing(args.out / name), replacing(args.out / name) as (temporary,):
            temporary.write_text(content, encoding="utf-8")
    print(
        f"{args.out}: {args.train} training, {args.valid} validation and {args.test} test sentences (seed {args.seed})"
    )


if __name__ == "__main__":
    command_line(main)
