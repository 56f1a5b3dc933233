# shellcheck shell=bash disable=SC2034 # the recipes use what is set here
# What the recipes of agents share: trainings, the rewards to compare with, rows and curves; sourced, not run.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
LOG_FORMAT=json # figures.py and tools.plot read this format
SETTINGS+=([LEARNING_RATE]=0.0003 [SPAN]=200 [EVERY]=1000 [EPISODES]=500 [WORLD]="{}")
CHOICES+=([MODELS]="feedback transformer lstm" [SEEDS]="1 2 3 4 5 6 7 8 9 10")
SMOKE_SETTINGS+=([SIZE]=tiny [MODELS]="feedback lstm" [SEEDS]="1 2" [ENVIRONMENTS]=4 [BPTT]=10 [UPDATES]=20 [EVERY]=10
    [EPISODES]=4 [WORLD]='{"max_steps": 8}' [LOG_INTERVAL]=1)
declare -A AGENT=([feedback]=feedback_agent [transformer]=span_transformer_agent [lstm]=lstm_agent)

# begin_agents NAME OPTIONS...: read the options; set ENVIRONMENT, of that NAME, and TRAINING, the flags of all trainings
begin_agents() {
    local each
    ENVIRONMENT=fairseq_plugins/$1
    begin "${@:2}"
    DATA='' # the environments are the data
    for each in "${MODELS[@]}"; do one_of MODELS "$each" "${!AGENT[@]}"; done
    share each "$ENVIRONMENTS" environments
    python -m fairseq_plugins.tools.watch --agent random --environment "$ENVIRONMENT" --environment-settings "$WORLD" \
        >/dev/null || exit # an episode at random: wrong settings in WORLD are found before anything is trained
    TRAINING=(--task reinforcement_learning --environment "$ENVIRONMENT" --environment-settings "$WORLD" --criterion a2c
        --batch-size "$each" --bptt "$BPTT" --max-update "$UPDATES" --updates-per-epoch "$EVERY"
        --test-episodes "$EPISODES" --no-epoch-checkpoints
        --best-checkpoint-metric reward --maximize-best-checkpoint-metric)
}

# train_agent NAME MODEL FLAGS...: a training NAME-seedSEED for each of SEEDS
train_agent() {
    local seed own=(--lr "$LEARNING_RATE" --attention-span "$SPAN")
    [[ $2 != lstm ]] || own=(--lr "${LSTM_LEARNING_RATE:-$LEARNING_RATE}")
    for seed in "${SEEDS[@]}"; do
        train "$1-seed$seed" "${TRAINING[@]}" --arch "${AGENT[$2]}_$SIZE" "${own[@]}" --seed "$seed" "${@:3}"
    done
}

# other_agents: the mean rewards of the best agent and of one that acts at random, to compare with
other_agents() {
    local each
    for each in best random; do
        make_file "$OUT/$each.json" -- python -m fairseq_plugins.tools.watch --agent "$each" \
            --environment "$ENVIRONMENT" --environment-settings "$WORLD" --episodes 1000 --json "$OUT/$each.json"
    done
}

# row_agent NAME: a row with the rewards of all seeds, beside those of the other agents
row_agent() {
    local seed logs=
    for seed in "${SEEDS[@]}"; do logs+=":$OUT/$1-seed$seed/train.log"; done
    row "$1" reward="@mean_reward$logs" "lowest to highest=@reward_range$logs" trials="${#SEEDS[@]}" \
        best="@json:$OUT/best.json:reward" random="@json:$OUT/random.json:reward" paper=figure
}

# draw_agents KIND RUN...: rewards.png, with lines for the other agents. A RUN is NAME=FOLDER.
draw_agents() { plot rewards.png "$@" --line "best=$OUT/best.json" "random=$OUT/random.json"; }

# all_agents FLAGS...: what Figures 4 and 6 need: train all MODELS, add their rows, draw their rewards over steps
all_agents() {
    local model seed runs=()
    for model in "${MODELS[@]}"; do train_agent "$model" "$model" "$@"; done
    first_node_only
    other_agents
    for model in "${MODELS[@]}"; do
        row_agent "$model"
        for seed in "${SEEDS[@]}"; do runs+=("$model=$OUT/$model-seed$seed"); done
    done
    draw_agents rewards "${runs[@]}"
    table
}
