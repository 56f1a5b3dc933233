#!/usr/bin/env bash
# Run a recipe on a SLURM cluster. Submit from the root of the repository:
#
#   sbatch recipes/slurm.sh recipes/feedback/table2_wmt14.sh                     one node of 8 GPUs
#   sbatch --nodes 2 --gpus-per-node 4 recipes/slurm.sh recipes/feedback/table2_wmt14.sh --data /shared/wmt14
#   sbatch --nodes 2 recipes/slurm.sh recipes/feedback/table2_wmt14.sh -- --dropout 0.2     flags for every training
#
# Options of sbatch (--partition, --account, --time ...) come before this file; they override the #SBATCH lines below.
# Options of the recipe come after its name. The nodes share the repository, --data and --out. The first node sets up the
# environment and prepares the corpus. All nodes train together: torchrun starts fairseq's data-parallel training. The
# first node then evaluates and prints the table into slurm-JOB.out. A job that was cut short continues when it is
# submitted again.
#
# The recipe's --gpus is set to the number of GPUs that SLURM gives each node (--gpus-per-node).
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
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
MASTER_ADDR=${nodes%%$'\n'*} # the first line; head would end scontrol in the middle of a long list, and so the job
MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000)) # two jobs on the same node need different ports
export NNODES MASTER_ADDR MASTER_PORT

# Every node runs the recipe; SLURM_NODEID is its number. srun has ignored SLURM_CPUS_PER_TASK since Slurm 22.05, so the
# flag repeats it. With --wait 0 the first node may evaluate for as long as it takes after the others have ended.
# shellcheck disable=SC2016 # SLURM_NODEID is set on the node, not here
srun --ntasks-per-node 1 --cpus-per-task "${SLURM_CPUS_PER_TASK:-16}" --wait 0 \
    bash -c 'export NODE_RANK=$SLURM_NODEID && exec bash "$@"' node "$recipe" ${SLURM_GPUS_ON_NODE:+--gpus "$SLURM_GPUS_ON_NODE"} "$@"
