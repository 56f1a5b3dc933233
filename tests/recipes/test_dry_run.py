"""A dry run is a script: it does what the recipe would do. On clusters, on several nodes, with flags of the user's."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from dry_runs import commands_of

ROOT = Path(__file__).resolve().parents[2]
TABLE_2 = ROOT / "recipes/feedback/table2_wmt14.sh"


def rows(output: str) -> dict[str, list[str]]:
    """Cells by the name of the row, without what no two runs share: the command, and what depends on the clock."""
    lines = [line.strip("| ").split(" | ") for line in output.splitlines() if line.startswith("| ")]
    kept = [number for number, column in enumerate(lines[0]) if column != "command"]
    return {line[0]: [line[number] for number in kept] for line in lines}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["feedback/char_ptb.sh"])
def test_a_smoke_dry_run_in_a_shell_does_what_the_smoke_run_does(name, recipe, tmp_path):
    run = recipe(name, "--smoke", "--out", tmp_path / "run", folder=ROOT / "recipes")
    assert run.returncode == 0, run.stderr[-3000:]
    dry = recipe(name, "--smoke", "--dry-run", "--out", tmp_path / "piped", folder=ROOT / "recipes")
    assert commands_of(dry) and not (tmp_path / "piped").exists()
    piped = subprocess.run(["bash"], input=dry.stdout, capture_output=True, text=True)
    assert piped.returncode == 0, piped.stderr[-3000:]
    assert rows(piped.stdout) == rows(run.stdout) and len(rows(run.stdout)) == 4  # columns, dashes and both models
    files = [{path.relative_to(tmp_path / out).as_posix() for path in (tmp_path / out).rglob("*")
              if path.suffix in (".pt", ".log", ".txt", ".png", ".jsonl")} for out in ("run", "piped")]  # fmt: skip
    assert files[0] == files[1]


def test_flags_after_the_dashes_are_last_in_every_training_and_stand_in_the_table(recipe):
    done = recipe(TABLE_2.name, "--dry-run", "--gpus", 0, "--", "--seed", "2", "--save-interval", "3")
    commands = commands_of(done)
    trainings = [line for line in commands if line.startswith("fairseq-train")]
    assert len(trainings) == 2 and all("--seed 2 --save-interval 3 2>&1 | tee" in line for line in trainings)
    assert not any("--seed 2" in line for line in commands if line.startswith("fairseq-generate"))
    table = [line for line in commands if "recipes/lib/row.py" in line]
    assert len(table) == 2 and all("table2_wmt14.sh --gpus 0 -- --seed 2 --save-interval 3'" in line for line in table)


def test_a_wrong_flag_after_the_dashes_is_refused(recipe):
    done = recipe(TABLE_2.name, "--dry-run", "--gpus", 0, "--", "--sead", "2")
    assert done.returncode == 1 and done.stdout == "" and re.search("error: .*--sead", done.stderr)


@pytest.fixture
def cluster(tmp_path, venv):
    """Submit a job without a cluster: an srun that starts the command once for each node, one after the other."""
    for name, lines in {
        "srun": f'echo "$*" >{tmp_path}/srun.txt\nwhile [ "$1" != bash ]; do shift; done\n'
        'for node in 0 1; do SLURM_NODEID=$node "$@" || exit; done',
        "scontrol": "echo node7; sleep 1; echo node8",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{lines}\n")
        (tmp_path / name).chmod(0o755)
    job = {
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_NODELIST": "node[7-8]",
        "SLURM_JOB_ID": "41007",
        "SLURM_GPUS_ON_NODE": "4",
    }
    env = (
        os.environ
        | job
        | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "VENV": str(venv), "SLURM_SUBMIT_DIR": str(ROOT)}
    )

    def submit(*words):
        command = ["bash", ROOT / "recipes/slurm.sh", *words]
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)

    return submit


def test_slurm_starts_the_recipe_on_every_node(cluster, tmp_path):
    done = cluster("recipes/feedback/table2_wmt14.sh", "--dry-run", "--data", "/shared/wmt14", "--", "--seed", "2")
    assert done.returncode == 0, done.stderr
    trainings = [line for line in done.stdout.splitlines() if "fairseq-train" in line]
    assert len(trainings) == 4  # two models on two nodes
    for rank, line in zip("0011", trainings, strict=True):
        torchrun = f"--nproc_per_node 4 --nnodes 2 --node_rank {rank} --master_addr node7 --master_port 21007"
        assert line.startswith(f"torchrun --no-python {torchrun} fairseq-train /shared/wmt14/bin ")
        assert "--update-freq 16 " in line and "--seed 2 " in line  # 128 batches shared by eight GPUs
    assert (tmp_path / "srun.txt").read_text().startswith("--ntasks-per-node 1 --cpus-per-task 16 --wait 0 bash -c ")
    # the first node evaluates
    assert done.stdout.count("fairseq-generate /shared") == 2 and done.stdout.count("results_table.py show") == 1


@pytest.mark.parametrize("words, sentence", [
    ([], "slurm: error: name a recipe"),
    (["recipes/none.sh"], "slurm: error: recipes/none.sh does not exist in"),
])  # fmt: skip
def test_slurm_names_what_is_wrong(words, sentence, cluster):
    done = cluster(*words)
    assert done.returncode == 2 and done.stderr.startswith(sentence)


def test_torchrun_over_nodes_needs_the_first_one(recipe):
    env = {"NNODES": "2", "NODE_RANK": "1"}
    done = recipe(TABLE_2.name, "--dry-run", "--gpus", 8, env=env)
    assert done.returncode == 2 and "MASTER_ADDR, the first node's address, is not set" in done.stderr
    lines = commands_of(recipe(TABLE_2.name, "--dry-run", "--gpus", 8, env={**env, "MASTER_ADDR": "node7"}))
    assert "--nnodes 2 --node_rank 1 --master_addr node7 --master_port 29500 fairseq-train" in lines[1]
    assert "--update-freq 8 " in lines[1] and "fairseq-generate" not in "".join(lines)  # which the first node does
