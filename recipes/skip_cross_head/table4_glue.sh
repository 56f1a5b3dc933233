#!/usr/bin/env bash
# Table 4, GLUE, dev sets: fine-tuning with stochastic cross-head attention changes the mean little and lowers the
# standard deviation over 5 seeds, by about 30 % on most tasks. The paper's numbers, which stand in the table, are
# BERT-base's; ours are RoBERTa-base's, fairseq's closest to it, and cannot equal them. Not yet run to the end by us.
#
#   recipes/skip_cross_head/table4_glue.sh --raw DIR    the paper's run; DIR/MRPC/train.tsv, DIR/MRPC/dev.tsv ...
#   recipes/skip_cross_head/table4_glue.sh --smoke      the same code path on generated text, CPU, a minute or two
#   recipes/skip_cross_head/table4_glue.sh --dry-run    every command through its parser, nothing run
#   ROBERTA=roberta.base/model.pt BPE_DIR=gpt2_bpe TASKS="MRPC CoLA" SEEDS="1 2 3" ...    other files, fewer trainings
#
# From the paper: cross-head attention in fine-tuning only, all else as Devlin et al. (2019): batches of 32, 3 epochs,
# dropout 0.1, Adam with weight decay 0.01; from their code: a tenth of the updates of warm-up, then linear decay. They
# choose the learning rate of each task on its dev set from 2e-5 to 5e-5; LEARNING_RATE is 2e-5 for all. The
# probability, missing in the text of the paper that we have, is its code's, 0.1. Ours: MNLI is the matched half, the
# last checkpoint is scored, the standard deviation is a sample's. Each of 60 checkpoints has 1.5 GB.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -z ${ROBERTA:-} ]] || ROBERTA=$(folder ROBERTA "$ROBERTA")
[[ -z ${BPE_DIR:-} ]] || BPE_DIR=$(folder BPE_DIR "$BPE_DIR")
begin_recipe "$@"
number TASKS "MRPC CoLA SST-2 MNLI QNLI QQP" "MRPC"
number SEEDS "1 2 3 4 5" "1 2"
ROBERTA=${ROBERTA:-runs/data/roberta.base/model.pt}
((!SMOKE)) || ROBERTA=$OUT/roberta/checkpoint_last.pt
ENCODING=(${BPE_DIR:+--bpe-dir "$BPE_DIR"})
((!SMOKE)) || ENCODING=(--learn-bpe 100)
number SMALLER "" "--encoder-layers 2 --encoder-embed-dim 32 --encoder-ffn-embed-dim 64 --encoder-attention-heads 4"
number LEARNING_RATE 2e-5 0.002
BATCH=32
declare -A ARCH=([roberta]=roberta_base [cross-head]=roberta_cross_head_base)
declare -A METRICS=([MRPC]="accuracy f1" [CoLA]=matthews [SST-2]=accuracy [MNLI]=accuracy [QNLI]=accuracy
    [QQP]="accuracy f1")

for task in $TASKS; do [[ -n ${METRICS[$task]:-} ]] || stop "TASKS: $task is none of ${!METRICS[*]}."; done
[[ $SEEDS = *\ * ]] || stop "SEEDS: a standard deviation needs two seeds or more."
((BATCH % PROCESSES == 0)) || stop "batches of $BATCH cannot be shared evenly by $PROCESSES processes:" \
    "choose another --gpus."
((SMOKE || DRY_RUN)) || [[ -e $ROBERTA ]] || stop "ROBERTA: $ROBERTA does not exist: unpack" \
    "https://dl.fbaipublicfiles.com/fairseq/models/roberta.base.tar.gz in runs/data, or name another model.pt."

# epochs TASK: the updates of 3 epochs
epochs() {
    local sentences
    if ((SMOKE || DRY_RUN)); then echo 40 && return; fi
    sentences=$(wc -l <"$GLUE/$1/text/train.label")
    echo $(((3 * sentences + BATCH - 1) / BATCH))
}

