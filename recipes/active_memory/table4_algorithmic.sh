#!/usr/bin/env bash
# Table 4, algorithmic tasks: the length that a training reaches within 100 epochs, by operator and task, as the mean of
# three runs beside the paper's. A length is reached when a fresh batch of 32 sequences of it is answered without an
# error. Two more columns show the best run and the number of runs. We have run a part:
# benchmarks/active_memory_table4.md.
#
# From the paper (section 4.2): sizes and kernel (in the architecture), vocabularies, 100 epochs of 100 batches,
# sequences of 5 that grow by 1 (addition and multiply by 2). From its code: fp32, Adam with 0.01, constant, batches of
# 32; dropout 0.1, also of attention weights and after feed-forward activations; attention scores divided by the root of
# the head's width, as in the paper, and then by the width, which is only in the code; the positions' wavelengths.
# FLAGS="--attention-scaling sqrt" gives the paper's scores, and FLAGS="--convolution-activation gelu_accurate" the
# code's activation instead of ReLU. FLAGS="--vocabulary 20" with TASKS=reverse gives reverse the 20 integers that the
# code has as published, where the paper says 100.
#
# Finished runs are skipped. The table counts all finished runs, also those of other SEEDS. JOBS trainings run at a time:
# by default one per GPU (of CUDA_VISIBLE_DEVICES, if it is set), or one per CPU core, with one thread each.
#
#   recipes/active_memory/table4_algorithmic.sh            all 144 runs
#   MIXERS="self-attention convolution" TASKS="sort not" SEEDS="1 2" JOBS=4 recipes/active_memory/...    only some
#   LEARNING_RATE=1e-3 FLAGS="--weight-init glorot" recipes/active_memory/... --out runs/slow    with other settings
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
ALL_TASKS=(reverse sort addition multiply not remember)
ALL_MIXERS=(cgru self-attention convolution persistent-convolution highway-convolution self-attention+convolution
    self-attention+persistent-convolution self-attention+highway-convolution)
SETTINGS+=([EPOCHS]=100 [BATCHES]=100 [LEARNING_RATE]=0.01)
WORDS+=([SMALLER]="" [FLAGS]="")
CHOICES+=([MIXERS]="${ALL_MIXERS[*]}" [TASKS]="${ALL_TASKS[*]}" [SEEDS]="1 2 3" [JOBS]="")
SMOKE_SETTINGS+=([EPOCHS]=4 [BATCHES]=10 [MIXERS]="convolution self-attention+persistent-convolution"
    [TASKS]="addition not" [SEEDS]=1
    [SMALLER]="--decoder-layers 1 --decoder-embed-dim 16 --decoder-ffn-embed-dim 16 --decoder-head-dim 4 --kernel-size 4")
begin "$@"
SMALLER+=("${FLAGS[@]}") # FLAGS win
for each in "${MIXERS[@]}"; do one_of MIXERS "$each" "${ALL_MIXERS[@]}"; done
for each in "${TASKS[@]}"; do one_of TASKS "$each" "${ALL_TASKS[@]}"; done
JOBS=${JOBS:-$((GPUS ? GPUS : $(env -u OMP_NUM_THREADS nproc)))} # nproc obeys OMP_NUM_THREADS
[[ $JOBS =~ ^[1-9][0-9]*$ ]] || stop "JOBS: $JOBS is no number of trainings at a time."
((NNODES == 1)) || stop "NNODES: a call uses one machine; call the recipe on each machine, with other SEEDS and the same --out."

# Every run is one process, and the task generates its data.
DATA='' LAUNCH=() MACHINE=(--distributed-world-size 1 "${NUMBERS[@]}" "${DEVICE[@]}")
if ((!GPUS)); then export OMP_NUM_THREADS=1; fi
TRAINING=(--task algorithmic_curriculum --epoch-batches "$BATCHES" --batch-size 32 --criterion label_cross_entropy
    --arch active_memory_algorithmic --optimizer adam --lr "$LEARNING_RATE" --max-epoch "$EPOCHS"
    --num-workers 0 --no-epoch-checkpoints --attention-scaling sqrt-times-width --wavelengths tensor2tensor
    --dropout 0.1 --attention-dropout 0.1 --activation-dropout 0.1)

train_all() {
    for seed in "${SEEDS[@]}"; do
        for task in "${TASKS[@]}"; do
            for mixer in "${MIXERS[@]}"; do
                train "$task/$mixer-seed$seed" "${TRAINING[@]}" --algorithm "$task" --mixer "$mixer" --seed "$seed"
            done
        done
    done
}

# queue_all: print the calls of all trainings, instead of running them
queue_all() (
    call() { local words=("${@:2}") && printf 'python -S %s/%s.py %s\0' "$LIB" "$1" "${words[*]@Q}"; }
    train_all
)

# run_all: run JOBS trainings at a time, each on a GPU of its own. If one fails, the others still run.
run_all() {
    local devices
    IFS=, read -ra devices <<<"${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 $((GPUS - 1)))}"
    # shellcheck disable=SC2016 # the shells of the trainings replace these
    queue_all | GPU_NAMES="${devices[*]:0:GPUS}" xargs -0 -r -n 1 -P "$JOBS" --process-slot-var=SLOT bash -c '
        read -ra gpus <<<"$GPU_NAMES"
        ((!${#gpus[@]})) || export CUDA_VISIBLE_DEVICES=${gpus[SLOT % ${#gpus[@]}]}
        eval "$0" || exit 1'
}

status=0
if ((DRY_RUN)); then
    train_all
elif ! run_all; then
    status=1
    for seed in "${SEEDS[@]}"; do
        for task in "${TASKS[@]}"; do
            for mixer in "${MIXERS[@]}"; do
                folder=$OUT/$task/$mixer-seed$seed
                [[ -e $folder/trained ]] ||
                    echo "$RECIPE: $folder is not trained: its train.log says why; call again." >&2
            done
        done
    done
fi

for task in "${TASKS[@]}"; do
    for mixer in "${MIXERS[@]}"; do
        runs="$OUT/$task/$mixer-seed*"
        ONLY_IF=(--if "$(maybe reached runs "$runs")")
        row "$task, $mixer" "mean=$(figure reached mean "$runs")" "best=$(figure reached best "$runs")" \
            "runs=$(figure reached runs "$runs")" paper="$(published "Table 4" "$mixer" "$task")"
    done
done
table
exit $status # 1 if a run failed
