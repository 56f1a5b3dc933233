"""The recipes of both papers' language models: flags, a smoke run of one (--all: of each)."""

import re
import sys
from pathlib import Path

import pytest
import torch
from dry_runs import commands_of

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
ALL_ATTENTION = [
    "appendix_a_attention_maps.sh", "appendix_b_baselines.sh", "fig2_integration.sh", "fig2_persistent_size.sh",
    "table1_enwik8.sh", "table2_text8.sh", "table3_wikitext103.sh",
]  # fmt: skip
FEEDBACK = [
    "char_ptb.sh", "fig5_memory_composition.sh", "fig8_single_layer_memory.sh", "fig9_depth.sh", "table1_toy_tasks.sh",
    "table3_wikitext103.sh", "table4_enwik8.sh", "table5_speed_lm.sh", "table6_ablation.sh",
]  # fmt: skip
NAMES = [f"all_attention/{name}" for name in ALL_ATTENTION] + [f"feedback/{name}" for name in FEEDBACK]
NAMES.append("char_lm.sh")
DEFAULT = "feedback/table4_enwik8.sh"
PICTURES = {
    "all_attention/appendix_a_attention_maps.sh": ["maps.png"],
    "all_attention/appendix_b_baselines.sh": ["curves.png"],
    "all_attention/table1_enwik8.sh": ["spans-small.png", "spans-transformer-small.png"],
    "feedback/char_ptb.sh": ["curves.png", "memory.png"],
    "feedback/fig5_memory_composition.sh": ["composition.png"],
    "feedback/fig8_single_layer_memory.sh": ["memory.png"],
    "feedback/fig9_depth.sh": ["char_ptb/depth.png", "wikitext103/depth.png"],
    "feedback/table1_toy_tasks.sh": ["reverse.png", "random-walk.png"],
}
# rows of a smoke run where they are not both papers' model and a Transformer
ROWS = {
    "all_attention/appendix_a_attention_maps.sh": r"layer \d, head \d",
    "all_attention/fig2_integration.sh": "all-attn|attn-split|head-split|single-head|ff-attn",
    "all_attention/fig2_persistent_size.sh": "N-0|N-16",
    "all_attention/table3_wikitext103.sh": "all-attention|all-attention-fine",
    "char_lm.sh": "(feedback|all-attention)-seed1",
    "feedback/table1_toy_tasks.sh": "(reverse, (sequence )?accuracy|random-walk, accuracy), (feedback|lstm)",
}


def test_figure_9_is_its_two_halves(recipe, tmp_path):
    def commands(corpus):
        env = {"CORPUS": corpus, "DEPTHS": "2"}
        done = recipe("feedback/fig9_depth.sh", "--dry-run", "--out", tmp_path, folder=RECIPES, env=env)
        return len(commands_of(done))

    assert commands("") == commands("char_ptb") + commands("wikitext103")


@pytest.mark.parametrize("corpus, small, large", [("enwik8", 600000, 150000), ("text8", 900000, 250000)])
def test_transformers_have_the_updates_of_the_scripts_for_their_corpus(corpus, small, large, recipe, tmp_path):
    """enwik8.sh, enwik8_large.sh, text8.sh and text8_large.sh of Sukhbaatar et al. (2019)"""
    name = next(name for name in NAMES if name.endswith(f"{corpus}.sh") and name.startswith("all_attention"))
    env = {"MODELS": "transformer-small transformer-large"}
    done = recipe(name, "--dry-run", "--gpus", 8, "--out", tmp_path, folder=RECIPES, env=env)
    updates = [
        found[1]
        for command in commands_of(done)
        if (found := re.search(r"--max-update (?:\$.*--else )?(\d+)", command))
    ]
    assert [*map(int, updates)] == [small, large, large + 20000]


@pytest.mark.parametrize("name", ["all_attention/table1_enwik8.sh", "feedback/table4_enwik8.sh"])
@pytest.mark.parametrize("gpus, groups", [(1, ""), (1, "8"), (0, "")])
def test_on_one_gpu_streams_take_turns(name, gpus, groups, recipe, tmp_path):
    env = {"SPLIT_STREAMS": groups}
    done = recipe(name, "--dry-run", "--gpus", gpus, "--out", tmp_path, folder=RECIPES, env=env)
    trainings = [command for command in commands_of(done) if command.startswith("fairseq-train")]
    assert trainings and all((" --split-streams 8 " in command) == bool(groups) for command in trainings)
    says_how = "# where memory runs out, the recipe goes on with --split-streams 2, 4" in done.stdout
    assert says_how == (gpus == 1 and not groups)


