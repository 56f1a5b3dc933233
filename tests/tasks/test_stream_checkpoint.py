"""The files beside a checkpoint."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from fairseq_plugins.errors import UserError
from fairseq_plugins.tasks import stream_checkpoint as files


def write(folder: Path, name: str, updates: int, worker=0, workers=1) -> Path:
    """A checkpoint (of no content) and its file."""
    checkpoint = folder / name
    checkpoint.touch()
    newest = files.newest_file(folder, worker, workers)
    files.save(newest, {"updates": updates, "memory": torch.ones(3)})
    files.share(newest, [files.file_beside(checkpoint, worker, workers)])
    return checkpoint


def test_each_checkpoint_keeps_its_own(tmp_path):
    first = write(tmp_path, "checkpoint_1_10.pt", updates=10)
    last = write(tmp_path, "checkpoint_last.pt", updates=20)
    assert files.find(first, 0, 1, updates=10)["updates"] == 10
    assert torch.equal(files.find(last, 0, 1, updates=20)["memory"], torch.ones(3))


def test_killed_between_the_checkpoint_and_its_file(tmp_path):
    """The checkpoint is of update 20, the file beside it of 10, the newest file of 20."""
    last = write(tmp_path, "checkpoint_last.pt", updates=10)
    files.save(files.newest_file(tmp_path, 0, 1), {"updates": 20})
    assert files.find(last, 0, 1, updates=20)["updates"] == 20


def test_killed_again_while_the_next_checkpoint_is_written(tmp_path):
    """By then the newest file is of update 30, but what was found has got the checkpoint's name."""
    last = write(tmp_path, "checkpoint_last.pt", updates=10)
    files.save(files.newest_file(tmp_path, 0, 1), {"updates": 20})
    files.find(last, 0, 1, updates=20)
    files.save(files.newest_file(tmp_path, 0, 1), {"updates": 30})
    assert files.find(last, 0, 1, updates=20)["updates"] == 20


def test_a_folder_that_cannot_be_written_is_read(tmp_path, monkeypatch):
    last = write(tmp_path, "checkpoint_last.pt", updates=10)
    files.save(files.newest_file(tmp_path, 0, 1), {"updates": 20})

    def refuse(*paths):
        raise PermissionError

    monkeypatch.setattr(files, "share", refuse)
    assert files.find(last, 0, 1, updates=20)["updates"] == 20


def test_a_damaged_file_is_no_loss_while_the_newest_is_the_same(tmp_path):
    last = write(tmp_path, "checkpoint_last.pt", updates=10)
    file = files.file_beside(last, 0, 1)
    file.unlink()
    file.write_bytes(b"damaged")
    assert files.find(last, 0, 1, updates=10)["updates"] == 10
    assert files.load(file)["updates"] == 10


def test_the_file_of_another_update_is_not_taken(tmp_path):
    last = write(tmp_path, "checkpoint_last.pt", updates=10)
    assert files.find(last, 0, 1, updates=11) is None
    assert "--memory-in-checkpoint replay" in files.why_missing(last, workers=1)


def test_another_number_of_workers_is_named(tmp_path):
    last = write(tmp_path, "checkpoint_last.pt", updates=10, workers=2)
    assert files.find(last, 0, 1, updates=10) is None
    assert "saved by 2 worker" in files.why_missing(last, workers=1)


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: content[:90] + b"x" + content[91:]])
def test_a_damaged_file_is_refused(tmp_path, damage):
    last = write(tmp_path, "checkpoint_last.pt", updates=10)
    file = files.file_beside(last, 0, 1)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(UserError, match=r"checkpoint_last.pt.memory-0-of-1 is damaged.*--memory-in-checkpoint replay"):
        files.find(last, 0, 1, updates=10)


def test_files_without_checkpoint_are_removed(tmp_path):
    gone = write(tmp_path, "checkpoint_1_10.pt", updates=10)
    last = write(tmp_path, "checkpoint_last.pt", updates=20, worker=1, workers=2)
    last = write(tmp_path, "checkpoint_last.pt", updates=20)
    kept = write(tmp_path, "checkpoint_best.pt", updates=15, workers=2)
    gone.unlink()
    (tmp_path / "checkpoint_9.pt.memory-1-of-1.77.partial").touch()  # as long as another worker writes
    files.remove_orphans([last], workers=1)
    assert {file.name for file in tmp_path.glob("*memory*")} == {
        "checkpoint_last.pt.memory-0-of-1", "checkpoint_best.pt.memory-0-of-2", "newest.memory-0-of-1",
        "checkpoint_9.pt.memory-1-of-1.77.partial",
    }  # fmt: skip
    assert kept.exists()


def test_random_generators_go_on_where_they_were():
    states = files.random_state()
    drawn = torch.rand(2).tolist(), np.random.rand(), random.random()
    files.restore_random_state(states)
    assert (torch.rand(2).tolist(), np.random.rand(), random.random()) == drawn
