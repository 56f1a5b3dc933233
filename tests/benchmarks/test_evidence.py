"""benchmarks/evidence.sh: cells that have rows are skipped, one that fails ends no queue, and wrong input is named."""

import fcntl
import json
import os
import shutil
import signal as signals
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FEEDBACK, TRANSFORMER = "copy-feedback", "copy-transformer"


@pytest.fixture
def queue(tmp_path):
    """A queue whose recipes write a row and say how they were called; queue(PATTERN..., **variables) runs it."""
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks", ignore=shutil.ignore_patterns("evidence", "gpu*"))
    (tmp_path / "fairseq_plugins").symlink_to(ROOT / "fairseq_plugins")
    recipe = tmp_path / "recipes/feedback/table1_toy_tasks.sh"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(
        "#!/bin/bash\n"
        "declare -A SETTINGS=([LEARNING_RATE]=0.01 [VALID_STREAMS]=32)\n"
        'echo "$LEARNING_RATE ${VALID_STREAMS:-none}" >>settings.log\n'
        '[[ "$MODELS" != "$FAILS" ]] || exit 3\n'
        '[[ ! -f "$4/trained" ]] || exit 0\n'  # as recipes do
        'touch "$4/trained"; echo "$4" >>trained.log\n'
        'echo \'{"cell": "copy", "mean": 1.0, "command": "recipes --raw /home/me/ptb"}\' >"$4/results.jsonl"\n'
    )
    recipe.chmod(0o755)

    def run(*patterns, folder=tmp_path, call=subprocess.run, **variables):
        venv = os.environ.get("VENV", str(ROOT / ".venv"))
        environment = {**os.environ, "VENV": venv, "FAILS": "", "TMPDIR": str(tmp_path), **variables}
        command = ["bash", tmp_path / "benchmarks/evidence.sh", *patterns]
        return call(command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return run


def rows(folder):
    file = folder / "benchmarks/evidence/rows.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_cell_leaves_its_row_and_is_skipped_from_then_on(queue, tmp_path):
    done = queue(FEEDBACK)
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path) == [{"cell": "copy-feedback: copy", "mean": 1.0, "command": "recipes --raw DIR/ptb"}]
    assert f"{FEEDBACK}: done" in queue("--list").stdout.splitlines()
    shutil.rmtree(tmp_path / "runs")  # as on another machine
    again = queue(FEEDBACK)
    assert again.returncode == 0 and "1 of 1 have their numbers in benchmarks/evidence/rows.jsonl" in again.stdout
    assert not (tmp_path / "runs/evidence/copy-feedback").exists()


def test_a_cell_with_rows_is_trained_again_for_a_table_of_its_own(queue, tmp_path):
    queue(FEEDBACK)
    before = (tmp_path / "benchmarks/evidence/rows.jsonl").read_bytes()
    (tmp_path / "mine").mkdir()
    done = queue(FEEDBACK, folder=tmp_path / "mine", ROWS="again.jsonl")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mine/again.jsonl").read_bytes() == before
    assert (tmp_path / "benchmarks/evidence/rows.jsonl").read_bytes() == before
    trained = (tmp_path / "trained.log").read_text().splitlines()
    assert trained == [f"runs/evidence/{FEEDBACK}", f"{tmp_path}/mine/again/{FEEDBACK}"]


def test_what_a_user_has_exported_for_another_recipe_changes_no_cell(queue, tmp_path):
    done = queue(FEEDBACK, LEARNING_RATE="0.5", VALID_STREAMS="200")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "evidence.sh: these variables are ignored, it sets its own: LEARNING_RATE VALID_STREAMS\n"
    assert (tmp_path / "settings.log").read_text() == "0.001 none\n"


def test_the_list_takes_patterns_and_counts(queue):
    queue(FEEDBACK)
    assert queue("--list", "copy-*r").stdout.splitlines() == [
        "copy-transformer",
        "copy-varied-transformer",
        "0 of 2 done",
    ]
    assert queue("--list", FEEDBACK, "copy-fe*").stdout.splitlines() == ["copy-feedback: done", "1 of 1 done"]


def test_a_damaged_table_is_named_before_anything_is_trained(queue, tmp_path):
    (tmp_path / "cut.jsonl").write_text('{"cell": "copy-feedback: copy", "mean"')
    done = queue(TRANSFORMER, ROWS="cut.jsonl")
    assert done.returncode == 2 and "cut.jsonl has no whole row in line 1" in done.stderr
    assert not (tmp_path / "trained.log").exists()


def test_a_cell_that_fails_is_named_and_the_next_one_begins(queue, tmp_path):
    done = queue(FEEDBACK, TRANSFORMER, FAILS="feedback")
    assert done.returncode == 1 and "error: 1 failed: copy-feedback" in done.stderr
    assert [row["cell"] for row in rows(tmp_path)] == ["copy-transformer: copy"]


