"""A dry run is a script: it does what the recipe would do. On clusters, on several nodes, with flags and variables of
the user's. (What it is without them: test_commands_files.py.)"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from commands_files import commands_of

ROOT = Path(__file__).resolve().parents[2]
TABLE_2 = ROOT / "recipes/feedback/table2_wmt14.sh"


@pytest.mark.parametrize("flag, line", [
    ("--save-interval-updates",
     'train feedback "${TRAINING[@]}" --arch feedback_transformer_wmt "${FEEDBACK_DROPOUT[@]}"'),
    ("--compound-split", '    test_wmt14 "$model"'),  # of lib.sh
])  # fmt: skip
def test_dry_run_names_the_line_of_a_misspelt_flag(flag, line, recipe, tmp_path):
    """A copy of the repository's scripts with one flag misspelt."""
    for folder in ("recipes", "preprocess", "fairseq_plugins"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    copy = tmp_path / "recipes/feedback" / TABLE_2.name
    for file in (copy, tmp_path / "recipes/lib.sh"):
        file.write_text(file.read_text().replace(flag, flag + "z"))
    done = recipe(copy.name, "--dry-run", folder=copy.parent)
    assert done.returncode == 1 and done.stdout == ""  # nothing that could be piped into a shell
    number = copy.read_text().splitlines().index(line) + 1
    assert re.search(rf"{copy.name}:{number}: error: .*{flag}z", done.stderr)


def test_help_is_the_header_and_the_options(recipe):
    done = recipe(TABLE_2.name, "--help")
    assert done.returncode == 0
    assert "Feedback Transformer 29.5" in done.stdout and "--dry-run" in done.stdout and "set -euo" not in done.stdout


@pytest.fixture
def trainings(recipe, tmp_path):
    """The fairseq-train commands of a recipe with some variables."""

    def trainings(name, *options, **env):
        written = tmp_path / "commands"
        options = ("--commands", written, "--out", tmp_path / "out", *options)
        done = recipe(f"{name}.sh", *options, folder=ROOT / "recipes", env=env)
        return [command for command in commands_of(done, written) if command.startswith("fairseq-train")]

    return trainings


@pytest.mark.parametrize("model, flags", [
    ("cross-head-0.25", "--cross-head-p 0.25"),
    ("not-first-0.1", "--skip-schedule not-first --skip-p 0.1"),
    ("uniform-0.3", "--skip-schedule uniform --skip-p 0.3"),
    ("heads-8", "--decoder-attention-heads 8"),
    ("heads-8-cross-head", "--decoder-attention-heads 8 --cross-head-p 0.1"),
    ("phase-1-moved", "--skipped-layers moved --skip-schedule linear"),
    ("uniform-0.3-moved", "--skipped-layers moved --skip-schedule uniform --skip-p 0.3"),
    ("phases-inner-0.3", "--skip-p 0.3 --skip-schedule inner"),
    ("phases-inner-0.3-moved", "--skipped-layers moved --skip-p 0.3 --skip-schedule inner"),
    ("phases-moved", "--skipped-layers moved --skip-schedule linear"),
    ("both-moved", "--skipped-layers moved --cross-head-p 0.1 --skip-schedule linear"),
])  # fmt: skip
def test_the_name_of_a_small_model_says_its_flags(model, flags, trainings):
    first, *others = trainings("skip_cross_head/small", MODELS=model, SEEDS="1")
    assert flags in first
    assert ["--skip-schedule none" in each for each in others] == [True] * model.startswith(("phases", "both"))


def test_positions_of_the_paper_are_scored_by_the_blocks_of_training(recipe, tmp_path):
    env = {"MODELS": "plain", "SEEDS": "1", "POSITIONS": "last-token"}
    done = recipe("skip_cross_head/small.sh", "--dry-run", "--out", tmp_path, folder=ROOT / "recipes", env=env)
    commands = commands_of(done)
    (training,) = (command for command in commands if command.startswith("fairseq-train"))
    assert "--position-scheme last-token --initial-memory zeros" in training
    scored = [command for command in commands if command.startswith("fairseq-eval-lm")]
    assert len(scored) == 2
    assert all("--tokens-per-sample 64" in command and "--model-overrides" not in command for command in scored)


def test_figure_9_is_its_two_halves(trainings):
    both, left, right = (
        trainings("feedback/fig9_depth", CORPUS=corpus, DEPTHS="2") for corpus in ("", "char_ptb", "wikitext103")
    )
    assert both == left + right and left and right


@pytest.mark.parametrize("name", ["all_attention/table1_enwik8", "feedback/table4_enwik8"])
@pytest.mark.parametrize("gpus, groups", [(1, ""), (1, "8"), (0, "")])
def test_on_one_gpu_streams_take_turns(name, gpus, groups, recipe, tmp_path):
    written = tmp_path / "commands"
    options = ("--commands", written, "--gpus", gpus, "--out", tmp_path / "out")
    done = recipe(f"{name}.sh", *options, folder=ROOT / "recipes", env={"SPLIT_STREAMS": groups})
    trainings = [command for command in commands_of(done, written) if command.startswith("fairseq-train")]
    assert trainings and all((" --split-streams 8 " in command) == bool(groups) for command in trainings)
    says_how = "# where memory runs out, the recipe goes on with --split-streams 2, 4" in done.stdout
    assert says_how == (gpus == 1 and not groups)


def test_a_speed_alone_has_no_ratio(recipe, tmp_path):
    pytest.importorskip("gymnasium")
    done = recipe("table5_speed_rl.sh", "--dry-run", "--out", tmp_path / "100%s", env={"MODELS": "lstm"})
    assert done.returncode == 0 and "ratio" not in done.stdout


def test_sentencepiece_is_a_variable(recipe, tmp_path):
    env = {"BPE": "sentencepiece"}
    done = recipe("multi30k.sh", "--dry-run", "--out", tmp_path, folder=ROOT / "recipes", env=env)
    assert commands_of(done)
    assert "multi30k.py" in done.stdout and "--bpe sentencepiece" in done.stdout
    assert "--bpe prepared" in done.stdout and "--remove-bpe" not in done.stdout


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
    job = {"SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "node[7-8]", "SLURM_JOB_ID": "41007"}
    job |= {"SLURM_GPUS_ON_NODE": "4", "SLURM_SUBMIT_DIR": str(ROOT), "VENV": str(venv)}
    env = {**os.environ, **job, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

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
