#!/usr/bin/env bash
# From nothing to a Feedback Transformer that translates, on a CPU: about two minutes after the one-time set-up.
#
#   recipes/quickstart.sh
#
# It makes a small parallel corpus (English and Lomi, an invented language with another word order; no test sentence occurs in
# training), learns joint BPE, trains feedback_transformer_tiny with fairseq-train, translates the held-out part and prints
# BLEU. Expect 95 or more; an untrained model scores below 1.
#
#   OUT    the folder of all files (default: runs/quickstart); a second call skips what is done
# It takes no options. VENV and PYTHON are as in recipes/lib.sh.
set -euo pipefail
if (($#)); then
    [[ $1 != --help ]] || exec sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"
    echo "quickstart: error: $1: it takes no options; OUT, VENV and PYTHON are variables." >&2
    exit 2
fi
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
setup_venv
OUT=$(realpath -m "${OUT:-$ROOT/runs/quickstart}") # a relative path is relative to the caller's folder
cd "$ROOT"
eval "$(python $LIB/machine.py --gpus 0 | grep '^export')"

echo "== 1. A corpus =="
[[ -e $OUT/raw/whole ]] || { python "$ROOT/preprocess/synthetic.py" --out "$OUT/raw" && touch "$OUT/raw/whole"; }
python "$ROOT/preprocess/parallel.py" --raw "$OUT/raw" --source en --target lomi --bpe 400 --out "$OUT/data"

# quietly COMMAND: write its stderr to $OUT/log.txt, and show the last lines if it fails.
quietly() { "$@" 2>>"$OUT/log.txt" || { tail -n 5 "$OUT/log.txt" >&2 && exit 1; }; }

echo "== 2. Training, 500 updates (the whole log: $OUT/log.txt) =="
if [[ ! -e $OUT/model/trained ]]; then
    fairseq-train "$OUT/data/bin" --source-lang en --target-lang lomi \
        --user-dir "$ROOT/fairseq_plugins" --arch feedback_transformer_tiny --dropout 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --lr 0.005 --lr-scheduler inverse_sqrt --warmup-updates 200 \
        --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-tokens 4000 --max-update 500 \
        --save-dir "$OUT/model" --no-epoch-checkpoints --log-format tqdm |
        tee -a "$OUT/log.txt" |
        sed -un 's/.*| \(epoch [0-9]*\) | valid on .*| ppl \([0-9.]*\) .*/\1: perplexity \2 on the validation set/p'
    touch "$OUT/model/trained"
fi

echo "== 3. Translating the 500 held-out sentences =="
translate=(--user-dir "$ROOT/fairseq_plugins" --path "$OUT/model/checkpoint_best.pt" --beam 5 --remove-bpe)
if [[ ! -e $OUT/test.out || $OUT/model/checkpoint_best.pt -nt $OUT/test.out ]]; then
    quietly fairseq-generate "$OUT/data/bin" "${translate[@]}" --max-tokens 4000 >"$OUT/test.partial"
    mv "$OUT/test.partial" "$OUT/test.out"
fi
quietly python -m fairseq_plugins.tools.score_translations "$OUT/test.out" --references "$OUT/data/test.en-lomi.ref" --lang lomi
echo "expected: 95 or more"
for sentence in 0 1 2; do
    awk -F '\t' -v n="$sentence" '
        $1 == "S-" n { print "\nsource      " $2 } $1 == "T-" n { print "reference   " $2 } $1 == "H-" n { print "translation " $3 }
    ' "$OUT/test.out"
done

cat <<END

To translate a sentence of your own (words of the corpus, a space before the full stop):
  echo 'the old farmers did not see a red boat .' | "$VENV/bin/fairseq-interactive" "$OUT/data/bin" \\
      --user-dir "$ROOT/fairseq_plugins" --path "$OUT/model/checkpoint_best.pt" --beam 5 \\
      --source-lang en --target-lang lomi --bpe subword_nmt --bpe-codes "$OUT/data/codes.bpe" 2>/dev/null | grep ^D
END