def test_a_cell_without_a_row_is_named(queue, tmp_path):
    recipe = tmp_path / "recipes/feedback/table1_toy_tasks.sh"
    recipe.write_text("#!/bin/bash\n")
    done = queue(FEEDBACK, TRANSFORMER)
    assert done.returncode == 1 and "error: 2 failed: copy-feedback copy-transformer" in done.stderr


def test_folders_of_a_user_stay_out_of_the_table(queue, tmp_path):
    recipe = tmp_path / "recipes/feedback/table1_toy_tasks.sh"
    command = "recipes --raw /home/me/ptb --data /home/me/text --out /home/me/runs/copy"
    recipe.write_text(f"#!/bin/bash\necho '{json.dumps({'cell': 'copy', 'command': command})}' >\"$4/results.jsonl\"\n")
    assert queue(FEEDBACK).returncode == 0
    assert [row["command"] for row in rows(tmp_path)] == ["recipes --raw DIR/ptb --data DIR/text --out DIR/copy"]


@pytest.mark.parametrize(
    "content, sentence",
    [("", "has no rows"), ("{", "has no whole row in line 1"), ('{"cell": "a"}', "has no command in its row a")],
)
def test_a_cell_without_sound_rows_fails(queue, tmp_path, content, sentence):
    recipe = tmp_path / "recipes/feedback/table1_toy_tasks.sh"
    recipe.write_text(f"#!/bin/bash\nprintf '%s' '{content}' >\"$4/results.jsonl\"\n")
    done = queue(FEEDBACK)
    assert done.returncode == 1 and sentence in done.stderr and "Traceback" not in done.stderr
    assert rows(tmp_path) == []


