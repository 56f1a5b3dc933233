#!/usr/bin/env bash
# From nothing to a Feedback Transformer that translates, on a CPU: one to two minutes after the one-time set-up.
#
#   recipes/quickstart.sh
#
# It makes a small parallel corpus (English and Lomi, an invented language with another word order; no test sentence occurs in
# training), learns joint BPE, trains feedback_transformer_tiny with fairseq-train, translates the held-out part and prints
# BLEU. Expect 95 or more; an untrained model scores below 1.
#
#   OUT    the folder of all files (default: runs/quickstart); a second call skips what is done
# It takes no options; flags after -- go to fairseq-train, as in recipes/quickstart.sh -- --seed 2. VENV and PYTHON are as in
# recipes/lib.sh.
set -euo pipefail
if (($#)) && [[ $1 != -- ]]; then
    [[ $1 != --help ]] || exec sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"
    echo "quickstart: error: $1: it takes no options; OUT, VENV and PYTHON are variables, flags of fairseq-train stand after --." >&2
    exit 2
fi
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
setup_venv
OUT=$(realpath -m "${OUT:-$ROOT/runs/quickstart}") # a relative path is relative to the caller's folder
cd "$ROOT"
export RECIPE=quickstart OUT
python -S $LIB/variables.py OUT
eval "$(python $LIB/machine.py --gpus 0 | grep '^export')"

echo "== 1. A corpus =="
[[ -e $OUT/raw/whole ]] || { python preprocess/synthetic.py --out "$OUT/raw" && touch "$OUT/raw/whole"; }
python preprocess/parallel.py --raw "$OUT/raw" --source en --target lomi --bpe 400 --out "$OUT/data" |
    sed -u '/^ready:/,$d' # the commands that follow are below

echo "== 2. Training, 500 updates (the whole log: $OUT/model/train.log) =="
python -S $LIB/training.py "$OUT/model" --data "$OUT/data" --settings "flags ${*:2}" -- \
    fairseq-train "$OUT/data/bin" --source-lang en --target-lang lomi \
    --user-dir "$ROOT/fairseq_plugins" --arch feedback_transformer_tiny --dropout 0 \
    --optimizer adam --adam-betas '(0.9, 0.98)' --lr 0.01 \
    --lr-scheduler polynomial_decay --warmup-updates 100 --total-num-update 500 --max-update 500 \
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-tokens 4000 \
    --save-dir "$OUT/model" --no-epoch-checkpoints --log-format simple --log-interval 10 "${@:2}"

echo "== 3. Translating the 500 held-out sentences =="
python -S $LIB/step.py "$OUT/test.out" --after "$OUT/model/checkpoint_best.pt" --capture -- \
    fairseq-generate "$OUT/data/bin" --user-dir "$ROOT/fairseq_plugins" --path "$OUT/model/checkpoint_best.pt" \
    --beam 5 --remove-bpe --max-tokens 4000 "${BARS[@]}"
python -m fairseq_plugins.tools.score_translations "$OUT/test.out" --references "$OUT/data/test.en-lomi.ref" --lang lomi \
    2>"$OUT/score.log" || { cat "$OUT/score.log" >&2 && exit 1; }
echo "expected: 95 or more"
for sentence in 0 1 2; do
    awk -F '\t' -v n="$sentence" '
        $1 == "S-" n { print "\nsource      " $2 } $1 == "T-" n { print "reference   " $2 } $1 == "H-" n { print "translation " $3 }
    ' "$OUT/test.out"
done

cat <<END

To translate lines of your own (words of the corpus):
  cd "$ROOT"
  echo 'the old farmers did not see a red boat .' |
      "$VENV/bin/python" -m fairseq_plugins.tools.translate "$OUT/model/checkpoint_best.pt"
END
