"""Several processes on a CPU, started by torchrun as on any cluster."""

from pathlib import Path

import pytest
from trainings import assert_same_weights, torchrun


def test_two_processes_are_one_with_twice_the_update_frequency(run, trained, tmp_path):
    """No flag but torchrun's own; resumed with the other implementation of data parallelism."""
    one, two = tmp_path / "one", tmp_path / "two"
    run(*trained.command, "--update-freq", 2, "--max-update", 8, "--save-dir", one)
    torchrun(run, trained.command, "--max-update", 4, "--save-dir", two)
    done = torchrun(run, trained.command, "--max-update", 8, "--save-dir", two, "--ddp-backend", "legacy_ddp")
    assert "Loaded checkpoint" in done.stdout + done.stderr
    assert_same_weights(one, two, rtol=1e-5, atol=1e-6)


def test_two_trainings_into_one_folder_are_refused(run, reverse_corpus, user_dir, tmp_path):
    """fairseq-hydra-train loads plugins too late to join its processes, but not too late to see the other one."""
    command = [
        "fairseq-hydra-train", f"hydra.run.dir={tmp_path}", f"common.user_dir={user_dir}", "common.cpu=true",
        "task=translation", f"task.data={reverse_corpus.bin}", "criterion=cross_entropy", "optimizer=adam",
        "optimization.lr=[0.005]", "lr_scheduler=fixed", "+model._name=transformer", "dataset.max_tokens=600",
        "optimization.max_update=200", f"checkpoint.save_dir={tmp_path}/save",
    ]  # fmt: skip
    done = torchrun(run, command, check=False)
    assert done.returncode
    assert f"another process is training into --save-dir {tmp_path}/save" in done.stderr
    assert not list((tmp_path / "save").glob("*.pt"))


AT_EXIT = """
import atexit, os
from fairseq_cli.train import cli_main

def threads():
    return sorted(open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task"))

atexit.register(lambda: print(f"alive: {threads()}", flush=True))
cli_main()
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are listed as Linux lists them")
@pytest.mark.parametrize("backend", ["pytorch_ddp", "legacy_ddp"])
def test_no_thread_outlives_the_training(backend, run, trained, tmp_path):
    """One of gloo's that still drops a tensor when Python shuts down ends the process with SIGABRT."""
    (tmp_path / "train.py").write_text(AT_EXIT)
    command = [tmp_path / "train.py", *trained.command[1:]]
    done = torchrun(run, command, "--max-update", 2, "--no-save", "--ddp-backend", backend)
    assert done.stdout.count("alive: ['python']") == 2, done.stdout[-2000:]
