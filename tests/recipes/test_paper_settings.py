"""The settings of every recipe are those that its paper's file declares, and the file's numbers are those it prints.

Nothing is undeclared: of every command of a recipe's --dry-run, parsed by the command's own parser and with the
architecture's values in it, the file declares

- of a training every option that this suite gives to model, task, criterion, optimiser or schedule, whatever its value;
  of fairseq's own options those that are not as by default, and whatever they are task, model, criterion, sizes of
  layers, every dropout, optimiser, schedule, ends of the training, and what all processes take for an update (that
  nothing is dropped without a flag: tests/models/test_dropout_places.py);
- of evaluation, search, preparation and other tools every option that is not as by default, streams, block, overrides,
  beam and length penalty whatever they are, and every number of the suite's own tools.

Left out are where files lie, what is logged and which checkpoints are kept, the machine, tables and pictures
(HOUSEKEEPING and PRINTING in paper_settings.py), runs that variables choose and a plain call does not make, and recipes
of no paper. The numbers of smoke runs are nobody's.
"""

import copy
import fcntl
import json
import re
import shutil
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pytest
from architectures import PUBLISHED
from fairseq.models import ARCH_CONFIG_REGISTRY
from first_update import precision_of
from paper_settings import DATA, OUT, Command, Paper, read_command, read_commands, read_rows, split

from fairseq_plugins.models.all_attention_lm import AllAttentionConfig, AllAttentionLanguageModel
from fairseq_plugins.tools.published import published

ROOT = Path(__file__).resolve().parents[2]
PAPERS = sorted(path.name for path in (ROOT / "recipes").iterdir() if path.is_dir() and (path / "paper.json").exists())
NO_NUMBER = {"figure", "picture", "not given", "not said", "-"}


def recipes(paper: str) -> list[str]:
    """Those that can be called; the others are sourced."""
    return sorted(
        path.stem for path in (ROOT / "recipes" / paper).glob("*.sh") if path.read_text().startswith("#!/usr/bin/env")
    )


RECIPES = [(paper, name) for paper in PAPERS for name in recipes(paper)]


def text_of(paper: str) -> str:
    return (ROOT / "recipes" / paper / "paper.json").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def dry_run(run, venv, shared_folder):
    """The commands of a recipe, one a line. The first process to need them calls the recipe, others read them."""

    @lru_cache(None)
    def dry_run(paper: str, name: str, smoke: bool = False) -> list[str]:
        script, gpus = ROOT / "recipes" / paper / f"{name}.sh", Paper(text_of(paper)).gpus
        options = ("--smoke",) if smoke else ("--gpus", gpus, "--data", DATA)
        file = shared_folder / "commands" / paper / f"{name}{'-smoke' * smoke}"
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{file}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                run("bash", script, *options, "--commands", f"{file}.part", "--out", OUT, env={"VENV": str(venv)})
                Path(f"{file}.part").rename(file)
        return file.read_text().splitlines()

    return dry_run


@pytest.fixture(scope="session")
def commands(dry_run):
    """The same commands as they are parsed, once."""
    return lru_cache(None)(lambda paper, name: read_commands(dry_run(paper, name)))


@pytest.mark.parametrize("paper, name", RECIPES)
def test_recipe_sets_what_is_declared_and_nothing_else(paper, name, commands):
    differences = Paper(text_of(paper)).differences(name, commands(paper, name))
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("paper, name", RECIPES)
def test_first_updates_are_tested_in_the_precision_of_the_recipe(paper, name, dry_run):
    """By tests/models/test_first_updates.py"""
    for _, words in split(dry_run(paper, name)):
        if "fairseq-train" in words and (arch := words[words.index("--arch") + 1]) in PUBLISHED:
            assert precision_of(arch) == read_command(words).options["precision"]


@pytest.mark.parametrize("smoke", [False, True])
@pytest.mark.parametrize("paper, name", RECIPES)
def test_only_small_flags_of_a_smoke_run_stand_twice(paper, name, smoke, dry_run, request):
    """No flag stands twice in a command, but for SMALLER, the last flags of a smoke run's trainings."""
    if smoke and name != recipes(paper)[0] and not request.config.getoption("--all"):
        pytest.skip("--all looks at every smoke run")
    recipe = (ROOT / "recipes" / paper / f"{name}.sh").read_text()
    smaller = {flag for found in re.findall(r'\[SMALLER\]="(.+?)"', recipe, re.DOTALL) for flag in found.split()}
    for _, words in split(dry_run(paper, name, smoke)):
        for part in (words, []) if "--" not in words else (words[: words.index("--")], words[words.index("--") :]):
            flags = [word for word in part if re.match("--[a-z]", word)]
            twice = {flag for flag in flags if flags.count(flag) > 1}
            assert twice <= (smaller if smoke and "fairseq-train" in words else set()), words


@pytest.mark.parametrize("paper", PAPERS)
def test_every_declared_setting_is_one_of_a_command(paper, commands):
    file = Paper(text_of(paper))
    for name in recipes(paper):
        file.differences(name, commands(paper, name))
    assert not file.unused()
    assert not {name for names in file.recipes for name in names.split()} - {*recipes(paper)}


