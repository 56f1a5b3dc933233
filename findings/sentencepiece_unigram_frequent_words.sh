#!/usr/bin/env bash
# sentencepiece 0.2.3: a unigram model has no piece for the most frequent word of its text, if no other word contains it.
#
# Guess: a word that stands in every line is the first thing that a model of 2,000 pieces learns, by unigram as by BPE.
# Seen: BPE has the piece, and unigram spells the word with three pieces in all 5,000 lines. The trainer counts the
# candidates for pieces in the list of different words. There the most frequent word comes once, and what comes once is
# no candidate. Real text has the same gap: "and" and "also" on 2,000 lines of WikiText-2.
#
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
export PATH=$folder/venv/bin:$PATH
pip install --quiet sentencepiece==0.2.3
pip list 2>log | grep sentencepiece

python - <<'PYTHON'
import io
import random

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

random.seed(1)
syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
words = ["".join(random.choices(syllables, k=random.randint(2, 4))) for _ in range(3000)]
lines = [" ".join([*random.choices(words, k=3), "and", *random.choices(words, k=3)]) for _ in range(5000)]


def pieces(kind):
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type=kind, vocab_size=2000, minloglevel=2
    )
    return SentencePieceProcessor(model_proto=model.getvalue()).encode("and", out_type=str)


found = {kind: pieces(kind) for kind in ("unigram", "bpe")}
for kind, found_pieces in found.items():
    print(f"{kind}, 2,000 pieces: 'and', which is in each of {len(lines)} lines, is", *found_pieces)
assert found["bpe"] == ["▁and"] and len(found["unigram"]) == 3
PYTHON
