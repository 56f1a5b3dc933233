"""benchmarks/gpu.py: done cells are skipped, one that fails or hangs harms no other; and cells of all kinds, small."""

import json
import os
import shlex
import signal
import time
import warnings
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import Process

import cells
import gpu
import pytest
import torch
from gpu_cells import CELLS, commands, random_walk, runner, speed, synchronisations, training
from gpu_cells.cell import MINUTE, Cell, Setting

from fairseq_plugins.errors import UserError

SMOKE = ["--device", "cpu", "--smoke"]
ONE_OF_EACH = [
    *("correctness-*", "training-feedback_*", "synchronisations-*", "profile-*"),
    *("speed-wikitext103-batch16", "speed-translation-6+2", "decoding-wikitext103-batch1"),
    *("decoding-translation-6+2-batch32", "speed-all-attention-batch16"),
    *("random-walk-*-[12]", "random-walk-*-accuracy"),
]
LOGGED = [(1, 3.5, 1), (2, 2.5, 2), (2, 2.5, 2)]  # epoch, loss, update


@dataclass
class Counted(Cell):
    """Measures how often it was measured before; does something first."""

    before: object = field(default=lambda: None)

    def measure(self, setting):
        with open(setting.folder / "calls", "a") as file:
            file.write(".")
        self.before()
        return {"calls": os.path.getsize(setting.folder / "calls")}


@dataclass
class Hangs(Cell):
    limit: float

    def measure(self, setting):
        (setting.folder / "partial").write_text(str(os.getpid()))
        (setting.folder / "partial").rename(setting.folder / "pid")
        time.sleep(600)


@pytest.fixture
def run_cells(tmp_path):
    """Run cells: run_cells(name=cell...) -> the rows."""

    def run(seconds=float("inf"), **cells):
        rows = tmp_path / "rows.jsonl"
        runner.run_cells(cells, Setting("cpu", True, tmp_path), rows, {"device": "none"}, seconds)
        return {row["cell"]: row for row in map(json.loads, rows.read_text().splitlines())} if rows.exists() else {}

    return run


def test_a_cell_writes_its_row_and_is_skipped_from_then_on(run_cells, capsys):
    row = run_cells(one=Counted())["one"]
    assert (row["state"], row["calls"], row["device"]) == ("done", 1, "none") and row["seconds"] >= 0
    assert "one: begun, at most 540 s" in (told := capsys.readouterr().out)
    assert "one: state done, calls 1" in told and len(told.splitlines()) == 2
    assert run_cells(one=Counted())["one"] == row
    assert "one: there already" in capsys.readouterr().out


def rows(folder):
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def raise_error():
    raise ValueError("the sum is wrong\nby much")


def leave():
    raise SystemExit(3)


@pytest.mark.parametrize(
    "before, told",
    [
        (raise_error, "failed: ValueError: the sum is wrong"),
        (leave, "failed: SystemExit: 3"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "failed: its process ended with status -9; see bad.txt"),
    ],
)
def test_a_cell_that_fails_says_how_and_the_next_call_tries_it_again(run_cells, before, told):
    rows = run_cells(bad=Counted(before), good=Counted())
    assert rows["bad"]["state"] == told
    assert rows["good"]["state"] == "done"
    assert run_cells(bad=Counted())["bad"] == {
        **rows["good"],
        "cell": "bad",
        "calls": 3,
        "seconds": pytest.approx(0, abs=60),
    }


def test_a_cell_that_hangs_is_stopped_at_its_limit(run_cells, tmp_path):
    rows = run_cells(hangs=Hangs(1), good=Counted())
    assert rows["hangs"]["state"] == "failed: stopped after its limit of 1 s"
    assert rows["good"]["state"] == "done"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


KEPT = []  # memory that a job leaves in its process, where the next one would find it


def allocating(mib):
    KEPT or KEPT.append(torch.ones(mib * 2**18))
    return KEPT[0].numel  # a job


@pytest.mark.parametrize("order", [("large", "small"), ("small", "large")])
def test_the_memory_of_a_job_is_the_same_after_any_other(order, tmp_path):
    sizes = {"large": 200, "small": 50}
    row = speed.memory(Setting("cpu", True, tmp_path), {name: partial(allocating, sizes[name]) for name in order})
    beside = row["small, MiB"] - sizes["small"]  # torch's own code, of which a first job loads a part
    assert beside == pytest.approx(8, abs=16)
    assert row == {f"{name}, MiB": pytest.approx(beside + sizes[name], abs=8) for name in order}


def test_a_cell_ends_with_the_benchmark(run_cells, tmp_path):
    def benchmark():
        cells.end_with_cells()
        run_cells(hangs=Hangs(600))

    process = Process(target=benchmark)
    process.start()
    while not (tmp_path / "pid").exists():
        time.sleep(0.05)
    process.terminate()
    process.join(60)
    assert process.exitcode == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_what_a_cell_prints_is_in_its_log(run_cells, tmp_path):
    run_cells(loud=Counted(lambda: os.system("echo said")))
    assert (tmp_path / "loud.txt").read_text() == "said\n"