def printed(dry_run, paper: str) -> dict[str, list[str]]:
    """What the recipes' tables have in the columns of the paper and of its code, by recipe."""
    return {
        name: [
            value
            for _, columns in read_rows(dry_run(paper, name))
            for column, value in columns.items()
            if re.match("paper|code", column)
        ]
        for name in recipes(paper)
    }


@pytest.mark.parametrize("paper", PAPERS)
def test_tables_print_the_published_numbers(paper, dry_run):
    numbers = {*published(text_of(paper)).values()}
    values = {value for values in printed(dry_run, paper).values() for value in values}
    assert values - NO_NUMBER <= numbers, "printed and not in the file"
    assert numbers <= values, "in the file and never printed"


NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+(?:e-?\d+)?|e-?\d+)(?!\w|\.\d)")


@pytest.mark.parametrize("paper, name", RECIPES)
def test_numbers_in_a_header_are_in_the_file(paper, name):
    """Numbers with a decimal point or an exponent, but for those of sections, days and calls with other settings."""
    lines = (ROOT / "recipes" / paper / f"{name}.sh").read_text().splitlines()
    header = " ".join(line.lstrip("# ") for line in lines[1 : lines.index("set -euo pipefail")])
    header = re.sub(r"sections? [\d.]+( and [\d.]+)?|\d+\.\d+ days|\b[A-Z_]+=\S+", "", header)
    assert {*NUMBER.findall(header)} <= every_number(paper)


def every_number(paper: str) -> set[str]:
    """Of settings and results, as they are written."""
    return {*NUMBER.findall(text_of(paper))}


