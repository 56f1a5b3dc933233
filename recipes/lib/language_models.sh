# shellcheck shell=bash disable=SC2034 # recipes use what is set here
# What recipes of language models share: fine-tuning and exact figures; sourced, not run.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
LOG_FORMAT=json # which tools.plot reads

# share_streams: set STREAM_FLAGS to those of STREAMS streams in training and VALID_STREAMS in validation
share_streams() {
    local each
    share each "$STREAMS" streams
    STREAM_FLAGS=(--batch-size "$each" --batch-size-valid $((VALID_STREAMS > PROCESSES ? VALID_STREAMS / PROCESSES : 1)))
}

tenth() { awk -v rate="$1" 'BEGIN { print rate / 10 }'; }

# fine_tune NAME UPDATES FLAGS...: go on with the training NAME for so many updates, in OUT/NAME-fine
fine_tune() {
    local START=(--restore-file "$OUT/$1/checkpoint_last.pt" --reset-lr-scheduler --reset-meters "${START[@]}")
    train "$1-fine" "${@:3}" --max-update "$(late "updates:$OUT/$1/train.log" --plus "$2" --else $((UPDATES + $2)))"
}

# evaluate NAME SPLIT FLAGS...: exact figures of the best checkpoint, in OUT/NAME/SPLIT.log; SPLIT may be SPLIT/HOW
evaluate() {
    capture "$OUT/$1/${2/\//-}.txt" --after "$OUT/$1/checkpoint_best.pt" "${ONLY_IF[@]}" -- fairseq-eval-lm "$DATA/bin" \
        --user-dir fairseq_plugins --path "$OUT/$1/checkpoint_best.pt" --gen-subset "${2%%/*}" --distributed-world-size 1 \
        "${DEVICE[@]}" "${@:3}"
}
