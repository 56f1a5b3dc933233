# shellcheck shell=bash
# What both halves of Table 5 share; sourced, not run.

# measure NAME FLAGS...: a row with words per second in training and in generation, ours and those of Table 5 for TASK.
# fairseq-generate gets FLAGS and makes sentences of LENGTH words.
measure() {
    write "$1" "$BATCH" "${@:2}"
    row_speed "$1" "$1" "@training_speed:$OUT/$1/train.log" "@generation_speed:$OUT/$1/test.log" \
        "@?gpu_memory:$OUT/$1/train.log"
}

# measure_larger_batch NAME FLAGS...: a row with the speed of generation at LARGER_BATCH
measure_larger_batch() {
    write "$1/batch-$LARGER_BATCH" "$LARGER_BATCH" "${@:2}"
    row_speed "$1, batch of $LARGER_BATCH" "$1" - "@generation_speed:$OUT/$1/test-batch-$LARGER_BATCH.log" -
}

write() {
    generate "$1" checkpoint_last.pt "${@:3}" --batch-size "$2" --min-len "$LENGTH" --max-len-a 0 --max-len-b "$LENGTH"
}

# compare ONE OTHER: a row with the ratios of two models
compare() {
    local one=$OUT/$1 other=$OUT/$2
    row_speed "$1 / $2" "$1 / $2" "@ratio:training_speed:$one/train.log:$other/train.log" \
        "@ratio:generation_speed:$one/test.log:$other/test.log" "@?ratio:gpu_memory:$one/train.log:$other/train.log"
}

# row_speed NAME PAPERS TRAINING GENERATION MEMORY: a row, beside the paper's numbers of PAPERS
row_speed() {
    local table="Table 5, $TASK"
    row "$1" "training words/s=$3" "paper, training=$(published "$table" "$2" training "not given")" \
        "inference words/s=$4" "paper, inference=$(published "$table" "$2" inference "$(published "section 4.3.4" "$2" inference "not given")")" \
        "GPU memory in training, GB=$5" "paper, memory=$(published "section 1" "$2" memory "not given")"
}
