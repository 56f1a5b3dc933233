# shellcheck shell=bash
# What both halves of Table 5 share; sourced, not run.

# measure NAME FLAGS...: a row with words per second in training and in generation, ours and those of Table 5 for TASK.
# fairseq-generate gets FLAGS and makes sentences of LENGTH words.
measure() {
    generate "$1" checkpoint_last.pt "${@:2}" --batch-size "$BATCH" --min-len "$LENGTH" --max-len-a 0 --max-len-b "$LENGTH"
    row_speed "$1" "@training_speed:$OUT/$1/train.log" "@generation_speed:$OUT/$1/test.log"
}

# compare: a row with the ratios of the two models
compare() {
    row_speed "feedback / transformer" \
        "@ratio:training_speed:$OUT/feedback/train.log:$OUT/transformer/train.log" \
        "@ratio:generation_speed:$OUT/feedback/test.log:$OUT/transformer/test.log"
}

# row_speed NAME TRAINING GENERATION
row_speed() {
    row "$1" "training words/s=$2" "paper, training=$(published "Table 5, $TASK" "$1" training)" \
        "inference words/s=$3" "paper, inference=$(published "Table 5, $TASK" "$1" inference)"
}