# fine_tune_task TASK MODEL SEED
fine_tune_task() {
    local updates classes=2 half=()
    updates=$(epochs "$1")
    if [[ $1 = MNLI ]]; then classes=3; fi
    if ((GPUS)); then half=(--fp16-init-scale 4 --threshold-loss-scale 1 --fp16-scale-window 128); fi
    DATA=$GLUE/$1 train "$1-$2-seed$3" --task sentence_prediction --criterion sentence_prediction --seed "$3" \
        --arch "${ARCH[$2]}" $SMALLER --finetune-from-model "$ROBERTA" --num-classes "$classes" \
        --init-token 0 --separator-token 2 --max-positions 512 --shorten-method truncate \
        --dropout 0.1 --attention-dropout 0.1 --pooler-dropout 0.1 --batch-size $((BATCH / PROCESSES)) \
        --optimizer adam --adam-eps 1e-6 --weight-decay 0.01 --clip-norm 1 --lr "$LEARNING_RATE" \
        --lr-scheduler polynomial_decay --warmup-updates $((updates / 10)) --total-num-update "$updates" \
        --max-update "$updates" --disable-validation --no-epoch-checkpoints --find-unused-parameters "${half[@]}"
}

# scores TASK MODEL: the file with the figures over all seeds
scores() { echo "$OUT/$1-$2-seeds-${SEEDS// /-}.json"; }

# score_task TASK MODEL
score_task() {
    local file checkpoints=() device=()
    file=$(scores "$@")
    for seed in $SEEDS; do checkpoints+=("$OUT/$1-$2-seed$seed/checkpoint_last.pt"); done
    if ((!GPUS)); then device=(--cpu); fi
    made "$file" "${checkpoints[@]}" || run python -m fairseq_plugins.tools.score_sentences "$GLUE/$1/bin" \
        --path "${checkpoints[@]}" "${device[@]}" --json "$file" >&2
}

# spread MEAN DEVIATION, and change DEVIATION OTHER in percent
spread() { awk -v mean="$1" -v deviation="$2" 'BEGIN { printf "%.2f ± %.2f", mean, deviation }'; }
change() {
    awk -v from="$1" -v to="$2" 'BEGIN { if (from > 0) printf "%+.0f %%", 100 * (to / from - 1); else print "-" }'
}

# cell_task TASK METRIC
cell_task() {
    local model ours=() paper=()
    for model in roberta cross-head; do
        ours+=("$(json "$(scores "$1" "$model")" "$2")" "$(json "$(scores "$1" "$model")" "$2_deviation")")
    done
    for column in BERT "BERT, deviation" cross-head "cross-head, deviation" "change in %"; do
        paper+=("paper, $column"="$(published "Table 4" "$1 $2" "$column")")
    done
    cell "$1 $2" RoBERTa="$(spread "${ours[@]::2}")" cross-head="$(spread "${ours[@]:2}")" \
        "change of deviation"="$(change "${ours[1]}" "${ours[3]}")" "${paper[@]}"
}

prepare glue --tasks $TASKS "${ENCODING[@]}"
GLUE=$DATA
if ((SMOKE)) && ! made "$ROBERTA"; then # a checkpoint to start from
    output "$OUT/roberta/train.txt" fairseq-train "$GLUE/${TASKS%% *}/bin/input0" --user-dir fairseq_plugins \
        --task masked_lm --criterion masked_lm --arch roberta_base $SMALLER --tokens-per-sample 512 --batch-size 4 \
        --optimizer adam --lr 0.001 --max-update 10 --disable-validation --no-epoch-checkpoints \
        --save-dir "$OUT/roberta" "${MACHINE[@]}"
fi
for task in $TASKS; do
    for model in roberta cross-head; do
        for seed in $SEEDS; do fine_tune_task "$task" "$model" "$seed"; done
    done
done
first_node_only
for task in $TASKS; do
    for model in roberta cross-head; do score_task "$task" "$model"; done
    for metric in ${METRICS[$task]}; do cell_task "$task" "$metric"; done
done
show_table
