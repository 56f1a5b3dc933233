# What the recipes for the paper's ablations share; sourced, not run.
#
# From the paper (appendix B.1): WikiText-103, 8 layers, batch 50, context 640 in evaluation; the rest is in
# language_models.sh. Recipes share their trainings, which are in ../ablations beside the recipe's own folder: the plain
# Transformer-XL, for example, is in five tables and trained once (do not start two such recipes at a time).
source "$(dirname "${BASH_SOURCE[0]}")/language_models.sh"

begin_ablations() {
    begin_words 50 "$@"
    number SHARED ../ablations ablations
}

ARCH="--arch skip_cross_head_xl_ablation"

# ablation NAME FLAGS...: one phase, with neither of the paper's methods but those in the flags
ablation() { train_xl "$SHARED/$1" $ARCH --cross-head-p 0 --skip-schedule none "${@:2}"; }

# ablation_phases NAME FLAGS...: both phases, without cross-head attention unless the flags have it
ablation_phases() { train_phases "$SHARED/$1" $ARCH --cross-head-p 0 "${@:2}"; }

# cell_ablation CELL NAME TABLE ROW COLUMN=VALUE...
cell_ablation() { cell_words "$1" "$SHARED/$2" 640 "${@:3}" updates="$( ((DRY_RUN)) || updates "$OUT/$SHARED/$2")"; }