@pytest.mark.parametrize("signal, status", [("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_queue_that_is_ended_ends_its_cell(queue, tmp_path, signal, status):
    recipe = tmp_path / "recipes/feedback/table1_toy_tasks.sh"
    recipe.write_text(f"#!/bin/bash\necho $$ >{tmp_path}/part && mv {tmp_path}/part {tmp_path}/pid && sleep 600\n")
    environment = {**os.environ, "VENV": str(ROOT / ".venv")}
    ignores_nothing = ["env", "--default-signal=HUP"]  # the tests may have been started with nohup
    command = [*ignores_nothing, "bash", tmp_path / "benchmarks/evidence.sh", FEEDBACK]
    with subprocess.Popen(command, env=environment) as process:
        while not (tmp_path / "pid").exists():
            time.sleep(0.05)
        process.send_signal(getattr(signals, signal))
    assert process.returncode == status
    recipe_is_there = True
    for _ in range(100):
        recipe_is_there = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/cmdline").exists()
        if not recipe_is_there:
            break
        time.sleep(0.05)
    assert not recipe_is_there


def test_a_cell_that_another_queue_is_at_is_passed_over(queue, tmp_path):
    lock = tmp_path / f"runs/evidence/{FEEDBACK}/lock"
    lock.parent.mkdir(parents=True)
    with open(lock, "w") as other:
        fcntl.lockf(other, fcntl.LOCK_EX)
        done = queue(FEEDBACK, TRANSFORMER)
    assert done.returncode == 0 and f"{FEEDBACK} is passed over: another queue is at it" in done.stdout
    assert [row["cell"] for row in rows(tmp_path)] == ["copy-transformer: copy"]


@pytest.mark.parametrize("held", ["next", "training"])
def test_a_cell_and_a_measurement_of_speed_wait_for_one_another(queue, tmp_path, held):
    locks = tmp_path / f"fairseq_plugins-{os.getuid()}"
    recipe = tmp_path / "recipes/feedback/table1_toy_tasks.sh"
    recipe.write_text(
        recipe.read_text()
        + f"flock -sn {locks}.training true || echo beside a measurement >>{tmp_path}/faults.log\n"
        + f"flock -xn {locks}.training echo a measurement may begin >>{tmp_path}/faults.log || true\n"
    )
    with open(f"{locks}.{held}", "w") as measurement:
        fcntl.flock(measurement, fcntl.LOCK_EX)
        waiting = queue(FEEDBACK, call=subprocess.Popen)
        assert waiting.stdout.readline() == f"evidence.sh: {FEEDBACK} waits until a measurement of speed has ended.\n"
    _, errors = waiting.communicate()
    assert waiting.returncode == 0, errors
    assert [row["cell"] for row in rows(tmp_path)] == ["copy-feedback: copy"]
    assert (tmp_path / "faults.log").read_text() == ""


def test_a_queue_that_waits_for_a_measurement_can_be_ended(queue, tmp_path):
    with open(tmp_path / f"fairseq_plugins-{os.getuid()}.training", "w") as measurement:
        fcntl.flock(measurement, fcntl.LOCK_EX)
        waiting = queue(FEEDBACK, call=subprocess.Popen)
        waiting.stdout.readline()
        waiting.terminate()
        assert waiting.wait() == 143
    waiting.communicate()


def test_two_queues_share_the_cells(queue, tmp_path):
    recipe = tmp_path / "recipes/feedback/table1_toy_tasks.sh"
    recipe.write_text(recipe.read_text().replace("echo ", "sleep 0.5; echo ", 1))
    names = ["copy-feedback", "copy-transformer", "copy-varied-feedback", "copy-varied-transformer"]
    with ThreadPoolExecutor() as pool:
        both = list(pool.map(lambda _: queue("copy-*"), range(2)))
    assert [done.returncode for done in both] == [0, 0], both
    assert sorted(row["cell"].partition(":")[0] for row in rows(tmp_path)) == names
    assert len((tmp_path / "settings.log").read_text().splitlines()) == 4  # no recipe is called twice
    assert all(", at most 45 minutes" in done.stdout for done in both)


def test_a_queue_sees_what_another_has_finished_since_it_began(queue, tmp_path):
    recipe = tmp_path / "recipes/feedback/table1_toy_tasks.sh"
    row = json.dumps({"cell": "copy-transformer: copy", "command": "recipes"})
    table = tmp_path / "benchmarks/evidence/rows.jsonl"
    recipe.write_text(recipe.read_text() + f"mkdir -p {table.parent}; echo '{row}' >>{table}\n")
    done = queue(FEEDBACK, TRANSFORMER)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "trained.log").read_text().split() == [f"runs/evidence/{FEEDBACK}"]


def test_a_cell_that_has_failed_is_left_to_other_queues(queue, tmp_path):
    recipe = tmp_path / "recipes/feedback/table1_toy_tasks.sh"
    lock = tmp_path / f"runs/evidence/{FEEDBACK}/lock"
    take = f"import fcntl; fcntl.lockf(open('{lock}', 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB); print('free')"
    recipe.write_text(recipe.read_text() + f'{sys.executable} -c "{take}" >{tmp_path}/lock.log\n')
    done = queue(FEEDBACK, TRANSFORMER, FAILS="feedback")
    assert done.returncode == 1 and "1 failed: copy-feedback" in done.stderr
    assert (tmp_path / "lock.log").read_text() == "free\n"


def test_a_cell_begun_on_a_cpu_does_not_go_on_in_half_precision(queue, tmp_path):
    queue(FEEDBACK, FAILS="feedback")
    done = queue(FEEDBACK, GPUS="1")
    assert done.returncode == 1
    assert f"{FEEDBACK} was begun with GPUS=0: give that again, or another OUT." in done.stderr
    assert queue(FEEDBACK).returncode == 0


def test_cells_train_on_a_gpu_where_asked(queue, tmp_path):
    recipe = tmp_path / "recipes/feedback/table1_toy_tasks.sh"
    recipe.write_text('#!/bin/bash\necho "$* ${GPUS:-none}" >>called.log\n' + recipe.read_text())
    queue(FEEDBACK)
    queue(TRANSFORMER, GPUS="1")
    told = (tmp_path / "called.log").read_text().splitlines()
    of_machine = [line.partition("--out ")[0].split() for line in told]
    assert of_machine == [["--gpus", "0"], ["--gpus", "1", "--precision", "fp16"]]
    assert all(line.endswith(" none") for line in told)  # recipes read it, too


@pytest.mark.parametrize(
    "patterns, variables, sentence",
    [
        (["nothing-*"], {}, "nothing-* is the name of no cell; --list shows them."),
        ([FEEDBACK], {"MINUTES": "0"}, "MINUTES: 0 is not a whole number of minutes, such as 45."),
        ([FEEDBACK], {"MINUTES": "2.5"}, "MINUTES: 2.5 is not a whole number"),
        ([FEEDBACK], {"RAW": "nowhere"}, "RAW: there is no such folder; leave it out to download."),
        ([FEEDBACK], {"GPUS": "2"}, "GPUS: 2 is neither 0 nor 1; a cell trains on one GPU at most."),
        (["--frobnicate"], {}, "there is no option --frobnicate here; --list comes first"),
        ([FEEDBACK, "--list"], {}, "there is no option --list here; --list comes first"),
        ([FEEDBACK], {"ROWS": "rows.txt"}, "ROWS: rows.txt is no name of a file that ends in .jsonl; give one"),
        (
            [FEEDBACK],
            {"ROWS": "/proc/none/a.jsonl"},
            "ROWS: there is no folder /proc/none where you may write; name another.",
        ),
        ([FEEDBACK], {"OUT": "my runs"}, "OUT: the folder's name must have letters, digits and ._/+- only."),
    ],
)
def test_wrong_input_is_named(queue, patterns, variables, sentence):
    done = queue(*patterns, **variables)
    assert done.returncode == 2 and sentence in done.stderr and len(done.stderr.splitlines()) == 1


def test_help_says_what_can_be_set(queue):
    told = queue("--help").stdout
    assert all(name in told for name in ("--list", "RAW", "OUT", "ROWS", "GPUS", "MINUTES")) and "set -e" not in told
