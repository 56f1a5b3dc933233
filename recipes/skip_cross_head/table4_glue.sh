#!/usr/bin/env bash
# Table 4, GLUE, dev sets: fine-tuning with stochastic cross-head attention changes the mean little and lowers the
# standard deviation over runs (here 5 seeds), by about 30 % on most tasks. The paper's numbers, which are in the table,
# are BERT-base's; ours are RoBERTa-base's, fairseq's closest to it, and cannot equal them. We have not run it to the
# end.
#
#   recipes/skip_cross_head/table4_glue.sh --raw DIR    the paper's run; DIR/MRPC/train.tsv, DIR/MRPC/dev.tsv ...
#   ROBERTA=roberta.base/model.pt BPE_DIR=gpt2_bpe TASKS="MRPC CoLA" SEEDS="1 2 3" ...    other files, fewer trainings
#
# From the paper: cross-head attention in fine-tuning only, all else as Devlin et al. (2019): batches of 32, 3 epochs,
# dropout 0.1, Adam with weight decay 0.01; from their code: a tenth of the updates of warm-up, then linear decay. They
# choose the learning rate of each task on its dev set from 2e-5 to 5e-5; LEARNING_RATE is 2e-5 for all. The
# probability, missing in the text of the paper that we have, is its code's, 0.1. Ours: MNLI is the matched half, the
# last checkpoint is scored, the standard deviation is a sample's, fp16. Each of 60 checkpoints has 1.5 GB.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
LOG_FORMAT=simple DEFAULT_PRECISION=fp16 # as fairseq's example of RoBERTa
SETTINGS+=([ROBERTA]="" [BPE_DIR]="" [LEARNING_RATE]=2e-5)
WORDS+=([SMALLER]="")
CHOICES+=([TASKS]="MRPC CoLA SST-2 MNLI QNLI QQP" [SEEDS]="1 2 3 4 5")
SMOKE_SETTINGS+=([LEARNING_RATE]=0.002 [TASKS]=MRPC [SEEDS]="1 2"
    [SMALLER]="--encoder-layers 2 --encoder-embed-dim 32 --encoder-ffn-embed-dim 64 --encoder-attention-heads 4")
[[ ! ${ROBERTA:-} ]] || ROBERTA=$(realpath -ms -- "$ROBERTA") # a relative path is relative to the caller's folder
[[ ! ${BPE_DIR:-} ]] || BPE_DIR=$(realpath -ms -- "$BPE_DIR")
begin "$@"
BATCH=32
declare -A ARCH=([roberta]=roberta_base [cross-head]=roberta_cross_head_base)
declare -A METRICS=([MRPC]="accuracy f1" [CoLA]=matthews [SST-2]=accuracy [MNLI]=accuracy [QNLI]=accuracy
    [QQP]="accuracy f1")
ROBERTA=${ROBERTA:-runs/data/roberta.base/model.pt}
ENCODING=(${BPE_DIR:+--bpe-dir "$BPE_DIR"})
if ((SMOKE)); then ROBERTA=$OUT/roberta/checkpoint_last.pt ENCODING=(--learn-bpe 100); fi

for task in "${TASKS[@]}"; do one_of TASKS "$task" "${!METRICS[@]}"; done
((${#SEEDS[@]} > 1)) || stop "SEEDS: a standard deviation needs two seeds or more."
share SENTENCES "$BATCH" sentences
((SMOKE || DRY_RUN)) || [[ -e $ROBERTA ]] || stop "ROBERTA: $ROBERTA does not exist: unpack" \
    "https://dl.fbaipublicfiles.com/fairseq/models/roberta.base.tar.gz in runs/data, or name another model.pt."

TRAINING=(--task sentence_prediction --criterion sentence_prediction --finetune-from-model "$ROBERTA"
    --init-token 0 --separator-token 2 --max-positions 512 --shorten-method truncate
    --dropout 0.1 --attention-dropout 0.1 --pooler-dropout 0.1 --batch-size "$SENTENCES"
    --optimizer adam --adam-eps 1e-6 --weight-decay 0.01 --clip-norm 1 --lr "$LEARNING_RATE"
    --lr-scheduler polynomial_decay --disable-validation --no-epoch-checkpoints --find-unused-parameters)
if [[ $PRECISION = fp16 ]]; then TRAINING+=(--fp16-init-scale 4 --threshold-loss-scale 1 --fp16-scale-window 128); fi

# train_task TASK MODEL SEED: train for 3 epochs, with warm-up in the first tenth of the updates
train_task() {
    local labels=$GLUE/$1/text/train.label classes=2 updates=40 warm_up=4
    if [[ $1 = MNLI ]]; then classes=3; fi
    if ((!SMOKE)); then
        updates=$(late updates_of_epochs "$labels" 3 "$BATCH" --else 40)
        warm_up=$(late updates_of_epochs "$labels" 3 "$BATCH" 10 --else 4)
    fi
    DATA=$GLUE/$1 train "$1-$2-seed$3" "${TRAINING[@]}" --seed "$3" --arch "${ARCH[$2]}" --num-classes "$classes" \
        --warmup-updates "$warm_up" --total-num-update "$updates" --max-update "$updates"
}

# scores TASK MODEL: print the path of the file with the figures over all seeds
scores() { echo "$OUT/$1-$2-seeds-$(IFS=- && echo "${SEEDS[*]}").json"; }

# score_task TASK MODEL
score_task() {
    local checkpoints=()
    for seed in "${SEEDS[@]}"; do checkpoints+=("$OUT/$1-$2-seed$seed/checkpoint_last.pt"); done
    make_file "$(scores "$@")" --after "${checkpoints[@]}" -- python -m fairseq_plugins.tools.score_sentences "$GLUE/$1/bin" \
        --path "${checkpoints[@]}" "${DEVICE[@]}" --json "$(scores "$@")"
}

# row_task TASK METRIC
row_task() {
    local paper=() roberta crossed
    roberta=$(scores "$1" roberta) crossed=$(scores "$1" cross-head)
    for column in BERT "BERT, deviation" cross-head "cross-head, deviation" "change in %"; do
        paper+=("paper, $column=$(published "Table 4" "$1 $2" "$column")")
    done
    row "$1 $2" "RoBERTa=$(figure spread "$roberta" "$2")" "cross-head=$(figure spread "$crossed" "$2")" \
        "change of deviation=$(figure change_of_deviation "$2" "$roberta" "$crossed")" "${paper[@]}"
}

prepare glue --tasks "${TASKS[@]}" "${ENCODING[@]}"
GLUE=$DATA
if ((SMOKE)); then # a checkpoint to start from
    capture "$OUT/roberta/train.txt" -- fairseq-train "$GLUE/${TASKS[0]}/bin/input0" --user-dir fairseq_plugins \
        --task masked_lm --criterion masked_lm --arch roberta_base "${SMALLER[@]}" --tokens-per-sample 512 --batch-size 4 \
        --optimizer adam --lr 0.001 --max-update 10 --disable-validation --no-epoch-checkpoints \
        --save-dir "$OUT/roberta" "${MACHINE[@]}"
fi
for task in "${TASKS[@]}"; do
    for model in roberta cross-head; do
        for seed in "${SEEDS[@]}"; do train_task "$task" "$model" "$seed"; done
    done
done
first_node_only
for task in "${TASKS[@]}"; do
    for model in roberta cross-head; do score_task "$task" "$model"; done
    for metric in ${METRICS[$task]}; do row_task "$task" "$metric"; done
done
table
