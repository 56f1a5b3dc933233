"""The files beside a checkpoint."""

import hashlib
import io
import random
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import torch

from fairseq_plugins.errors import UserError
from fairseq_plugins.files import sealed
from fairseq_plugins.streams import rank_files as files
from fairseq_plugins.streams.checkpoint import random_state, restore_random_state


def write(folder: Path, name: str, updates: int, rank=0, world_size=1, training="one") -> Path:
    """A checkpoint (of no content) and its file."""
    checkpoint = folder / name
    checkpoint.touch()
    newest = files.newest_file(folder, rank, world_size)
    sealed.save({"updates": updates, "identity": f"{training} {updates}", "memory": torch.ones(3)}, newest)
    files.share(newest, [files.file_beside(checkpoint, rank, world_size)])
    return checkpoint


def test_each_checkpoint_keeps_its_own(tmp_path):
    first = write(tmp_path, "checkpoint_1_10.pt", updates=10)
    last = write(tmp_path, "checkpoint_last.pt", updates=20)
    assert files.find(first, 0, 1, updates=10, identity="one 10")["updates"] == 10
    assert torch.equal(files.find(last, 0, 1, updates=20, identity="one 20")["memory"], torch.ones(3))


def test_killed_between_the_checkpoint_and_its_file_and_again_while_the_next_is_written(tmp_path):
    """The checkpoint is of update 20, the file beside it of 10, the newest file of 20. Once found, it has the
    checkpoint's name, and the newest file may be of update 30."""
    last = write(tmp_path, "checkpoint_last.pt", updates=10)
    for newest in (20, 30):
        sealed.save({"updates": newest, "identity": f"one {newest}"}, files.newest_file(tmp_path, 0, 1))
        assert files.find(last, 0, 1, updates=20, identity="one 20")["updates"] == 20


def test_a_folder_that_cannot_be_written_is_read(tmp_path, monkeypatch):
    last = write(tmp_path, "checkpoint_last.pt", updates=10)
    sealed.save({"updates": 20, "identity": "one 20"}, files.newest_file(tmp_path, 0, 1))

    def refuse(*paths):
        raise PermissionError

    monkeypatch.setattr(files, "share", refuse)
    assert files.find(last, 0, 1, updates=20, identity="one 20")["updates"] == 20


def test_a_damaged_file_is_no_loss_while_the_newest_is_the_same(tmp_path):
    last = write(tmp_path, "checkpoint_last.pt", updates=10)
    file = files.file_beside(last, 0, 1)
    file.unlink()
    file.write_bytes(b"damaged")
    assert files.find(last, 0, 1, updates=10, identity="one 10")["updates"] == 10
    assert files.load(file)["updates"] == 10


def test_the_file_of_another_update_or_training_is_not_taken(tmp_path):
    last = write(tmp_path, "checkpoint_last.pt", updates=10)
    assert files.find(last, 0, 1, updates=11, identity="one 11") is None
    assert "--memory-in-checkpoint replay" in files.why_missing(last, world_size=1)
    assert files.find(last, 0, 1, updates=0, identity="one 10")["updates"] == 10, "after --reset-optimizer"
    write(tmp_path, "checkpoint_last.pt", updates=10, training="another")
    assert files.find(last, 0, 1, updates=10, identity="one 10") is None
    assert "or belongs to another checkpoint" in files.why_missing(last, world_size=1)
    assert files.find(last, 0, 1, updates=10) is None, "a checkpoint without identity is of an earlier version"


def test_files_of_earlier_versions_are_read(tmp_path):
    """They have their checksum in the first line, and no identity; neither has their checkpoint."""
    last = tmp_path / "checkpoint_last.pt"
    stream = io.BytesIO()
    torch.save({"updates": 10, "memory": torch.ones(3)}, stream)
    content = stream.getvalue()
    checksum = hashlib.sha256(content).hexdigest().encode()
    files.file_beside(last, 0, 1).write_bytes(checksum + b"\n" + content)
    assert torch.equal(files.find(last, 0, 1, updates=10)["memory"], torch.ones(3))
    files.file_beside(last, 0, 1).write_bytes(checksum + b"\n" + content[:-1])
    with pytest.raises(UserError, match="memory-0-of-1 is damaged"):
        files.find(last, 0, 1, updates=10)


@pytest.mark.parametrize("content", [None, [1, 2], "text", {"identity": "one"}, torch.ones(3), {"x": Decimal(1)}])
def test_content_that_no_training_saves_is_refused(tmp_path, content):
    last = tmp_path / "checkpoint_last.pt"
    sealed.save(content, files.file_beside(last, 0, 1))
    with pytest.raises(UserError, match="memory-0-of-1 does not fit this model, or was not saved by this suite"):
        files.find(last, 0, 1, updates=10, identity="one 10")


def test_another_world_size_is_named(tmp_path):
    last = write(tmp_path, "checkpoint_last.pt", updates=10, world_size=2)
    assert files.find(last, 0, 1, updates=10, identity="one 10") is None
    assert "saved by 2 process" in files.why_missing(last, world_size=1)


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: content[:90] + b"x" + content[91:]])
def test_a_damaged_file_is_refused(tmp_path, damage):
    last = write(tmp_path, "checkpoint_last.pt", updates=10)
    file = files.file_beside(last, 0, 1)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(UserError, match=r"checkpoint_last.pt.memory-0-of-1 is damaged.*--memory-in-checkpoint replay"):
        files.find(last, 0, 1, updates=10, identity="one 10")


def test_files_without_checkpoint_are_removed(tmp_path):
    gone = write(tmp_path, "checkpoint_1_10.pt", updates=10)
    last = write(tmp_path, "checkpoint_last.pt", updates=20, rank=1, world_size=2)
    last = write(tmp_path, "checkpoint_last.pt", updates=20)
    kept = write(tmp_path, "checkpoint_best.pt", updates=15, world_size=2)
    gone.unlink()
    (tmp_path / "checkpoint_9.pt.memory-1-of-1.77.partial").touch()  # as long as another rank writes
    files.remove_orphans([last], world_size=1)
    assert {file.name for file in tmp_path.glob("*memory*")} == {
        "checkpoint_last.pt.memory-0-of-1", "checkpoint_best.pt.memory-0-of-2", "newest.memory-0-of-1",
        "checkpoint_9.pt.memory-1-of-1.77.partial",
    }  # fmt: skip
    assert kept.exists()


def test_random_generators_go_on_where_they_were():
    states = random_state()
    drawn = torch.rand(2).tolist(), np.random.rand(), random.random()
    restore_random_state(states)
    assert (torch.rand(2).tolist(), np.random.rand(), random.random()) == drawn
