# shellcheck shell=bash disable=SC2034 # recipes use what is set here
# What the recipes for the paper's ablations share; sourced, not run.
#
# From the paper (appendix B.1): WikiText-103, 8 layers, batch 50, context 640 in evaluation; the rest is in
# language_models.sh. The recipes share their trainings in the folder ../ablations beside their own. The plain
# Transformer-XL, for example, is in five tables and is trained once. So do not run two of these recipes at a time.
source "$(dirname "${BASH_SOURCE[0]}")/language_models.sh"
SETTINGS+=([SHARED]=../ablations)
SMOKE_SETTINGS+=([SHARED]=ablations)

begin_ablations() {
    begin_words 50 "$@"
    ABLATION=(--arch skip_cross_head_xl_ablation)
}

# ablation NAME FLAGS...: train in one phase; FLAGS say which of the paper's methods are used
ablation() { train "$SHARED/$1" "${TRAINING[@]}" "${ABLATION[@]}" --max-update "$UPDATES" "${@:2}"; }
PLAIN=(--cross-head-p 0 --skip-schedule none)

# ablation_phases NAME FLAGS...: train in both phases
ablation_phases() { train_phases "$SHARED/$1" "${ABLATION[@]}" "${@:2}"; }

# row_ablation ROW NAME TABLE ITS_ROW COLUMN=VALUE...: row_words with a context of 640, and the number of updates
row_ablation() { row_words "$1" "$SHARED/$2" 640 "${@:3}" updates="@updates:$OUT/$SHARED/$2/train.log"; }
