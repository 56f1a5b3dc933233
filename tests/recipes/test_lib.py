"""The small programs that recipes call, recipes/lib/*.py."""

import importlib
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

LIB = Path(__file__).resolve().parents[2] / "recipes/lib"


def call(name, *words, env={}, cwd=None):
    environment = {key: value for key, value in os.environ.items() if key not in ("NNODES", "NODE_RANK", "MASTER_ADDR")}
    return subprocess.run(
        [sys.executable, LIB / f"{name}.py", *map(str, words)],
        env=environment | {"RECIPE": "small"} | env, cwd=cwd, capture_output=True, text=True,
    )  # fmt: skip


@pytest.fixture
def lib(monkeypatch):
    """Import one of the programs."""
    monkeypatch.syspath_prepend(LIB)
    monkeypatch.setenv("RECIPE", "small")
    before = signal.getsignal(signal.SIGINT)
    yield importlib.import_module
    signal.signal(signal.SIGINT, before)


def script(path, *lines):
    path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    path.chmod(0o755)
    return path


def printed(name, *words, **options):
    done = call(name, *words, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def refused(name, *words, **options):
    """The sentence of a program that refuses its words."""
    done = call(name, *words, **options)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    return done.stderr


# options.py and machine.py: what the shell gets of them


def shell(code, *names):
    """Values of variables after the shell has evaluated the code; arrays as lists."""
    shown = "".join(f'printf "%s\\0" "${{{name}[@]}}" && echo;' for name in names)
    done = subprocess.run(["bash", "-euc", f"declare -A PUBLISHED\n{code}\n{shown}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [line.rstrip("\0").split("\0") for line in done.stdout.splitlines()]


@pytest.fixture
def recipe_file(tmp_path):
    file = tmp_path / "table1.sh"
    file.write_text("#!/usr/bin/env bash\n# Table 1: 0.96.\n#\n#   table1.sh --smoke\nset -euo pipefail\n# no header\n")
    (tmp_path / "paper.json").write_text('{"published": {"Table 1": {"large": {"test bpc": 1.060}}}}')
    return file


@pytest.mark.parametrize("words, variables", [
    ("--dry-run --out 'a b' --gpus 4 -- --seed 2 --x 'a b'",
     {"RECIPE": ["table1"], "DRY_RUN": ["1"], "SMOKE": ["0"], "OUT": ["HERE/a b"], "GPUS": ["4"],
      "EXTRA": ["--seed", "2", "--x", "a b"], "PUBLISHED": ["1.060"]}),
    ("--smoke --out /o", {"OUT": ["/o/smoke"], "DATA": ["/o/smoke/data"]}),  # never among what a real run made
    ("-- --help", {"EXTRA": ["--help"]}),
    ("--dry-run --smoke", {"CALL": ["table1.sh --smoke"]}),  # the command of a table is that of the run
])  # fmt: skip
def test_options_are_variables_of_the_shell(words, variables, recipe_file, tmp_path):
    found = shell(printed("options", recipe_file, *shlex.split(words), cwd=tmp_path), *variables)
    if "CALL" in variables:
        found[0][0] = Path(found[0][0]).name
    assert found == [[value.replace("HERE", str(tmp_path)) for value in values] for values in variables.values()]


def test_a_variable_with_the_name_of_an_option_is_named(recipe_file):
    done = call("options", recipe_file, "--out", "/o", env={"OUT": "/x", "DATA": ""})
    assert done.returncode == 0 and done.stderr == "table1: the variable OUT is ignored: give --out.\n"


@pytest.mark.parametrize("words, sentence", [
    ("--somke", "there is no option --somke"),
    ("--smoke --raw", "--raw needs a value"),
    ("--raw --smoke", "--raw needs a value"),
    ("--raw /nowhere", "--raw /nowhere does not exist"),
    ("--gpus all", "--gpus all is no number"),
    ("--commands /nowhere/commands", "--commands /nowhere/commands cannot be written"),
    ("--smoke --data /d", "--smoke prepares generated text"),
    ("--out /a:b", "--out /a:b has a colon in it"),
    ("--precision half", "--precision half is none of fp16, bf16, fp32, tf32."),
    ("-- --bf16", "--bf16: give --precision fp16, bf16, fp32 or tf32 before -- in place of this flag."),
    ("-- --fp16=True", "--fp16: give --precision fp16"),
    ("-- --dropout 0.1 --memory-efficient-fp16", "--memory-efficient-fp16: give --precision fp16"),
])  # fmt: skip
def test_wrong_options_end_in_one_sentence(recipe_file, words, sentence):
    said = refused("options", recipe_file, *words.split())
    assert said.startswith(f"table1: error: {sentence}") and said.count("\n") == 1


SEVERAL = {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "node7", "MASTER_PORT": "1234"}


@pytest.mark.parametrize("gpus, env, launch, machine, processes", [
    (0, {}, "", "--cpu --distributed-world-size 1", "1"),
    (1, {}, "", "--distributed-world-size 1", "1"),
    (8, {}, "torchrun --no-python --nproc_per_node 8 --standalone", "", "8"),
    (4, SEVERAL, "torchrun --no-python --nproc_per_node 4 --nnodes 2 --node_rank 1 --master_addr node7"
                 " --master_port 1234", "", "8"),
])  # fmt: skip
def test_machines(gpus, env, launch, machine, processes):
    code = printed("machine", "--gpus", gpus, env=env)
    found = shell(code, "LAUNCH", "MACHINE", "PROCESSES")
    assert [" ".join(words) for words in found] == [launch, machine, processes]
    assert ("MALLOC_MMAP_MAX_" in code) == (gpus == 0)


@pytest.mark.parametrize("gpus, words, precision, numbers", [
    (1, "", "fp32", ""), (1, "--default-precision fp16", "fp16", "--fp16"),
    (1, "--default-precision fp16 --precision bf16", "bf16", "--bf16"),
    (1, "--default-precision fp16 --precision fp32", "fp32", ""), (1, "--precision tf32", "tf32", ""),
    (0, "--default-precision fp16", "fp32", ""), (0, "--precision bf16", "bf16", "--bf16"),
])  # fmt: skip
def test_the_precision_is_the_users_or_the_recipes_or_that_of_a_cpu(gpus, words, precision, numbers):
    code = printed("machine", "--gpus", gpus, *words.split())
    assert shell(code, "PRECISION", "NUMBERS") == [[precision], [numbers]]
    machine = shell(code, "MACHINE")[0]
    assert [word for word in machine if word in ("--fp16", "--bf16")] == [numbers] * bool(numbers)


TELL = "import os, torch; print(torch.backends.cuda.matmul.allow_tf32, os.environ.get('NVIDIA_TF32_OVERRIDE'))"


@pytest.mark.parametrize("precision, told", [("fp32", "False 0"), ("fp16", "False 0"), ("tf32", "True None")])
def test_only_tf32_rounds_the_products_of_float32(precision, told):
    """What torch makes of the variables; the last one forbids it to NVIDIA's libraries, in convolutions too."""
    code = printed("machine", "--gpus", 1, "--precision", precision)
    command = ["bash", "-euc", f'{code}\n"$0" -c "$1"', sys.executable, TELL]
    assert subprocess.run(command, capture_output=True, text=True).stdout == f"{told}\n"


@pytest.mark.parametrize("words, env, sentence", [
    ("--gpus 0 --precision fp16", {}, "--precision fp16 needs a GPU: leave it out"),
    ("--gpus 0 --precision tf32", {}, "--precision tf32 needs a GPU: leave it out"),
    ("--gpus 1 --precision tf32", {"NVIDIA_TF32_OVERRIDE": "0"}, "NVIDIA_TF32_OVERRIDE is 0"),
    ("--gpus 4", SEVERAL | {"MASTER_ADDR": ""}, "NNODES is 2 but MASTER_ADDR"),
    ("--gpus 4", {"NNODES": "two"}, "NNODES: two does not fit; give a whole number"),
    ("--gpus 4", {"NNODES": "0"}, "NODE_RANK is 0, and NNODES 0"),
    ("--gpus 4", SEVERAL | {"NODE_RANK": "5"}, "NODE_RANK is 5, and NNODES 2"),
])  # fmt: skip
def test_a_machine_that_cannot_be_is_refused(words, env, sentence):
    assert sentence in refused("machine", *words.split(), env=env)


# share of lib.sh


@pytest.mark.parametrize("number, processes, nodes, way_out", [
    (60, 4, 1, ""),
    (50, 8, 1, "choose --gpus 1, 2, 5 or 10"), (60, 8, 1, "choose --gpus 1, 2, 3, 4, 5, 6, 10, 12 or 15"),
    (60, 16, 2, "choose --gpus 1, 2, 3, 5, 6, 10 or 15"), (2, 16, 2, "choose --gpus 1"),
    (50, 24, 3, "choose another number of nodes than 3"),
])  # fmt: skip
def test_streams_are_shared_by_all_processes_or_the_gpus_that_fit_are_named(number, processes, nodes, way_out):
    variables = f"RECIPE=small PROCESSES={processes} NNODES={nodes}"
    code = f"source {LIB}.sh; {variables}; share part {number} streams; echo $part"
    done = subprocess.run(["bash", "-euc", code], capture_output=True, text=True)
    said = f"small: error: {number} streams cannot be shared evenly by {processes} processes: {way_out}.\n"
    assert (done.stdout, done.stderr) == (("", said) if way_out else ("15\n", ""))
    assert done.returncode == 2 * bool(way_out)


# step.py


@pytest.fixture
def append(tmp_path):
    """A command that adds a word to a file and prints all of it."""
    return script(tmp_path / "append", f'echo "$1" >> {tmp_path}/all', f"cat {tmp_path}/all", "echo said >&2")


def test_a_file_is_made_once_until_its_source_or_its_command_changes(append, tmp_path):
    source, file = tmp_path / "source", tmp_path / "new/file.txt"
    source.touch()

    def step(word):
        done = call("step", file, "--capture", "--after", source, tmp_path / "missing", "--", append, word)
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert "append a" in step("a") and file.read_text() == "a\n"
    assert "file.txt is there" in step("a") and file.read_text() == "a\n"
    step("b")
    assert file.read_text() == "a\nb\n" and (tmp_path / "new/file.log").read_text() == "said\n"
    later = time.time() + 10
    os.utime(source, (later, later))
    step("b")
    assert file.read_text() == "a\nb\nb\n"


def test_a_source_that_changes_meanwhile_makes_the_file_again(tmp_path):
    source = tmp_path / "source"
    source.write_text("old\n")
    copy = script(tmp_path / "copy", f"cat {source}", f"grep -q new {source} || echo new > {source}")
    command = ("step", tmp_path / "file.txt", "--capture", "--after", source, "--", copy)
    done = call(*command)
    assert done.returncode == 2 and f"{source} changed while the step file.txt read it" in done.stderr
    assert call(*command).returncode == 0 and (tmp_path / "file.txt").read_text() == "new\n"


def test_what_was_stopped_is_made_again(append, tmp_path):
    """Its log and its file are then of two calls."""
    file = tmp_path / "file.txt"
    call("step", file, "--capture", "--", append, "a")
    stopped = script(tmp_path / "stopped", "exit 3")
    assert call("step", file, "--capture", "--", stopped).returncode == 3
    assert (tmp_path / "file.log").read_text() == ""
    call("step", file, "--capture", "--", append, "a")
    assert (tmp_path / "file.log").read_text() == "said\n" and file.read_text() == "a\na\n"


def test_what_the_script_of_a_dry_run_made_is_there(append, tmp_path):
    (tmp_path / "file.txt").write_text("made")
    assert "file.txt is there" in call("step", tmp_path / "file.txt", "--capture", "--", append, "a").stderr


def test_what_is_there_is_shown_where_nothing_can_be_written(append, tmp_path, read_only):
    command = ("step", tmp_path / "run/file.txt", "--capture", "--", append, "a")
    row = ("row", tmp_path / "run/results.jsonl", "feedback", "BLEU=30")
    for each in (command, row):
        assert call(*each).returncode == 0
    read_only(tmp_path / "run")
    again = call(*command)
    assert again.returncode == 0 and "file.txt is there" in again.stderr
    assert call(*row).returncode == 0 and "could not be written" in call(*row[:-1], "BLEU=31").stderr


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data/bin/label").mkdir(parents=True)
    for name in ("bin/dict.txt", "bin/train.idx", "bin/train.bin", "bin/label/train.bin", "test.ref"):
        (tmp_path / "data" / name).write_text("before")
    return tmp_path / "data"


CONTENT = ["bin/dict.txt", "bin/train.idx", "bin/train.bin", "bin/label/train.bin", "test.ref"]


@pytest.mark.parametrize("name", CONTENT)
def test_a_score_of_other_data_is_made_again(append, data, name, tmp_path):
    command = ("step", tmp_path / "run/test.txt", "--capture", "--data", data, "--", append, "a")
    call(*command)
    assert "test.txt is there" in call(*command).stderr
    (data / name).write_text("after")
    assert call(*command).returncode == 0 and (tmp_path / "run/test.txt").read_text() == "a\na\n"


def test_a_model_is_not_scored_on_other_data_than_its_own(append, train, data, tmp_path):
    train("--data", data)
    command = ("step", tmp_path / "run/test.txt", "--capture", "--data", data, "--", append, "a")
    assert call(*command).returncode == 0
    (data / "bin/train.bin").write_text("after")
    done = call(*command)
    assert done.returncode == 2 and "has other data than" in done.stderr


@pytest.mark.parametrize("call", [("step", "run/test.txt", "--capture"), ("training", "run")])
def test_two_calls_in_one_folder_wait_for_one_another(call, tmp_path):
    slow = script(tmp_path / "slow", f"echo begun >>{tmp_path}/all; sleep 1; echo end >>{tmp_path}/all")
    program, place, *options = call
    words = [sys.executable, LIB / f"{program}.py", tmp_path / place, *options, "--", slow]
    env = {**os.environ, "RECIPE": "small"}
    both = [subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = "".join(process.communicate()[1] for process in both)
    assert [process.returncode for process in both] == [0, 0], said
    assert "is being prepared by another process: waiting" in said and ("is there" in said or "is trained" in said)
    assert (tmp_path / "all").read_text() == "begun\nend\n"


def test_what_the_system_refuses_is_one_sentence(append, tmp_path):
    (tmp_path / "file").touch()
    done = call("step", tmp_path / "file/test.txt", "--capture", "--", append, "a")
    assert done.returncode == 2 and "small: error: cannot use" in done.stderr and "Traceback" not in done.stderr


def test_what_fails_leaves_no_file_and_its_status(tmp_path):
    failing = script(tmp_path / "failing", "echo half", "exit 3")
    done = call("step", tmp_path / "file.txt", "--capture", "--", failing)
    assert done.returncode == 3 and not (tmp_path / "file.txt").exists()


def test_nothing_is_done_without_a_needed_file(append, tmp_path):
    assert not call("step", tmp_path / "file", "--if", tmp_path / "missing", "--", append, "a").returncode
    assert not (tmp_path / "all").exists()


def test_a_stamp_says_that_the_command_ended_this_time(append, tmp_path):
    stamp = tmp_path / "prepared"
    for number in (1, 2):
        call("step", stamp, "--always", "--stamp", "--", append, "a")
        assert stamp.exists() and (tmp_path / "all").read_text() == "a\n" * number
    assert call("step", stamp, "--always", "--stamp", "--", "false").returncode and not stamp.exists()


@pytest.mark.parametrize("stamped", [True, False])
def test_no_stamp_is_made_where_nothing_can_be_written(stamped, append, tmp_path, read_only):
    stamp = tmp_path / "data/prepared"
    stamp.parent.mkdir()
    if stamped:
        stamp.touch()
    read_only(stamp.parent)
    assert call("step", stamp, "--always", "--stamp", "--", append, "a").returncode == 0
    assert stamp.exists() == stamped and (tmp_path / "all").read_text() == "a\n"
    assert call("step", stamp, "--always", "--stamp", "--", "false").returncode


def test_a_word_of_the_shell_is_what_the_commands_before_have_left(append, tmp_path):
    (tmp_path / "flags.txt").write_text("--lenpen 0.6\n")
    done = call("step", tmp_path / "file.txt", "--capture", "--", "echo", "a b", f"$(cat {tmp_path}/flags.txt)")
    assert (tmp_path / "file.txt").read_text() == "a b --lenpen 0.6\n", done.stderr
    missing = call("commands", "--", "echo", f"$(cat {tmp_path}/nothing.txt)")
    assert missing.returncode == 2 and "nothing.txt" in missing.stderr


def test_a_dry_run_is_a_script_and_commands_with_their_places(lib, tmp_path):
    words = ("echo", "a b", f"$(cat {tmp_path}/flags)", "$HOME")
    call_of_step = ["step", tmp_path / "new/file.txt", "--capture", "--", *words]
    queued = ["set -eu\n", "x.sh:6", 2, "note", "a note", "x.sh:7", len(call_of_step), *call_of_step]
    code, checked = lib("dry_run").read("".join(f"{word}\0" for word in queued))
    assert checked == "x.sh:7\techo 'a b' '$HOME'\n" and code.startswith("set -eu\n# a note\n")
    assert not (tmp_path / "new").exists()
    (tmp_path / "flags").write_text("--lenpen 1")
    subprocess.run(["bash", "-c", code], check=True)
    assert (tmp_path / "new/file.txt").read_text() == "a b --lenpen 1 $HOME\n"


@pytest.mark.parametrize("word", ["data/x", "{out}/../data/x", "link/x", "--path=data/x"])
def test_a_folder_may_be_written_in_another_way(word, append, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    before = f"{tmp_path}/data/x" if "=" not in word else f"--path={tmp_path}/data/x"
    for given in (before, word.format(out=tmp_path / "data")):
        command = ("step", tmp_path / "file", "--capture", "--", append, given)
        done = call(*command, cwd=tmp_path, env={"OUT": str(tmp_path / "out")})
    assert "file is there" in done.stderr
    other = call("step", tmp_path / "file", "--capture", "--", append, "data/y", cwd=tmp_path)
    assert "file is there" not in other.stderr


def test_the_folder_of_out_may_be_moved(append, tmp_path):
    def step(out):
        return call("step", out / "file", "--capture", "--", append, out / "a", env={"OUT": str(out)}).stderr

    step(tmp_path / "before")
    (tmp_path / "before").rename(tmp_path / "moved")
    assert "file is there" in step(tmp_path / "moved")


# variables.py


@pytest.mark.parametrize("words, env, said", [
    (["EPOCHS", "SEEDS"], {"UPDATES": "20", "EPOCHS": "1"},
     "error: UPDATES would be ignored: this recipe reads EPOCHS and SEEDS. Leave it out (env -u UPDATES unsets it)."),
    (["EPOCHS"], {"ADAPTIVE": "--adaptive-span"},  # which recipes have read
     "error: ADAPTIVE would be ignored: this recipe reads EPOCHS. Leave it out (env -u ADAPTIVE unsets it)."),
    (["SEEDS"], {"SEED": "2"}, "error: SEED would be ignored: this recipe reads SEEDS. Set that, or unset SEED."),
    (["SEEDS"], {"SEED": "2", "SEEDS": "1"}, ""),
    (["SEEDS"], {"FILE": "x", "HOME": "/", "COLOUR": "red"},  # other programs use these
     "the variable FILE is ignored: this recipe reads SEEDS."),
    (["--later", LIB.parent / "feedback/table6_ablation.sh"], {"SHORT_BLOCK": "32"}, ""),
    (["--later", LIB.parent / "feedback/table6_ablation.sh"], {"MODELS": "32"}, "error: MODELS would be ignored: "),
])  # fmt: skip
def test_variables_of_other_recipes_are_refused(words, env, said):
    done = call("variables", *words, env=env)
    assert done.returncode == 2 * said.startswith("error") and done.stderr.count("\n") == bool(said)
    assert done.stderr.startswith(f"small: {said}" if said else "") and (said or not done.stderr)


# training.py


@pytest.fixture
def train(tmp_path):
    """A fairseq-train that says what it was told, and fails where there is a file of that name."""
    program = script(
        tmp_path / "fairseq-train", f"[ ! -e {tmp_path}/fail ] || {{ cat {tmp_path}/fail >&2; exit 1; }}",
        "echo '2026 | INFO | train_inner | epoch 001:     5 / 20 loss=4, ppl=16, num_updates=5, lr=1'",
        "echo '2026 | INFO | valid | {\"epoch\": 1, \"valid_loss\": \"2\", \"valid_num_updates\": \"20\"}'",
        'echo "args $*"',
    )  # fmt: skip

    def train(*own, flags=("--lr", "1")):
        return call("training", tmp_path / "run", *own, "--", program, *flags)

    return train


def test_a_training_is_logged_whole_and_shown_in_part(train, tmp_path):
    done = train()
    assert done.stderr.splitlines()[1:] == ["small: run: update 20, epoch 1, validation, loss 2"]
    assert (tmp_path / "run/trained").exists() and "args --lr 1" in (tmp_path / "run/train.log").read_text()
    assert train().stderr == f"small: {tmp_path}/run is trained\n"


def test_flags_of_the_first_start_are_left_out_when_it_goes_on(train, tmp_path):
    start = ("--start", "--restore-file 'a b.pt'")
    (tmp_path / "fail").write_text("killed")
    assert train(*start).returncode == 1 and not (tmp_path / "run/trained").exists()
    (tmp_path / "fail").unlink()
    assert "--restore-file a b.pt" in train(*start).stderr.replace("'", "")
    (tmp_path / "run/trained").unlink()
    (tmp_path / "run/checkpoint_1_50.pt").touch()  # killed before it was copied to checkpoint_last.pt
    assert "checkpoint_1_50.pt" in train(*start).stderr
    (tmp_path / "run/trained").unlink()
    (tmp_path / "run/checkpoint_last.pt").touch()
    assert "--restore-file" not in train(*start).stderr


@pytest.mark.parametrize("said, goes_on", [("training diverged at update 7, block 6", True), ("out of memory", False)])
def test_divergence_is_a_result_only_where_it_may_be(train, said, goes_on, tmp_path):
    (tmp_path / "fail").write_text(said)
    assert train().returncode == 1
    done = train("--may-diverge")
    assert (done.returncode == 0) == goes_on and said in done.stderr
    diverged = tmp_path / "run/diverged"
    assert diverged.exists() == goes_on and (not goes_on or diverged.read_text() == "diverged at update 7\n")


@pytest.mark.parametrize("name", CONTENT)
def test_other_data_are_refused(train, data, name, tmp_path):
    assert train("--data", data).returncode == 0
    (data / name).write_text("after")
    done = train("--data", data)
    assert done.returncode == 2 and f"{tmp_path}/run was begun on other data than those in" in done.stderr


@pytest.fixture
def earlier(data, tmp_path):
    """A training of an earlier version: files in place of a record, and the checksum of dictionaries and indices."""
    content = b"".join((data / name).read_bytes() for name in ("bin/dict.txt", "bin/train.idx"))
    checksum = subprocess.run("cksum", input=content, capture_output=True).stdout.decode()
    (tmp_path / "run").mkdir()
    files = {"settings": "UPDATES='5'\n", "flags": '{"--lr": ["1"]}\n', "data": checksum, "precision": "fp16\n"}
    for name, text in {**files, "split_streams": "4 groups of 16 streams\n"}.items():
        (tmp_path / "run" / name).write_text(text)
    return ("--settings", "UPDATES='5'", "--data", data, "--precision")


def test_what_earlier_versions_wrote_is_read(train, data, earlier):
    other = train(*earlier, "fp32")
    assert other.returncode == 2 and "run was begun in fp16" in other.stderr
    assert train("--settings", "UPDATES='6'").returncode == 2
    assert "was begun with --lr 1, this call has --lr 2" in train(*earlier, "fp16", flags=("--lr", "2")).stderr
    begun = train(*earlier, "fp16", flags=("--lr", "1", "--batch-size", "16"))
    assert begun.returncode == 0 and "--split-streams 4" in begun.stderr
    assert "is trained" in train(*earlier, "fp16").stderr
    (data / "bin/dict.txt").write_text("after")
    assert "was begun on other data" in train(*earlier, "fp16").stderr


@pytest.mark.parametrize("name", [".steps/trained.json", "flags"])
def test_a_record_that_is_cut_in_half_is_refused(train, earlier, name, tmp_path):
    if name != "flags":
        (tmp_path / "run/flags").unlink()  # what is missing comes into the record
        train(*earlier, "fp16")
    file = tmp_path / "run" / name
    file.write_text(file.read_text()[: file.stat().st_size // 2])
    done = train(*earlier, "fp16")
    assert done.returncode == 2 and f"{file} is damaged: remove it if" in done.stderr and "Traceback" not in done.stderr


def test_a_log_that_cannot_be_written_is_one_sentence(train, tmp_path):
    """The command is not stopped for it, and says itself whether it could write its checkpoints."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run/train.log").symlink_to("/dev/full")
    done = train()
    assert done.returncode == 2 and "validation, loss 2" in done.stderr
    assert done.stderr.splitlines()[-1].endswith(
        "run/train.log could not be written (No space left on device): make room, and call the recipe again."
    )
    assert not (tmp_path / "run/trained").exists()


def test_the_training_of_another_recipe_is_no_own_one(train):
    train("--settings", "UPDATES='5'")
    other = train("--settings", "UPDATES='5'", flags=("--lr", "2"))
    assert other.returncode == 2 and "run was begun with --lr 1, this call has --lr 2: give an --out" in other.stderr
    more = train("--settings", "UPDATES='5'", "SEEDS='1'")
    assert more.returncode == 2 and "run was begun with the defaults, this call has SEEDS='1'" in more.stderr


@pytest.mark.parametrize("begun, now", [("fp16", "fp32"), ("tf32", "bf16")])
def test_half_precision_and_float32_do_not_go_on_with_each_other(train, begun, now, tmp_path):
    """fairseq refuses it, too, and its way out is to forget the optimiser. What has ended is used anywhere."""
    (tmp_path / "fail").write_text("killed")
    train("--precision", begun)
    done = train("--precision", now)
    assert done.returncode == 2 and f"run was begun in {begun}: give --precision {begun}, or give an" in done.stderr
    (tmp_path / "fail").unlink()
    assert train("--precision", begun.replace("tf", "fp")).returncode == 0
    assert "is trained" in train("--precision", now).stderr


@pytest.mark.parametrize("precision", ["--fp16", "--bf16"])
def test_another_machine_goes_on_with_a_training(train, tmp_path, precision):
    train()
    words = (precision, "--batch-size", "4", "--update-freq", "2", "--lr", "1")
    assert "is trained" in train(flags=words).stderr


@pytest.fixture
def train_streams(tmp_path):
    """A fairseq-train whose memory holds as many streams at a time as the file ``room`` says; it stops where there is a
    file ``stop``. The file ``starts`` has the flags of each start."""
    program = script(
        tmp_path / "fairseq-train", f"echo $* >>{tmp_path}/starts", "groups=1", "for word; do",
        '[ "$before" = --split-streams ] && groups=$word', '[ "$before" = --batch-size ] && streams=$word',
        "before=$word", "done",
        f"if [ $((streams / groups)) -gt $(cat {tmp_path}/room) ]; then",
        'way_out="train them in more groups, with --split-streams $((2 * groups))."',
        "[ $groups -lt $streams ] || way_out='lower --tokens-per-sample.'",
        'echo "fairseq_plugins: error: memory ran out with some streams at a time: $way_out" >&2', "exit 1", "fi",
        f"[ ! -e {tmp_path}/stop ] || exit 1",
    )  # fmt: skip

    def train(*flags, streams=16):
        done = call("training", tmp_path / "run", "--", program, "--batch-size", streams, *flags)
        starts = (tmp_path / "starts").read_text().replace(f"--batch-size {streams}", "").splitlines()
        (tmp_path / "starts").unlink()
        return done, [start.strip() for start in starts]

    return train


def test_where_memory_runs_out_a_training_goes_on_in_more_groups(train_streams, tmp_path):
    (tmp_path / "room").write_text("4")
    (tmp_path / "stop").touch()
    done, starts = train_streams()
    assert done.returncode == 1 and starts == ["", "--split-streams 2", "--split-streams 4"]
    assert "small: memory ran out: run goes on with --split-streams 4\n" in done.stderr
    (tmp_path / "run/checkpoint_1_50.pt").touch()  # another call begins with the number, another number of streams not
    assert train_streams()[1] == [f"--split-streams 4 --restore-file {tmp_path}/run/checkpoint_1_50.pt"]
    assert train_streams(streams=4)[1] == [f"--restore-file {tmp_path}/run/checkpoint_1_50.pt"]
    (tmp_path / "stop").unlink()
    (tmp_path / "room").write_text("2")  # later in the training
    done, starts = train_streams()
    assert done.returncode == 0 and [start.split()[1] for start in starts] == ["4", "8"]
    assert (tmp_path / "run/trained").exists()


@pytest.mark.parametrize("flags, room, starts, said", [
    (["--split-streams", 2], 4, 1, "with --split-streams 4.\n"),
    (["--nnodes", 2], 4, 1, "on several nodes recipes do not choose --split-streams: set SPLIT_STREAMS=2 on all"),
    ([], 0, 5, "lower --tokens-per-sample.\n"),
])  # fmt: skip
def test_memory_that_does_not_do_ends_in_the_sentence(train_streams, flags, room, starts, said, tmp_path):
    (tmp_path / "room").write_text(str(room))
    done, begun = train_streams(*flags)
    assert done.returncode == 1 and len(begun) == starts
    assert said in done.stderr and not (tmp_path / "run/trained").exists()


def test_groups_of_streams_may_change(train_streams, tmp_path):
    (tmp_path / "room").write_text("4")
    train_streams("--split-streams", 2)
    assert train_streams("--split-streams", 4)[0].returncode == 0


def test_only_the_first_node_says_that_it_is_trained(train, tmp_path):
    train("--rank", 1)
    assert not (tmp_path / "run/trained").exists() and (tmp_path / "run/train.node1.log").exists()


# progress.py


@pytest.fixture
def progress(lib):
    return lib("progress")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_training_says_how_far_it_is_and_the_time_left(progress, monkeypatch):
    work = progress.Training("x", "fairseq-train bin --max-update 100 --max-epoch=8".split())
    assert work.state(work.start + 12).startswith("x: the training is starting (12 s so far)")
    for now, update in ((50, 20), (60, 40)):
        monkeypatch.setattr(progress.time, "monotonic", lambda now=now: now)
        assert work.read(f"| epoch 002:    {update} / 80 loss=4.25, wps=9, num_updates={update}") is None
    figures = "x: update 40 of 100, epoch 1.5 of 8, loss 4.25"
    assert work.state(60) == f"{figures}, about 30 s left" and work.state(85) == f"{figures}, about 5 s left"
    assert work.state(95) == f"{figures}, ending"
    valid = '{"epoch": 2, "valid_loss": "3", "valid_ppl": "8.0", "valid_num_updates": "40"}'
    assert work.read(valid) == "x: update 40 of 100, epoch 2 of 8, validation, loss 3, ppl 8"


def test_a_command_with_a_bar_says_how_far_it_is(progress, monkeypatch):
    work = progress.Bars("tune")
    monkeypatch.setattr(progress.time, "monotonic", lambda: work.start)
    assert work.read("tuning:  20%|##   | 1/5 [00:00<?, ?it/s]") is None
    monkeypatch.setattr(progress.time, "monotonic", lambda: work.start + 8)
    assert work.read("INFO:fairseq.logging.progress_bar::      3 / 5 wps=7") is None
    assert work.state(work.start + 8) == "tune, 3 of 5 (8 s so far, about 8 s left)"
    assert work.read("INFO:fairseq: loading") is None and work.read("half 1/2 done") == "half 1/2 done"


def test_the_state_is_shown_after_ten_silent_seconds_and_on_a_terminal_at_once(progress):
    file, terminal = io.StringIO(), Terminal()
    for stream in (file, terminal):
        display = progress.Display(progress.Bars("small: tune"), stream)
        start = display.work.start = display.shown
        for second in (1, 5, 9.6, 10):
            display.tick(start + second)
    assert file.getvalue() == "small: tune (10 s so far)\n"
    assert terminal.getvalue().split("\r\x1b[2K")[1:3] == ["small: tune (1 s so far)", "small: tune (5 s so far)"]


# figures.py and row.py

EVALUATED = """2026 | INFO | num. model params: 1,234,567
x with end-of-line: 9 tokens, 1 nats, 1 nats per token, 1.500000 bits per token (bpc), perplexity 20.1234
x without end-of-line: 8 tokens, 1 nats, 1 nats per token, 1.400000 bits per token (bpc), perplexity 19.5
"""
WALLS = ((10, 100.5, 3500), (20, 300, 4000), (10, 200, 100), (20, 250, 700))  # updates, words per second, seconds
TRAINED = "x | total memory = 80.000 GB ; x\n" + "".join(
    f'x | {{"epoch": 1, "wps": "{speed}", "num_updates": "{number}", "train_wall": "9999", "wall": "{wall}",'
    f' "gb_free": "{30.5 + number}"}}\n'
    for number, speed, wall in WALLS
)
TRAINED += 'x | {"epoch": 1, "valid_loss": "2.5", "valid_num_updates": "20"}\n'
TRAINED += 'x | {"epoch": 1, "valid_loss": "2.25", "valid_num_updates": "22", "valid_reward": "0.25"}\n'
SIMPLE = "".join(f"x | epoch 001 | valid on 'valid' subset | loss 3 | best_loss {loss}\n" for loss in (4.009, 4.004))
FILES = {
    "test.log": EVALUATED, "train.log": TRAINED, "simple.log": SIMPLE, "labels": "1\n" * 100,
    "flags.txt": "--lenpen 0.6\n",
    "inner.log": "x | epoch 001:  10 / 20 loss=4, wps=90.5, num_updates=10, gb_free=40, wall=9\n",
    "generate.log": "Translated 9 sentences (90 tokens) in 1s (9.00 sentences/s, 90.25 tokens/s)\n",
    "a.json": '{"bleu": 28.10, "accuracy": 80.0, "accuracy_deviation": 2, "1": {"head": "layer 0, head 3", "H2": 0.4}}',
    "b.json": '{"bleu": 27.0, "accuracy": 82.0, "accuracy_deviation": 1}',
}  # fmt: skip


@pytest.fixture
def results(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    for seed, size in ((1, 10), (2, 20.5)):
        folder = tmp_path / f"not/cgru-seed{seed}"
        folder.mkdir(parents=True)
        lines = (f'{{"epoch": 1, "valid_num_updates": "1", "valid_reached": "{reached}"}}\n' for reached in (5, size))
        (folder / "train.log").write_text("".join(lines))
        (folder / "trained").touch()
    (tmp_path / "not/cgru-seed3").mkdir()
    return tmp_path


@pytest.mark.parametrize("figure, expected", [
    ("json a.json bleu", "28.10"), ("json a.json 1 H2", "0.4"), ("bpc test.log", "1.500000"),
    ("ppl test.log without", "19.5"), ("parameters test.log", "1.23M"), ("updates train.log", "22"),
    ("training_speed train.log", "200"), ("training_speed inner.log", "90.5"),
    ("milliseconds train.log 1000", "5000"), ("wall_time train.log", "1:18"), ("wall_time train.log train.log", "2:36"),
    ("days train.log train.log", "0.11"), ("gpu_memory train.log", "39.5"),
    ("ratio gpu_memory train.log train.log", "1.00"), ("best_loss simple.log", "4.004"),
    ("least_loss 0.1=train.log 0.2=train.log", "0.1"), ("mean_reward train.log train.log", "0.250"),
    ("reward_range train.log train.log", "0.250 to 0.250"), ("end diverged", "all updates"),
    ("end labels", "\n".join("1" * 100)), ("generation_speed generate.log", "90.25"),
    ("ratio json a.json b.json accuracy", "0.98"), ("mean_of bleu a.json b.json", "27.55"),
    ("best_of bleu a.json b.json", "28.10"), ("reached mean not/cgru-seed*", "15.2"),
    ("reached best not/cgru-seed*", "20.5"), ("reached runs not/cgru-seed*", "2"),
    ("spread a.json accuracy", "80.00 ± 2.00"), ("change_of_deviation accuracy a.json b.json", "-50 %"),
    ("updates_of_epochs labels 3 32", "10"), ("updates_of_epochs labels 3 32 10", "1"),
    ("flags flags.txt", "--lenpen 0.6"),
])  # fmt: skip
def test_figures(figure, expected, results, lib, monkeypatch):
    monkeypatch.chdir(results)
    assert lib("figures").read(*figure.split()) == expected


@pytest.mark.parametrize("words, told", [(20, True), (21, False)])
def test_a_perplexity_above_that_of_even_guesses_is_told(words, told, results, lib, monkeypatch, capsys):
    monkeypatch.chdir(results)
    (results / "test.log").write_text(f"x | dictionary: {words} types\n{EVALUATED}")
    assert lib("figures").read("ppl", "test.log") == "20.1234"
    sentence = "small: test.log: perplexity 20.1234 is above that of even guesses, 20: the model has learned nothing.\n"
    assert capsys.readouterr().err == (sentence if told else "")


def test_a_figure_that_is_not_there(results):
    assert printed("figures", "updates", "none.log", "--plus", 5, "--else", 15, cwd=results) == "15"
    assert printed("figures", "updates", "train.log", "--plus", 5, "--else", 15, cwd=results) == "27"
    done = call("figures", "updates", "none.log", cwd=results)
    assert done.returncode == 2 and "small: error: none.log cannot be read" in done.stderr
    assert "speed is no figure: there are " in call("figures", "speed", "x").stderr


def test_a_row_takes_figures_and_words(results):
    row = ("row", "t.jsonl", "@json a.json 1 head", "BLEU=@json a.json bleu", "ppl=@?ppl none.log", "paper=29.5")
    assert printed(*row, cwd=results) == ""
    printed("row", "t.jsonl", "none", "x=1", "--if", "@?reached runs copy/*", cwd=results)
    printed("row", "t.jsonl", "some", "x=1", "--if", "@?reached runs not/*", cwd=results)
    rows = [json.loads(line) for line in (results / "t.jsonl").read_text().splitlines()]
    assert rows == [{"cell": "layer 0, head 3", "BLEU": 28.1, "ppl": "-", "paper": 29.5}, {"cell": "some", "x": 1}]
    done = call("row", "t.jsonl", "x", "BLEU=@json none.json bleu", cwd=results)
    assert done.returncode == 2 and "none.json cannot be read" in done.stderr


def test_what_recipes_share_is_short():
    assert len(Path(__file__).parents[2].joinpath("recipes/lib.sh").read_text().splitlines()) < 250
