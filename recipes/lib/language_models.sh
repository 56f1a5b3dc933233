# shellcheck shell=bash disable=SC2034 # recipes use what is set here
# What the recipes of language models share: fine-tuning and evaluation; sourced, not run.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
LOG_FORMAT=json # figures.py reads this format
# SPLIT_STREAMS: groups of a process's streams, which take turns; by default as many as memory needs (lib/training.py)
CHOICES+=([SPLIT_STREAMS]="")

# share_streams: set STREAM_FLAGS to the flags of STREAMS training streams and VALID_STREAMS validation streams
share_streams() {
    local each groups=${SPLIT_STREAMS[*]}
    share each "$STREAMS" streams
    STREAM_FLAGS=(--batch-size "$each" --batch-size-valid $((VALID_STREAMS > PROCESSES ? VALID_STREAMS / PROCESSES : 1)))
    if [[ $groups ]]; then
        ((${#SPLIT_STREAMS[@]} == 1 && groups > 0 && each % groups == 0)) ||
            stop "SPLIT_STREAMS: $groups does not divide the $each streams of each process: choose a divisor, or leave it out."
        STREAM_FLAGS+=(--split-streams "$groups")
    elif ((DRY_RUN && GPUS && NNODES == 1)); then
        echo "# where memory runs out, the recipe goes on with --split-streams 2, 4 and so on; SPLIT_STREAMS sets it" >>"$SCRIPT"
    fi
}

tenth() { awk -v rate="$1" 'BEGIN { print rate / 10 }'; }

# fine_tune NAME UPDATES FLAGS...: continue the training NAME for UPDATES more updates, in OUT/NAME-fine
fine_tune() {
    local START=(--restore-file "$OUT/$1/checkpoint_last.pt" --reset-lr-scheduler --reset-meters "${START[@]}")
    train "$1-fine" "${@:3}" --max-update "$(late "updates:$OUT/$1/train.log" --plus "$2" --else $((UPDATES + $2)))"
}

# evaluate NAME SPLIT FLAGS...: score SPLIT with the best checkpoint, into OUT/NAME/SPLIT.log. With SPLIT/HOW the log is
# SPLIT-HOW.log.
evaluate() {
    capture "$OUT/$1/${2/\//-}.txt" --after "$OUT/$1/checkpoint_best.pt" "${ONLY_IF[@]}" -- fairseq-eval-lm "$DATA/bin" \
        --user-dir fairseq_plugins --path "$OUT/$1/checkpoint_best.pt" --gen-subset "${2%%/*}" --distributed-world-size 1 \
        "${BARS[@]}" "${DEVICE[@]}" "${@:3}"
}
