# shellcheck shell=bash disable=SC2034 # recipes use what is set here
# What the recipes that generate text share: batches, averaging, length penalties and scores; sourced, not run.
#
#   BPE=sentencepiece RECIPE    SentencePiece of raw text in place of byte pair encoding of Moses tokens
#   BPE=N RECIPE                N merges of byte pair encoding
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# batch TOKENS TIMES: set BATCH_FLAGS to the flags of updates of TIMES x TOKENS tokens. All processes share them evenly,
# so the number is rounded down.
batch() {
    BATCH_FLAGS=(--max-tokens "$1" --update-freq $(($2 / PROCESSES)))
    (($2 >= PROCESSES)) || BATCH_FLAGS=(--max-tokens $(($1 * $2 / PROCESSES)))
}

# average NAME N: average the last N checkpoints into OUT/NAME/average.pt
average() {
    make_file "$OUT/$1/average.pt" --after "$OUT/$1/trained" -- python -m fairseq_plugins.tools.average_checkpoints "$OUT/$1" \
        --by update --last "$2" --output "$OUT/$1/average.pt"
}

# pieces: set JOINED to the flags that make words of pieces. Scores of papers are of tokens; SentencePiece gives raw text.
pieces() {
    JOINED=(--remove-bpe)
    [[ ${BPE:-} != sentencepiece ]] || JOINED=(--bpe prepared)
}

# tune NAME MODEL FLAGS... -- FLAGS...: write the flags that score best on the validation set to OUT/NAME/tuning/flags.txt
tune() {
    pieces
    capture "$OUT/$1/tuning/flags.txt" --after "$OUT/$1/$2" -- python -m fairseq_plugins.tools.tune_length_penalty \
        "$DATA/bin" --path "$OUT/$1/$2" --out "$OUT/$1/tuning" "${@:3}" --user-dir fairseq_plugins "${JOINED[@]}" "${MACHINE[@]}"
}

# generate NAME MODEL FLAGS...: run fairseq-generate on the test set, into OUT/NAME/test.txt. NAME/HOW: test-HOW.txt
generate() {
    pieces
    local name=${1%%/*} how=${1#"${1%%/*}"}
    capture "$OUT/$name/test${how/\//-}.txt" --after "$OUT/$name/$2" -- fairseq-generate "$DATA/bin" --path "$OUT/$name/$2" \
        --user-dir fairseq_plugins "${JOINED[@]}" "${BARS[@]}" "${MACHINE[@]}" "${@:3}"
}

# score NAME FLAGS...: write BLEU and sacreBLEU of OUT/NAME/test.txt to OUT/NAME/test.json
score() {
    make_file "$OUT/$1/test.json" --after "$OUT/$1/test.txt" -- python -m fairseq_plugins.tools.score_translations \
        "$OUT/$1/test.txt" --json "$OUT/$1/test.json" "${@:2}"
}
