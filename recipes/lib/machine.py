"""Print how commands start on this machine, as shell assignments.

    eval "$(python recipes/lib/machine.py --gpus 8)"

They set these variables, and export the environment of every command:

    GPUS               the GPUs of this node
    NNODES, NODE_RANK  the number of nodes, and the number of this one (default: a single node)
    PROCESSES          the processes of all nodes
    PRECISION          of trainings and of fairseq-generate: fp16, bf16, fp32 or tf32; fp32 on a CPU unless it is given
    LAUNCH             the words before fairseq-train: torchrun and its flags, or none
    MACHINE            flags of fairseq-train and fairseq-generate
    NUMBERS            those of MACHINE that set the precision
    DEVICE             flags of the tools that run in one process, in float32

With several nodes, MASTER_ADDR must name the first one, as for torch.distributed; MASTER_PORT is 29500 by default.
"""

import argparse
import os
import shlex
from pathlib import Path

import options
import say
import variables

QUIET = {"PYTHONWARNINGS": "ignore"}
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
# By default glibc returns the memory of each large tensor to the system, and must request it again for the next one.
# Keeping the memory makes training on the CPU up to a sixth faster.
KEEP_FREED_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
# A GPU may round the factors of float32 products to ten bits (TF32). By default torch does so in convolutions only. The
# first variable allows it in torch's matrix products too; with the second NVIDIA's libraries never do it.
PRODUCTS = {"tf32": {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}, "fp32": {"NVIDIA_TF32_OVERRIDE": "0"}}
HALF = ("fp16", "bf16")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", default="", help="number of GPUs of this node (default: all; 0: the CPU)")
    parser.add_argument("--precision", default="", choices=["", *HALF, *PRODUCTS], help="the user's choice")
    parser.add_argument("--default-precision", default="fp32", choices=[*HALF, *PRODUCTS], help="the recipe's on GPUs")
    parser.add_argument("--smoke", action="store_true", help="use one thread, and the CPU unless --gpus is given")
    parser.add_argument("--queue", type=Path, metavar="FILE", help="write the first lines of a dry run's script there")
    args = parser.parse_args()
    gpus = int(args.gpus or (0 if args.smoke else count_gpus()))
    precision = chosen(gpus, args.precision, args.default_precision)
    exported = environment(gpus, precision, args.smoke)
    exports = [f"export {options.assignments({name: value})}" for name, value in exported.items()]
    print("\n".join(exports))
    if args.queue:
        folder = shlex.quote(os.path.join(os.environ["VENV"], "bin"))
        lines = ["set -euo pipefail", f"cd {shlex.quote(os.getcwd())}", f'export PATH={folder}:"$PATH"', *exports]
        args.queue.write_text("".join(f"{line}\n" for line in lines) + "\0")
    print(options.assignments(settings(gpus, precision, os.environ)))


def count_gpus() -> int:
    import torch

    return torch.cuda.device_count()


def chosen(gpus: int, precision: str, default: str) -> str:
    """The user's choice, or the recipe's on GPUs; a CPU computes in float32."""
    if not gpus and precision in ("fp16", "tf32"):
        say.stop(f"--precision {precision} needs a GPU: leave it out, or choose bf16, which also trains on a CPU.")
    if precision == "tf32" and os.environ.get("NVIDIA_TF32_OVERRIDE") == "0":
        say.stop("the variable NVIDIA_TF32_OVERRIDE is 0, which forbids --precision tf32: unset it.")
    return precision or (default if gpus else "fp32")


def environment(gpus: int, precision: str, smoke: bool) -> dict[str, str]:
    kept = {name: os.environ.get(name) or value for name, value in KEEP_FREED_MEMORY.items()}
    products = PRODUCTS.get(precision, PRODUCTS["fp32"])  # of half precision the evaluations are in float32
    return QUIET | (ONE_THREAD if smoke else {}) | (products if gpus else kept)


def settings(gpus: int, precision: str, given) -> dict:
    """The variables for a number of GPUs per node. ``given`` may hold NNODES, NODE_RANK, MASTER_ADDR, MASTER_PORT."""
    nodes, rank = (
        variables.number(name, given.get(name) or default) for name, default in (("NNODES", "1"), ("NODE_RANK", "0"))
    )
    if not rank < nodes:
        say.stop(f"NODE_RANK is {rank}, and NNODES {nodes}: nodes are counted from 0 to NNODES - 1.")
    here = max(gpus, 1)
    numbers, device = [f"--{precision}"] if precision in HALF else [], [] if gpus else ["--cpu"]
    launch, machine = [], [*numbers, *device]
    torchrun = ["torchrun", "--no-python", "--nproc_per_node", str(here)]
    if nodes > 1:
        if not given.get("MASTER_ADDR"):
            say.stop(f"NNODES is {nodes} but MASTER_ADDR, the first node's address, is not set.")
        launch = [*torchrun, "--nnodes", str(nodes), "--node_rank", str(rank)]
        launch += ["--master_addr", given["MASTER_ADDR"], "--master_port", given.get("MASTER_PORT") or "29500"]
    elif here > 1:
        launch = [*torchrun, "--standalone"]
    else:
        machine += ["--distributed-world-size", "1"]  # fairseq's default is every GPU it sees
    return {
        "GPUS": gpus, "NNODES": nodes, "NODE_RANK": rank, "PROCESSES": here * nodes, "PRECISION": precision,
        "LAUNCH": launch, "MACHINE": machine, "NUMBERS": numbers, "DEVICE": device,
    }  # fmt: skip


if __name__ == "__main__":
    main()
