#!/usr/bin/env bash
# Table 1, toy tasks, test accuracy in percent: random walk, Feedback 100 and Transformer 68; programs with 3 and 5
# variables 99.1 and 92.6, Transformer 33.7 and 37.5, of 8 layers 47.4 and 29.1, LSTM 82.8 and 32.1 (section 4.1.2);
# copy, reverse and counting in the table. Draws TASK.png, the accuracy by position in an episode. We have not run it to
# the end.
#
# From the paper (section 7.1, Table 9): sizes, span 100 and dropout of walk and programs (in the architectures), Adam
# with learning rate 0.0001, 1,000 updates of linear warm-up, the gradient clipped at norm 0.1, 512 streams in blocks of
# 64, 10,000 training episodes.
#
# From its code, which has only the program tasks: fp32, 50,000 updates, 1,000 test programs, conditions with < and >,
# as in the paper's Table 7. Its text has ==, which TASKS=programs-3-equal and programs-5-equal add. The code trains the
# Transformer of 33.7 and 37.5 with 8 layers, but the paper gives other numbers for 8 layers. So our row beside 33.7 and
# 37.5 has 4 layers.
#
# Ours: the other tasks also have 50,000 updates and 1,000 test episodes. 1,000 validation episodes choose the
# checkpoint, by their loss. The LSTM has 2 layers of 256, since 4 stayed at chance on programs
# (benchmarks/toy_tasks.md), and is trained like the other models. A test stream begins with an episode. For copy,
# reverse and counting the paper gives neither hyper-parameters nor the format. We use the same hyper-parameters, with
# spans that hold question and answer. For counting, an answer is right only as a whole. All digits to copy or reverse
# have the paper's length, 40 and 400 in the test; TASKS="copy-varied reverse-varied" has lengths up to it.
#
#   TASKS=random-walk MODELS="feedback lstm" SEEDS="1 2" UPDATES=2000 STREAMS=64 FLAGS="--decoder-embed-dim 128" \
#       recipes/feedback/table1_toy_tasks.sh        some of the runs, smaller
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
ALL_TASKS=(copy reverse counting-50 counting-1000 random-walk programs-3 programs-5)
OTHER_TASKS=(copy-varied reverse-varied programs-3-equal programs-5-equal) # other readings of the paper
declare -A ARCH=([feedback]=feedback_lm_toy [transformer]=span_transformer_lm_twin_toy
    [transformer-8]=span_transformer_lm_twin_toy_8 [lstm]=lstm_stream_lm_toy)
declare -A SPAN=([copy]=1024 [copy-varied]=1024 [reverse]=1024 [reverse-varied]=1024
    [counting-50]=128 [counting-1000]=2048)
SETTINGS+=([STREAMS]=512 [VALID_STREAMS]=32 [BLOCK]=64 [LEARNING_RATE]=0.0001 [WARM_UP]=1000 [UPDATES]=50000 [EVERY]=1000)
WORDS+=([FEW]="" [SMALLER]="" [NARROWER]="" [FLAGS]="")
CHOICES+=([TASKS]="${ALL_TASKS[*]}" [MODELS]="feedback transformer transformer-8 lstm" [SEEDS]=1 [SPLIT_STREAMS]="")
SMOKE_SETTINGS+=([TASKS]="reverse random-walk" [MODELS]="feedback lstm" [STREAMS]=4 [VALID_STREAMS]=4 [BLOCK]=32
    [LEARNING_RATE]=0.003 [WARM_UP]=10 [UPDATES]=40 [EVERY]=20
    [FEW]="--train-episodes 60 --test-episodes 8 --train-length 10 --test-length 20"
    [SMALLER]="--decoder-layers 2 --decoder-embed-dim 32"
    [NARROWER]="--decoder-attention-heads 2 --decoder-ffn-embed-dim 64")