def read_tables(output):
    """Markdown tables, each as {first cell: {column: cell}}."""
    tables = []
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| cell |"):
            columns = cells
            tables.append({})
        elif line.startswith("| ") and not line.startswith("| --- |"):
            tables[-1][cells[0]] = dict(zip(columns, cells, strict=True))
    return tables


@pytest.mark.parametrize("name", NAMES)
def test_smoke_run_ends_in_a_table(name, recipe, tmp_path, request):
    if name != DEFAULT and not request.config.getoption("--all"):
        pytest.skip("--all smokes every recipe")
    if name in PICTURES:
        pytest.importorskip("matplotlib")
    done = recipe(name, "--smoke", "--out", tmp_path, folder=RECIPES)
    assert done.returncode == 0, done.stderr[-3000:]
    tables = read_tables(done.stdout)
    assert len(tables) == (2 if name == "feedback/fig9_depth.sh" else 1)
    for rows in tables:
        if name in ROWS:
            assert rows and all(re.fullmatch(ROWS[name], row) for row in rows)
        else:
            assert any(row.startswith("transformer") for row in rows)
            assert any(not row.startswith("transformer") for row in rows)
        assert all(value for row in rows.values() for value in row.values())
        for row in rows.values():
            assert all(float(value) > 1 for column, value in row.items() if re.search("^(dev|test) (bpc|ppl)", column))
    assert all((tmp_path / "smoke" / picture).stat().st_size > 5000 for picture in PICTURES.get(name, []))

    again = recipe(name, "--smoke", "--out", tmp_path, folder=RECIPES)
    assert again.returncode == 0
    for finished in ("fairseq-train", "fairseq-eval-lm", "fairseq-generate"):
        assert f" {finished}" not in again.stderr
    assert [line for line in again.stdout.splitlines() if line.startswith("| ")] == [
        line for line in done.stdout.splitlines() if line.startswith("| ")
    ]


def test_bf16_trains_on_a_cpu(recipe, tmp_path):
    words = ("--smoke", "--precision", "bf16", "--out", tmp_path)
    done = recipe(DEFAULT, *words, folder=RECIPES, env={"MODELS": "feedback", "UPDATES": "4", "FINE_TUNING": "2"})
    assert done.returncode == 0, done.stderr[-3000:]
    weights = torch.load(tmp_path / "smoke/feedback-fine/checkpoint_best.pt", weights_only=False)["model"]
    assert all(weight.equal(weight.bfloat16().to(weight)) for weight in weights.values())  # saved in float32


def test_fine_tuning_goes_on_at_a_tenth_of_the_rate(recipe, tmp_path):
    name, out = "feedback/table3_wikitext103.sh", tmp_path / "out"
    done = recipe(name, "--dry-run", "--gpus", 2, "--out", out, folder=RECIPES, env={"MODELS": "feedback"})
    first, second = (line for line in commands_of(done) if "fairseq-train" in line)
    assert "--batch-size 256 " in first and "--lr 0.0007 " in first and "--max-update 200000 " in first
    assert "--lr 7e-05 " in second and f"--save-dir {out}/feedback-fine " in second
    restored = f"--restore-file {out}/feedback/checkpoint_last.pt --reset-lr-scheduler --reset-meters"
    assert restored in second and "--reset-dataloader" in second and "--reset-dataloader" not in first
    more = f"$(python -S recipes/lib/figures.py updates {out}/feedback/train.log --plus 10000 --else 210000)"
    assert f"--max-update {more}" in second


