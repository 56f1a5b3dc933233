#!/usr/bin/env bash
# Which kind of SentencePiece's models is better for small language models: BPE, which the suite learns, or unigram?
#
#   benchmarks/pieces.sh TEXT OUT     prints tokens and bits per byte; runs that have results are skipped
#
# Both bring every line back. LANGUAGE_MODEL names the architecture, SYMBOLS the size (2000), EPOCHS the passes (2).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipes/lib.sh"
setup_venv
text=$(realpath "$1") out=$(realpath -m "$2")
cd "$ROOT"
mkdir -p "$out/runs"
symbols=${SYMBOLS:-2000}
learn_unigram() {
    [[ -e $out/unigram.model ]] || PYTHONPATH=preprocess python -c '
import sys
from pathlib import Path
from fairseq_plugins.text.reading import read_text
from sentencepiece import SentencePieceTrainer as trainer
from lib.subwords import RESERVED, parts
lines = (part for line in read_text(Path(sys.argv[1])) for part in parts(line.removesuffix("\n")))
trainer.train(sentence_iterator=lines, model_prefix=sys.argv[2], vocab_size=int(sys.argv[3]), byte_fallback=True,
              unk_piece=RESERVED, bos_id=-1, eos_id=-1, normalization_rule_name="identity", add_dummy_prefix=False,
              remove_extra_whitespaces=False, max_sentence_length=65536, minloglevel=2)' "$out/bpe/raw/train" "$out/unigram" "$symbols"
}
for kind in bpe unigram; do
    own=(--level sentencepiece --symbols "$symbols")
    [[ $kind == bpe ]] || { learn_unigram && own=(--model "$out/unigram.model"); }
    python preprocess/text.py --raw "$text" "${own[@]}" --out "$out/$kind" | grep '^binarise'
    run=$out/runs/$kind
    [[ -s $run/test.log ]] || {
        fairseq-train "$out/$kind/bin" --user-dir fairseq_plugins --task streaming_language_modeling --criterion streaming_lm \
            --arch "${LANGUAGE_MODEL:-transformer_xl_lm_tiny}" --batch-size 32 --tokens-per-sample 64 --optimizer adam --lr 0.002 \
            --clip-norm 1 --max-epoch "${EPOCHS:-2}" --no-epoch-checkpoints --seed 1 --save-dir "$run" --log-format simple \
            >"$run.log" 2>&1 || { echo "the training failed: see $run.log" >&2 && exit 1; }
        fairseq-eval-lm "$out/$kind/bin" --user-dir fairseq_plugins --task streaming_language_modeling \
            --path "$run/checkpoint_best.pt" --gen-subset test --batch-size 1 --tokens-per-sample 64 >"$run.eval" 2>&1
        grep -o '[0-9.]* bits per byte' "$run.eval" >"$run/test.log"
    }
    echo "$kind: $(<"$run/test.log")"
done
