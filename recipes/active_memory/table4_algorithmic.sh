#!/usr/bin/env bash
# Table 4, algorithmic tasks: the longest sequences of which a fresh batch of 32 is all right within 100 epochs, by
# operator and task, mean of three runs, beside the paper's. Ours beside them: how many runs a mean is of, and the best
# one. Run by us in part, with what came of it, in benchmarks/active_memory_table4.md.
#
# From the paper (section 4.2): sizes and kernel (in the architecture), vocabularies, 100 epochs of 100 batches,
# sequences of 5 that grow by 1 (addition and multiply by 2). From its code: Adam with 0.01, constant, batches of 32;
# dropout 0.1, of attention weights and after feed-forward activations too; scores that are divided by the root of a
# head's width, as the paper prints, and then by the width, which it does not; the positions' wavelengths. In FLAGS,
# --attention-scaling sqrt is the paper's, --convolution-activation gelu_accurate the code's activation instead of ReLU.
#
# Runs that are there are skipped, and all that are there count in the table, also those of other SEEDS; JOBS run at a
# time: as many as there are GPUs (or those of CUDA_VISIBLE_DEVICES), or cores, one thread each.
#
#   recipes/active_memory/table4_algorithmic.sh            all 144 runs
#   recipes/active_memory/table4_algorithmic.sh --smoke    the same code path with small numbers, CPU, about a minute
#   recipes/active_memory/table4_algorithmic.sh --dry-run  every command through its parser, nothing run
#   MIXERS="self-attention convolution" TASKS="sort not" SEEDS="1 2" JOBS=4 recipes/active_memory/...    only some
#   LEARNING_RATE=1e-3 FLAGS="--weight-init glorot" recipes/active_memory/... --out runs/slow    with other settings
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin_recipe "$@"

ALL_TASKS="reverse sort addition multiply not remember"
ALL_MIXERS="cgru self-attention convolution persistent-convolution highway-convolution self-attention+convolution
    self-attention+persistent-convolution self-attention+highway-convolution"
number EPOCHS 100 4
number BATCHES 100 10
number LEARNING_RATE 0.01 0.01
number SMALLER "" "--decoder-layers 1 --decoder-embed-dim 16 --decoder-ffn-embed-dim 16 --decoder-head-dim 4 --kernel-size 4"
number MIXERS "$ALL_MIXERS" "convolution self-attention+persistent-convolution"
number TASKS "$ALL_TASKS" "addition not"
number SEEDS "1 2 3" 1
for each in $MIXERS; do
    [[ " "$(echo $ALL_MIXERS)" " = *" $each "* ]] || stop "MIXERS: $each is none of" $ALL_MIXERS
done
for each in $TASKS; do [[ " $ALL_TASKS " = *" $each "* ]] || stop "TASKS: $each is none of $ALL_TASKS"; done
JOBS=${JOBS:-$((GPUS ? GPUS : $(env -u OMP_NUM_THREADS nproc)))} # which nproc heeds
[[ $JOBS =~ ^[1-9][0-9]*$ ]] || stop "JOBS: $JOBS is no number of trainings at a time."
((NNODES == 1)) || stop "NNODES: the runs are of one machine; call the recipe on each with other SEEDS and the same --out."

# Every run is a process of its own; nothing is prepared.
DATA='' LAUNCH=() MACHINE=(--distributed-world-size 1)
if ((!GPUS)); then MACHINE+=(--cpu) && export OMP_NUM_THREADS=1; fi
if ((DRY_RUN)); then SEEDS=${SEEDS%% *}; fi # the others differ by nothing else

# train_cell TASK MIXER SEED: into OUT/TASK/MIXER-seedSEED
train_cell() {
    train "$1/$2-seed$3" --task algorithmic_curriculum --algorithm "$1" --epoch-batches "$BATCHES" --batch-size 32 \
        --criterion label_cross_entropy --arch active_memory_algorithmic --mixer "$2" $SMALLER --seed "$3" \
        --optimizer adam --lr "$LEARNING_RATE" --max-epoch "$EPOCHS" --num-workers 0 --no-epoch-checkpoints \
        --log-format json --attention-scaling sqrt-times-width --wavelengths tensor2tensor \
        --dropout 0.1 --attention-dropout 0.1 --activation-dropout 0.1 ${FLAGS:-}
}

# each_run COMMAND...: COMMAND TASK MIXER SEED; in a dry run every choice once
each_run() {
    local task mixer seed
    for seed in $SEEDS; do
        for task in $TASKS; do
            for mixer in $MIXERS; do
                ((!DRY_RUN)) || [[ $task = "${TASKS%% *}" || $mixer = "${MIXERS%% *}" ]] || continue
                "$@" "$task" "$mixer" "$seed"
            done
        done
    done
}

# in_background COMMAND...: in the next of JOBS slots that is free; each slot has a GPU, if there are any
in_background() {
    local slot
    if ((DRY_RUN)); then "$@" && return; fi
    read -ru "$SLOTS" slot
    {
        if ((GPUS)); then export CUDA_VISIBLE_DEVICES=${DEVICES[slot % GPUS]}; fi
        ("$@") || true # is_there names it
        echo "$slot" >&"$SLOTS"
    } &
}

# is_there TASK MIXER SEED: a run that is not makes the recipe end with status 1
is_there() {
    ((DRY_RUN)) || [[ -e $OUT/$1/$2-seed$3/trained ]] && return
    FAILED=1
    say "$OUT/$1/$2-seed$3 is not trained: its train.log says why; call again."
}

QUEUE=$(mktemp -u)
mkfifo "$QUEUE" && exec {SLOTS}<>"$QUEUE" && rm "$QUEUE"
seq 0 $((JOBS - 1)) >&"$SLOTS"
IFS=, read -ra DEVICES <<<"${CUDA_VISIBLE_DEVICES-$(seq -s, 0 $((GPUS - 1)))}"
each_run in_background train_cell
wait

# reached TASK MIXER: the size that each run has reached
reached() {
    local run
    for run in "$OUT/$1/$2"-seed*/trained; do
        [[ ! -e $run ]] || grep -oP '"valid_reached": "\K[\d.]+' "${run%/*}/train.log" | tail -n 1
    done
}

for task in $TASKS; do
    for mixer in $MIXERS; do
        sizes=$( ((DRY_RUN)) || reached "$task" "$mixer")
        [[ -n $sizes || $DRY_RUN = 1 ]] || continue
        cell "$task, $mixer" mean="$(awk '{ sum += $1 } END { if (NR) printf "%.1f", sum / NR }' <<<"$sizes")" \
            best="$(sort -n <<<"$sizes" | tail -n 1)" runs="$(wc -l <<<"$sizes")" paper="$(published "Table 4" "$mixer" "$task")"
    done
done
show_table
FAILED=0
each_run is_there
exit "$FAILED"
