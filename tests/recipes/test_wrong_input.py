"""What a recipe cannot do is refused by its dry run, in one sentence."""

from pathlib import Path

import pytest

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
NEITHER = "is none of skip-cross-head transformer-xl"
PLAIN = "is none of plain, phase-1, phases, both"


@pytest.mark.parametrize("name, env, options, sentence", [
    ("active_memory/table1_wikitext103", {"MIXERS": "lstm"}, [], "MIXERS: lstm is none of"),
    ("active_memory/table1_wikitext103", {}, ["--gpus", 3], "64 lines cannot be shared evenly by 3 processes"),
    ("active_memory/table4_algorithmic", {"MIXERS": "lstm"}, [], "MIXERS: lstm is none of"),
    ("active_memory/table4_algorithmic", {"TASKS": "divide"}, [], "TASKS: divide is none of"),
    ("active_memory/table4_algorithmic", {"JOBS": "0"}, [], "JOBS: 0 is no number of trainings at a time"),
    ("all_attention/table1_enwik8", {"MODELS": "tiny"}, [], "MODELS: tiny is none of"),
    ("feedback/fig4_maze", {"MODELS": "gru"}, [], "MODELS: gru is none of"),
    ("feedback/fig4_maze", {"WORLD": '{"size": 4}'}, [], "size 4 is not an odd number"),
    ("feedback/fig6_maze_easy", {"SIZE": "huge"}, [], "feedback_agent_huge"),
    ("feedback/fig6_water_maze", {}, ["--gpus", 3], "64 environments cannot be shared evenly by 3 processes"),
    ("feedback/fig9_depth", {"CORPUS": "text8"}, [], "CORPUS: text8 is neither char_ptb nor wikitext103"),
    ("feedback/table1_toy_tasks", {"TASKS": "programs-3-equal sort"}, [], "TASKS: sort is none of"),
    ("feedback/table1_toy_tasks", {"MODELS": "gru"}, [], "MODELS: gru is none of"),
    ("feedback/table4_enwik8", {"MODELS": "lstm"}, [], "MODELS: lstm is none of"),
    ("feedback/table4_enwik8", {}, ["--gpus", 3], "1024 streams cannot be shared evenly by 3 processes"),
    ("feedback/table4_enwik8", {"SPLIT_STREAMS": "3"}, ["--gpus", 1], "3 does not divide the 1024 streams of each"),
    ("feedback/table4_enwik8", {"SPLIT_STREAMS": "two"}, [], "SPLIT_STREAMS: two does not fit; give a whole number"),
    ("multi30k", {"MODELS": "lstm"}, [], "MODELS: lstm is none of"),
    ("skip_cross_head/table1_enwik8", {"MODELS": "tiny"}, [], f"MODELS: tiny {NEITHER}"),
    ("skip_cross_head/table2_wikitext103", {"MODELS": "tiny"}, [], f"MODELS: tiny {NEITHER}"),
    ("skip_cross_head/table3_head_pruning", {"PRUNED": "train"}, [], "PRUNED: train is none of test valid"),
    ("skip_cross_head/table4_glue", {"TASKS": "MRPC RTE"}, [], "TASKS: RTE is none of"),
    ("skip_cross_head/table4_glue", {"SEEDS": "1"}, [], "SEEDS: a standard deviation needs two seeds or more."),
    ("skip_cross_head/table4_glue", {}, ["--gpus", 5], "32 sentences cannot be shared evenly by 5 processes: choose"),
    ("skip_cross_head/small", {"MODELS": "tiny"}, [], f"MODELS: tiny {PLAIN}, cross-head, and"),
    ("skip_cross_head/small", {"MODELS": "plain inner-0.1-0.2"}, [], f"MODELS: inner-0.1-0.2 {PLAIN}"),
    ("skip_cross_head/small", {"MODELS": "plain-moved"}, [], "those that skip layers may end with -moved."),
    ("skip_cross_head/small", {"PRUNED": "train"}, [], "PRUNED: train is none of valid test"),
    ("skip_cross_head/small", {"POSITIONS": "first-token"}, [], "POSITIONS: first-token is none of pairwise"),
])  # fmt: skip
def test_what_cannot_be_is_named(name, env, options, sentence, recipe, tmp_path):
    if "maze" in name:
        pytest.importorskip("gymnasium")
    done = recipe(f"{name}.sh", "--dry-run", "--out", tmp_path, *options, folder=RECIPES, env=env)
    assert done.returncode and done.stdout == "" and sentence in done.stderr


def test_a_model_that_is_not_there_is_named_before_anything_runs(recipe, tmp_path):
    env = {"ROBERTA": "/nowhere/model.pt"}
    done = recipe("skip_cross_head/table4_glue.sh", "--out", tmp_path, folder=RECIPES, env=env)
    assert done.returncode == 2 and "error: ROBERTA: /nowhere/model.pt does not exist: unpack https://" in done.stderr