begin "$@"
SMALLER+=("${FLAGS[@]}") # FLAGS win
for each in "${TASKS[@]}"; do one_of TASKS "$each" "${ALL_TASKS[@]}" "${OTHER_TASKS[@]}"; done
for each in "${MODELS[@]}"; do one_of MODELS "$each" "${!ARCH[@]}"; done
DATA='' # the task generates its data
share_streams
TRAINING=(--task synthetic_stream --criterion label_cross_entropy --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
    --stream-offset random --optimizer adam --clip-norm 0.1 --lr "$LEARNING_RATE" --lr-scheduler fixed
    --warmup-updates "$WARM_UP" --max-update "$UPDATES" --validate-interval 1000000 --save-interval 1000000
    --validate-interval-updates "$EVERY" --save-interval-updates "$EVERY" --keep-interval-updates 1
    --no-epoch-checkpoints "${FEW[@]}")

# train_toy TASK MODEL SEED
train_toy() {
    local attention=("${NARROWER[@]}" ${SPAN[$1]:+--attention-span "${SPAN[$1]}"})
    [[ $2 != lstm ]] || attention=()
    train "$1/$2-seed$3" "${TRAINING[@]}" --kind "$1" --arch "${ARCH[$2]}" "${attention[@]}" --seed "$3"
}

# row_toy TASK MEASURE MODEL: a row with the mean and the best over all seeds
row_toy() {
    local files=() in_paper=${1%-equal} seed
    for seed in "${SEEDS[@]}"; do files+=("$OUT/$1/$3-seed$seed/test.json"); done
    row "$1, ${2/_/ }, $3" "mean=$(figure mean_of "$2" "${files[@]}")" "best=$(figure best_of "$2" "${files[@]}")" \
        seeds="${#SEEDS[@]}" paper="$(paper_toy "${in_paper%-varied}, ${2/_/ }" "$3")" \
        "parameters=$(figure parameters "$OUT/$1/$3-seed${SEEDS[0]}/train.log")" \
        "paper, parameters=$(paper_parameters "$1" "$3")"
}

# paper_parameters TASK MODEL: Table 9 has those of both models of 4 layers on walk and programs
paper_parameters() {
    case $1/$2 in
        random-walk/feedback | random-walk/transformer | programs-*/feedback | programs-*/transformer)
            published "Table 9" "random walk and algorithmic" parameters ;;
        *) echo "not given" ;;
    esac
}

# paper_toy TASK MODEL: the paper's number, unless FEW makes the task another one
paper_toy() {
    if ((${#FEW[@]})); then echo "another task" && return; fi
    published "Table 1" "$@" "$(published "section 4.1.2" "$@" "not given")"
}

# measures TASK: print the measures that the paper reports for it
measures() {
    case $1 in
        copy* | reverse*) echo accuracy sequence_accuracy ;;
        counting-*) echo sequence_accuracy ;;
        *) echo accuracy ;;
    esac
}

for task in "${TASKS[@]}"; do
    for model in "${MODELS[@]}"; do
        for seed in "${SEEDS[@]}"; do train_toy "$task" "$model" "$seed"; done
    done
done
first_node_only
for task in "${TASKS[@]}"; do
    pictured=()
    for model in "${MODELS[@]}"; do
        for seed in "${SEEDS[@]}"; do
            folder=$OUT/$task/$model-seed$seed
            make_file "$folder/test.json" --after "$folder/checkpoint_best.pt" -- python -m fairseq_plugins.tools.label_accuracy \
                "$folder/checkpoint_best.pt" --json "$folder/test.json" "${DEVICE[@]}"
        done
        pictured+=("$model=$OUT/$task/$model-seed${SEEDS[0]}/test.json")
        for measure in $(measures "$task"); do row_toy "$task" "$measure" "$model"; done
    done
    run python -m fairseq_plugins.tools.position_accuracy "${pictured[@]}" --out "$OUT/$task.png"
done
table