def test_what_is_trained_is_not_taken_for_a_training_with_other_settings(recipe, tmp_path):
    """A recipe of one training, with a fairseq-train that does nothing."""
    program = tmp_path / "fairseq-train"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "recipe.sh").write_text(
        f"set -euo pipefail\nsource {RECIPES / 'lib.sh'}\nSETTINGS+=([UPDATES]=100)\nCHOICES+=([MODELS]=all)\n"
        f'begin "$@"\nexport PATH={tmp_path}:$PATH\n'
        'train small --max-update "$UPDATES"\necho "$(given SETTINGS CHOICES | tr "\\n" " ")$CALL, $MODELS"\n'
    )

    def call(*flags, **env):
        return recipe("recipe.sh", "--gpus", 0, "--out", tmp_path / "out", *flags, folder=tmp_path, env=env)

    first = call(UPDATES="7 ", MODELS="a b")
    assert first.returncode == 0 and "--max-update '7 '" in first.stderr
    assert first.stdout.splitlines()[-1].startswith("MODELS='a b' UPDATES='7 ' ")
    again = call(UPDATES="7 ", MODELS="c")
    assert again.returncode == 0 and "small is trained" in again.stderr
    other = call()
    assert other.returncode == 2 and other.stdout == ""
    assert re.search(r"out/small was begun with UPDATES='7 ', this call has the defaults: give an --out", other.stderr)
    flags = call("--", "--seed", "2", UPDATES="7 ")
    assert flags.returncode == 2 and "begun with the defaults, this call has flags '--seed' '2': give" in flags.stderr


@pytest.mark.parametrize(
    "variables, flags, sentence",
    [
        ({"UPDATES": "60.0"}, [], "UPDATES: 60.0 does not fit"),
        ({"UPDATES": "1e3"}, [], "UPDATES: 1e3 does not fit"),
        ({"PASS": "0100"}, [], "PASS: 0100 does not fit; write 100"),
        ({"SEEDS": "2 02"}, [], "SEEDS: 02 does not fit"),
        ({"SEEDS": "2 2"}, [], "SEEDS: 2 is given twice"),
        ({}, ["--", "--seed", "7"], "--seed: set SEEDS in place of this flag"),
        ({"BPE": "sentencepiece", "LEARNING_RATE": "1e-3", "SEEDS": "1 2"}, [], ""),
    ],
)
def test_numbers_with_which_a_recipe_computes_are_checked(recipe, variables, flags, sentence, tmp_path):
    (tmp_path / "recipe.sh").write_text(
        f"set -euo pipefail\nsource {RECIPES / 'lib.sh'}\nSETTINGS+=([UPDATES]=100 [PASS]='' [BPE]=300)\n"
        'WORDS+=([LEARNING_RATE]=0.5)\nCHOICES+=([SEEDS]="1 2 3")\nbegin "$@"\n'
    )
    done = recipe("recipe.sh", "--gpus", 0, "--out", tmp_path / "out", *flags, folder=tmp_path, env=variables)
    assert done.returncode == 2 * bool(sentence) and sentence in done.stderr, done.stderr


@pytest.mark.parametrize("said, goes_on", [("training diverged at update 7, block 6", True), ("out of memory", False)])
def test_a_baseline_that_diverges_is_a_result_and_nothing_else_is(said, goes_on, recipe, tmp_path):
    """Appendix B with a fairseq-train that fails and other commands that do nothing."""
    programs = tmp_path / "programs"
    programs.mkdir()
    python = f'case $* in *recipes/lib/*) exec {sys.executable} "$@" ;; esac'
    for name, action in (("fairseq-train", f'echo "{said}" >&2; exit 1'), ("fairseq-eval-lm", ":"), ("python", python)):
        (programs / name).write_text(f"#!/bin/sh\n{action}\n")
        (programs / name).chmod(0o755)
    copy = tmp_path / "recipes/all_attention"
    copy.mkdir(parents=True)
    (copy / "paper.json").write_text((RECIPES / "all_attention/paper.json").read_text())
    text = (RECIPES / "all_attention/appendix_b_baselines.sh").read_text()
    text = text.replace('"$(dirname "${BASH_SOURCE[0]}")', f'"{RECIPES / "all_attention"}')
    text = text.replace('begin "$@"', f'setup_venv() {{ export PATH={programs}:$PATH; }}\nbegin "$@"')
    (copy / "appendix_b.sh").write_text(text)
    done = recipe("appendix_b.sh", "--gpus", 0, "--data", tmp_path / "data", "--out", tmp_path / "out", folder=copy)
    assert said in done.stderr
    assert (done.returncode == 0) == goes_on
    trained = tmp_path / "out/transformer-36/diverged"
    assert trained.exists() == goes_on and (not goes_on or trained.read_text() == "diverged at update 7\n")
