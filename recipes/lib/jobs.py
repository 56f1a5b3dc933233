"""Run many commands, several at a time, each on its own GPU.

    python recipes/lib/jobs.py --jobs 4 --gpus 4 < commands

Each line is a folder, a tab, and a command in shell syntax. If a command fails, the others still run. The folders of
the failed commands are named at the end, and the exit status is 1. If CUDA_VISIBLE_DEVICES is set, only its GPUs are
used.
"""

import argparse
import os
import queue
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import say


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, required=True, help="how many commands run at the same time")
    parser.add_argument("--gpus", type=int, default=0, help="number of GPUs; each command uses one (0: none)")
    args = parser.parse_args()
    lines = [line.rstrip("\n").split("\t", 1) for line in sys.stdin]
    failed = run([(folder, shlex.split(command)) for folder, command in lines], args.jobs, devices(args.gpus))
    for folder in failed:
        say.say(f"{folder} is not trained: its train.log says why; call again.")
    sys.exit(1 if failed else 0)


def devices(gpus: int) -> list[str]:
    """The names of the first GPUs, as CUDA_VISIBLE_DEVICES has them."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = given.split(",") if given else [str(number) for number in range(gpus)]
    return names[:gpus]


def run(jobs: list[tuple[str, list[str]]], slots: int, gpus: list[str]) -> list[str]:
    """Run all jobs. Returns the folders of those that failed, in the order of the jobs."""
    free = queue.SimpleQueue()
    for slot in range(slots):
        free.put(slot)

    def one(command: list[str]) -> int:
        slot = free.get()
        try:
            own = {"CUDA_VISIBLE_DEVICES": gpus[slot % len(gpus)]} if gpus else {}
            return subprocess.run(command, env=os.environ | own).returncode
        finally:
            free.put(slot)

    with ThreadPoolExecutor(slots) as pool:
        statuses = list(pool.map(one, [command for _, command in jobs]))
    return [folder for (folder, _), status in zip(jobs, statuses, strict=True) if status]


if __name__ == "__main__":
    main()