def test_no_cell_begins_that_may_end_too_late(run_cells, capsys):
    assert run_cells(seconds=100, long=Counted()) == {}
    assert "left for another call" in capsys.readouterr().out


def test_no_cell_takes_more_than_nine_minutes():
    assert CELLS and all(0 < cell.limit <= 9 * MINUTE for cell in CELLS.values())


def test_cells_are_chosen_by_their_names():
    assert list(gpu.chosen(["speed-translation-*"])) == ["speed-translation-6+2", "speed-translation-6+6"]
    with pytest.raises(UserError, match="--cells fast is the name of no cell; see --list"):
        gpu.chosen(["fast"])


def test_where_a_gpu_waits_is_told_by_the_line_of_ours(monkeypatch):
    modes = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    monkeypatch.setattr(synchronisations, "OURS", synchronisations.re.compile(r".*/(tests/benchmarks/.+)"))
    with synchronisations.noticed_by_the_gpu() as places:
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        warnings.warn("something else", stacklevel=1)
    line = test_where_a_gpu_waits_is_told_by_the_line_of_ours.__code__.co_firstlineno + 5
    assert places == [f"tests/benchmarks/test_gpu_cells.py:{line}"] and modes == ["warn", "default"]


def test_operations_tell_where_a_gpu_would_wait():
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    optimizer = torch.optim.Adam([weight])
    with synchronisations.told_by_operations() as places:
        optimizer.step()
        weight.sum().item()
    assert synchronisations.told(synchronisations.Counter(places)) == "1; 1 at the benchmark"


@pytest.mark.slow
@pytest.mark.parametrize("model", random_walk.MODELS)
def test_random_walk_is_trained_as_by_the_recipe(recipe, model):
    call = ("table1_toy_tasks.sh", "--dry-run", "--gpus", "1", "--precision", "fp16")
    done = recipe(*call, env={"TASKS": "random-walk", "MODELS": model})
    (command,) = (line for line in done.stdout.splitlines() if line.startswith("fairseq-train"))

    def options(words):
        return {f"{word} {after}" if not after.startswith("--") else word for word, after in zip(words, words[1:])}

    ours = [*random_walk.PAPER, "--arch", random_walk.MODELS[model], "--fp16", "--"]
    assert options(ours) <= options(shlex.split(command))


@pytest.mark.slow
def test_processes_may_be_no_forks(run, tmp_path):
    cell = "speed-all-attention-batch16"  # it starts processes of its own
    options = ["--start", "spawn", "--engines", "fast", "--out", tmp_path]
    run("python", "benchmarks/gpu.py", *SMOKE, *options, "--cells", cell)
    assert [row["cell"] for row in rows(tmp_path)] == [cell]


@pytest.mark.slow
def test_cells_of_all_kinds_run_on_a_cpu(run, tmp_path):
    """With --smoke, cells of a kind differ in their names only, but for models and batches of 1."""
    chosen = gpu.chosen(ONE_OF_EACH)
    assert set(map(type, chosen.values())) == set(map(type, CELLS.values()))
    run("python", "benchmarks/gpu.py", *SMOKE, "--out", tmp_path, "--cells", *ONE_OF_EACH)
    assert [row["cell"] for row in rows(tmp_path)] == list(chosen)
    assert {row["state"] for row in rows(tmp_path)} == {"done"}
    again = run("python", "benchmarks/gpu.py", *SMOKE, "--out", tmp_path, "--cells", *ONE_OF_EACH).stdout
    assert again.count("there already") == len(chosen)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused(run, tmp_path):
    done = run("python", "benchmarks/gpu.py", "--device", "cuda", "--out", tmp_path, check=False)
    assert done.returncode == 1 and "--device cuda cannot be used (failed: " in done.stderr
    assert not (tmp_path / "rows.jsonl").exists()


def test_figures_of_a_training_are_those_of_each_update_once(tmp_path):
    log = tmp_path / "log"
    assert commands.figures(log) == []
    updates = [f'{{"epoch": {epoch}, "loss": "{loss}", "num_updates": "{n}"}}' for epoch, loss, n in LOGGED]
    log.write_text("\n".join(["{'_name': None}", *updates, '{"train_loss": "1", "train_num_updates": "2"}', "done"]))
    assert [(told["num_updates"], told["loss"]) for told in commands.figures(log)] == [("1", "3.5"), ("2", "2.5")]


def test_a_training_that_resumes_elsewhere_or_learns_nothing_is_wrong(tmp_path):
    cell, setting = training.Training("feedback_lm", "feedback_lm", "fp32", ()), Setting("cpu", False, tmp_path)
    assert cell.judged([4.0, 3.0, 2.0, 1.0], [2.0, 1.0], setting)["resumed, off by"] == 0
    for whole, resumed in (([4.0, 3.0, 2.0, 1.0], [2.0, 1.1]), ([4.0, 3.0, 2.0, 1.0], [1.0])):
        with pytest.raises(ValueError, match="resumed at another place or with other losses"):
            cell.judged(whole, resumed, setting)
    with pytest.raises(ValueError, match="the loss does not fall"):
        cell.judged([1.0, 2.0, 3.0, 4.0], [3.0, 4.0], setting)
