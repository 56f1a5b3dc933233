#!/usr/bin/env bash
# A recipe on a SLURM cluster, from the root of the repository:
#
#   sbatch recipes/slurm.sh recipes/feedback/table2_wmt14.sh                     one node of 8 GPUs
#   sbatch --nodes 2 --gpus-per-node 4 recipes/slurm.sh recipes/feedback/table2_wmt14.sh --data /shared/wmt14
#   sbatch --nodes 2 recipes/slurm.sh recipes/feedback/table2_wmt14.sh -- --seed 2     flags for every training
#
# Options of sbatch come before this file (--partition, --account, --time ...) or replace the lines below; those of the
# recipe come after its name. The nodes share the repository, --data and --out. The first one prepares the corpus and
# sets up the environment; all of them train, with fairseq's data-parallel training behind torchrun; the first one
# evaluates and prints the table, in slurm-JOB.out. A job that was cut short goes on when it is submitted again.
#
# GPUs are those that SLURM gives each node (--gpus-per-node); the recipe's own --gpus is added from it.
#SBATCH --job-name recipe
#SBATCH --nodes 1
#SBATCH --ntasks-per-node 1
#SBATCH --gpus-per-node 8
#SBATCH --cpus-per-task 16
#SBATCH --time 3-00:00:00
set -euo pipefail

(($#)) || { echo "slurm: error: name a recipe: sbatch recipes/slurm.sh recipes/feedback/table2_wmt14.sh" >&2 && exit 2; }
cd "${SLURM_SUBMIT_DIR:-.}"
[[ -e $1 ]] || { echo "slurm: error: $1 does not exist in $PWD: submit from the root of the repository." >&2 && exit 2; }
recipe=$1
shift

bash recipes/setup/setup.sh # once, before the nodes start
NNODES=${SLURM_JOB_NUM_NODES:-1}
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000)) # two jobs may have a node together
export NNODES MASTER_ADDR MASTER_PORT

# Every node runs the recipe, and knows its place by SLURM_NODEID.
# shellcheck disable=SC2016 # it is the node that knows
srun --ntasks-per-node 1 bash -c 'export NODE_RANK=$SLURM_NODEID && exec bash "$@"' node \
    "$recipe" ${SLURM_GPUS_ON_NODE:+--gpus "$SLURM_GPUS_ON_NODE"} "$@"
