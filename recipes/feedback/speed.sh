# What both halves of Table 5 share; sourced, not run.

# measure NAME FLAGS...: words a second in training and generation, LENGTH words a sentence, ours and the paper's of
# Table 5 for this TASK; the flags are of fairseq-generate
measure() {
    generate "$OUT/$1/test.txt" "$OUT/$1/checkpoint_last.pt" "${@:2}" --batch-size "$BATCH" \
        --min-len "$LENGTH" --max-len-a 0 --max-len-b "$LENGTH"
    cell_speed "$1" "$(training_speed "$OUT/$1")" "$(paper_speed "$1" training)" \
        "$(generation_speed "$OUT/$1/test.txt")" "$(paper_speed "$1" inference)"
}

# compare: the same as ratios
compare() {
    cell_speed "feedback / transformer" \
        "$(ratio "$(training_speed "$OUT/feedback")" "$(training_speed "$OUT/transformer")")" \
        "$(paper_speed "feedback / transformer" training)" \
        "$(ratio "$(generation_speed "$OUT/feedback/test.txt")" "$(generation_speed "$OUT/transformer/test.txt")")" \
        "$(paper_speed "feedback / transformer" inference)"
}

# paper_speed MODEL PART
paper_speed() { published "Table 5, $TASK" "$1" "$2"; }

cell_speed() {
    cell "$1" "training words/s"="$2" "paper, training"="$3" "inference words/s"="$4" "paper, inference"="$5"
}