@pytest.mark.parametrize("paper", PAPERS)
def test_numbers_of_the_list_of_recipes_are_in_the_file(paper):
    """In the rows that name a recipe, the cell of the paper's result."""
    for line in (ROOT / "docs/recipes.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("|") and f"recipes/{paper}/" in line:
            cell = next(cell for cell in reversed(line.strip("| ").split(" | ")) if "recipes/" not in cell)
            numbers = {*NUMBER.findall(re.sub(r"section [\d.]+", "", cell))}
            assert numbers <= every_number(paper), line


# What the comparison is for: each of these is one change somewhere, and none goes unnoticed.


@pytest.mark.parametrize("paper, name, file, line, change", [
    ("all_attention", "table1_enwik8", "all_attention/table1_enwik8.sh",
     "[LEARNING_RATE]=0.07", "[LEARNING_RATE]=0.08"),
    ("all_attention", "table1_enwik8", "all_attention/table1_enwik8.sh", "small 450000", "small 400000"),
    ("all_attention", "table3_wikitext103", "all_attention/table3_wikitext103.sh",
     "--clip-norm 1 ", "--clip-norm 1 --weight-decay 0.01 "),
    ("feedback", "table2_wmt14", "feedback/table2_wmt14.sh", "[TIMES]=128", "[TIMES]=64"),
    ("feedback", "table2_wmt14", "feedback/table2_wmt14.sh", "--share-all-embeddings --dropout 0.3", "--dropout 0.3"),
    ("feedback", "table2_wmt14", "feedback/table2_wmt14.sh", "--beam 5 --batch-size", "--beam 4 --batch-size"),
    ("feedback", "table6_ablation", "feedback/table6_ablation.sh", "--output-dropout 0.2", "--output-dropout 0.1"),
    ("feedback", "char_ptb", "feedback/char_ptb.sh", "--stream-offset random", "--stream-offset zero"),
    ("skip_cross_head", "table4_glue", "skip_cross_head/table4_glue.sh", "PRECISION=fp16 #", "PRECISION=bf16 #"),
])  # fmt: skip
def test_changed_recipe_is_a_difference(paper, name, file, line, change, run, venv, tmp_path):
    """A copy of the repository's scripts with one line changed."""
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    for folder in ("preprocess", "fairseq_plugins"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    text = (tmp_path / "recipes" / file).read_text()
    assert line in text
    (tmp_path / "recipes" / file).write_text(text.replace(line, change))
    options = ("--commands", tmp_path / "commands", "--gpus", 8, "--out", OUT, "--data", DATA)
    run("bash", tmp_path / f"recipes/{paper}/{name}.sh", *options, env={"VENV": str(venv)})
    commands = read_commands((tmp_path / "commands").read_text().splitlines())
    assert Paper(text_of(paper)).differences(name, commands)


TRAINED = (
    "torchrun --nproc_per_node 8 fairseq-train /data/bin --save-dir /out/small --task streaming_language_modeling"
    " --criterion streaming_lm --arch all_attention_lm_enwik8_small --batch-size 8 --batch-size-valid 1"
    " --tokens-per-sample 512 --stream-offset random --optimizer adagrad_clipped --clip-tensor-norm 0.03 --clip-norm 0"
    " --fp16-no-flatten-grads --lr-scheduler fixed --lr 0.07 --warmup-updates 32000 --max-update 450000"
).split()


def differences(words=TRAINED, content=None) -> list[str]:
    file = Paper(json.dumps(content or json.loads(text_of("all_attention"))))
    return file.differences("table1_enwik8", [read_command(list(words))])


def test_command_as_declared():
    assert differences() == []


@pytest.mark.parametrize("option, value", [
    ("--lr", "0.08"), ("--batch-size", "16"), ("--nproc_per_node", "4"), ("--arch", "all_attention_lm_enwik8_large"),
    ("--clip-norm", "0.1"), ("--max-update", "450001"), ("--lr-scheduler", "cosine"), ("--tokens-per-sample", "256"),
    ("--dropout", "0.31"), ("--embed-dropout", "0.1"), ("--span-ramp", "33"), ("--value-positions", None),
    ("--weight-decay", "0.1"), ("--patience", "3"), ("--adagrad-eps", "1e-9"), ("--ddp-backend", "legacy_ddp"),
    ("--share-decoder-input-output-embed", None), ("--update-freq", "2"), ("--bf16", None),
])  # fmt: skip
def test_changed_flag_is_a_difference(option, value):
    words = list(TRAINED)
    if option in words:
        words[words.index(option) + 1] = value
    else:
        words += [option] if value is None else [option, value]
    assert differences(words)


@pytest.mark.parametrize(
    "option, value", [("dropout", 0.2), ("attention_span", 4096), ("decoder_normalize_before", True)]
)
def test_changed_architecture_is_a_difference(option, value, monkeypatch):
    monkeypatch.setitem(ARCH_CONFIG_REGISTRY, "all_attention_lm_enwik8_small", changed(option, value))
    assert any(f"{option} is {value!r}" in each for each in differences())


def changed(option, value):
    architecture = ARCH_CONFIG_REGISTRY["all_attention_lm_enwik8_small"]

    def complete(args):
        setattr(args, option, value)
        architecture(args)

    return complete


def test_changed_default_is_a_difference(monkeypatch):
    @dataclass
    class Changed(AllAttentionConfig):
        value_positions: bool = field(default=True, metadata={"help": "by default now"})

    monkeypatch.setattr(AllAttentionLanguageModel, "__dataclass", Changed)
    assert any("value_positions is True" in each for each in differences())


def numbers_of(group: str) -> list[tuple[str, str]]:
    sources = json.loads(text_of("all_attention"))["settings"][group]
    return [(source, option) for source, options in sources.items() for option in options]


@pytest.mark.parametrize("group", ["every model", "characters", "small"])
def test_every_changed_number_of_the_file_is_a_difference(group):
    content = json.loads(text_of("all_attention"))
    for source, option in numbers_of(group):
        other = copy.deepcopy(content)
        other["settings"][group][source][option] = "another"
        assert differences(content=other), option
        del other["settings"][group][source][option]
        assert differences(content=other), option


def test_each_of_several_values_is_that_of_a_command():
    """Commands of one name, which the picture of skipped layers has three of."""

    def file():
        sizes = {"paper: 2": {"layers": {"one of": [8, 12]}}}
        held = {"fig": {"skip_schedule": ["sizes"]}}
        return Paper(json.dumps({"settings": {"sizes": sizes}, "recipes": held, "published": {}}))

    def commands(*layers):
        return [Command("skip_schedule", {"layers": number}, {"layers"}) for number in layers]

    whole, part, other = file(), file(), file()
    assert whole.differences("fig", commands(8, 12)) == [] and whole.unused() == []
    assert part.differences("fig", commands(8)) == [] and part.unused() == ["sizes / paper: 2 / layers / 12"]
    assert len(other.differences("fig", commands(8, 15))) == 1


@pytest.mark.parametrize("text, sentence", [
    ('{"settings": {"a": {"paper: 1": {"lr": 1, "lr": 2}}}, "recipes": {}, "published": {}}', "'lr' stands twice"),
    ('{"settings": {"a": {"Table 9": {"lr": 1}}}, "recipes": {}, "published": {}}', "'Table 9' is no source"),
    ('{"settings": {"a": {"ours": {"lr": 1}}}, "recipes": {}, "published": {}}', "'ours' is no source"),
    ('{"settings": {}, "recipes": {"a": {"train *": ["b"]}}, "published": {}}', "'b' is no group"),
])  # fmt: skip
def test_a_file_that_says_nothing_clear_is_refused(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        Paper(text)


def test_a_recipe_takes_published_numbers_from_the_file_beside_it(run, venv, tmp_path):
    (tmp_path / "paper.json").write_text('{"published": {"Table 1": {"large": {"test bpc": 1.060}}}}')
    (tmp_path / "recipe.sh").write_text(
        f'source {ROOT / "recipes/lib.sh"}\nbegin "$@"\npublished "Table 1" large "test bpc"\n'
        'published "Table 1" small "test bpc" "not given"\npublished "Table 1" small "test bpc"\n'
    )
    done = run("bash", tmp_path / "recipe.sh", "--gpus", 0, env={"VENV": str(venv)}, check=False)
    assert done.stdout.split("\n") == ["1.060", "not given", ""]
    assert done.returncode == 2 and "has no published number Table 1|small|test bpc." in done.stderr
