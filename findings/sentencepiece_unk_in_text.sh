#!/usr/bin/env bash
# sentencepiece 0.2.3: the word <unk> of a text, which WikiText-2 has in 54,625 places, is no text to a model that learned
# it.
#
# Guess: with the identity rule, and with every character of the text in the model, each line comes back, and the most
# frequent word is few pieces. Seen: the word <unk> is encoded as the unknown piece and comes back as "⁇"; with
# byte_fallback it comes back, but as one piece for each of its five bytes. With another name for the unknown piece
# (unk_piece) it is three pieces and comes back.
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
words = ["".join(random.choices("abcdefgh", k=random.randint(2, 5))) for _ in range(500)] + ["<unk>"] * 100
lines = [" ".join(random.choices(words, k=8)) for _ in range(2000)]


def pieces_and_text(**options):
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=600, character_coverage=1.0,
        normalization_rule_name="identity", minloglevel=2, **options
    )
    processor = SentencePieceProcessor(model_proto=model.getvalue())
    ids = processor.encode("ab <unk> cd")
    return [processor.id_to_piece(number) for number in processor.encode("<unk>")], processor.decode(ids)


found = {}
for name, options in {"as it is": {}, "byte_fallback": {"byte_fallback": True}, "unk_piece": {"unk_piece": "<?>"}}.items():
    found[name] = pieces, text = pieces_and_text(**options)
    print(f"{name}: <unk> is {len(pieces)} pieces ({' '.join(pieces)}), and 'ab <unk> cd' comes back as {text!r}")
assert "⁇" in found["as it is"][1]
assert len(found["byte_fallback"][0]) >= 5 and found["byte_fallback"][1] == "ab <unk> cd"
assert len(found["unk_piece"][0]) == 3 and found["unk_piece"][1] == "ab <unk> cd"
PYTHON
