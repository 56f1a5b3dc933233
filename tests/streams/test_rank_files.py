"""The files beside a checkpoint."""

import hashlib
import io
import random
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fairseq_plugins.errors import UserError
from fairseq_plugins.files import sealed
from fairseq_plugins.random_states import random_state, restore_random_state
from fairseq_plugins.streams import rank_files as files


class Files(files.RankFiles):
    what, anew, way_out = "memory", "start anew", "resume otherwise"

    def state(self):
        return {"memory": torch.ones(3)}


def rank(updates, rank=0, world_size=1, identity=""):
    """A trainer after so many updates."""
    return SimpleNamespace(
        get_num_updates=lambda: updates, checkpoint_identity=f"one {updates}" if identity == "" else identity,
        data_parallel_rank=rank, data_parallel_world_size=world_size,
    )  # fmt: skip


def write(folder: Path, name: str, trainer) -> Path:
    """A checkpoint (of no content) and its file."""
    (checkpoint := folder / name).touch()
    Files().before_checkpoints(folder, trainer)
    Files().after_checkpoints([checkpoint], trainer)
    return checkpoint


@pytest.fixture
def last(tmp_path) -> Path:
    """checkpoint_last.pt of update 10."""
    return write(tmp_path, "checkpoint_last.pt", rank(10))


def test_each_checkpoint_keeps_its_own(tmp_path):
    for updates, name in ((10, "checkpoint_1_10.pt"), (20, "checkpoint_last.pt")):
        write(tmp_path, name, rank(updates))
    for updates, name in ((10, "checkpoint_1_10.pt"), (20, "checkpoint_last.pt")):
        found = Files().find(tmp_path / name, rank(updates))
        assert found["updates"] == updates and torch.equal(found["memory"], torch.ones(3))


def test_killed_between_the_checkpoint_and_its_file_and_again_while_the_next_is_written(last):
    """The checkpoint is of update 20, the file beside it of 10, the newest file of 20. Once found, it has the
    checkpoint's name, and the newest file may be of update 30."""
    for newest in (20, 30):
        Files().before_checkpoints(last.parent, rank(newest))
        assert Files().find(last, rank(20))["updates"] == 20


def test_a_folder_that_cannot_be_written_is_read(last, monkeypatch):
    Files().before_checkpoints(last.parent, rank(20))

    def refuse(*paths):
        raise PermissionError

    monkeypatch.setattr(files, "share", refuse)
    assert Files().find(last, rank(20))["updates"] == 20


def test_a_damaged_file_is_no_loss_while_the_newest_is_the_same(last):
    file = files.file_beside(last, 0, 1)
    file.unlink()  # else the newest would be damaged, too
    file.write_bytes(b"damaged")
    assert Files().find(last, rank(10))["updates"] == 10
    assert files.load(file, "")["updates"] == 10


def test_the_file_of_another_update_or_training_is_not_taken(last):
    assert Files().find(last, rank(0, identity="one 10"))["updates"] == 10, "after --reset-optimizer"
    for other in (rank(11), rank(10, identity="two 10"), rank(10, identity=None)):  # the last of an earlier version
        assert Files().find(last, other) is None
        assert "belongs to another checkpoint" in str(Files().missing(last, other))
        assert "or resume otherwise" in str(Files().missing(last, other))


def test_files_of_earlier_versions_are_read(tmp_path):
    """They have their checksum in the first line, and no identity; neither has their checkpoint."""
    last, stream = tmp_path / "checkpoint_last.pt", io.BytesIO()
    torch.save({"updates": 10, "memory": torch.ones(3)}, stream)
    content = stream.getvalue()
    checksum = hashlib.sha256(content).hexdigest().encode()
    files.file_beside(last, 0, 1).write_bytes(checksum + b"\n" + content)
    assert torch.equal(Files().find(last, rank(10, identity=None))["memory"], torch.ones(3))
    files.file_beside(last, 0, 1).write_bytes(checksum + b"\n" + content[:-1])
    with pytest.raises(UserError, match="memory-0-of-1 is damaged"):
        Files().find(last, rank(10, identity=None))


@pytest.mark.parametrize("content", [None, [1, 2], "text", {"identity": "one"}, torch.ones(3), {"x": Decimal(1)}])
def test_content_that_no_training_saves_is_refused(tmp_path, content):
    last = tmp_path / "checkpoint_last.pt"
    sealed.save(content, files.file_beside(last, 0, 1))
    with pytest.raises(UserError, match="memory-0-of-1 does not fit this model, or was not saved by this suite"):
        Files().find(last, rank(10))


def test_another_world_size_is_named(tmp_path):
    last = write(tmp_path, "checkpoint_last.pt", rank(10, world_size=2))
    assert Files().find(last, rank(10)) is None
    assert "saved by 2 process" in str(Files().missing(last, rank(10)))


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: content[:90] + b"x" + content[91:]])
def test_a_damaged_file_is_refused(last, damage):
    file = files.file_beside(last, 0, 1)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(UserError, match="checkpoint_last.pt.memory-0-of-1 is damaged.* and resume otherwise"):
        Files().find(last, rank(10))


def test_files_without_checkpoint_are_removed(tmp_path):
    write(tmp_path, "checkpoint_1_10.pt", rank(10))
    write(tmp_path, "checkpoint_last.pt", rank(20, 1, 2))
    write(tmp_path, "checkpoint_best.pt", rank(15, 0, 2))
    (tmp_path / "checkpoint_1_10.pt").unlink()
    (tmp_path / "checkpoint_9.pt.memory-1-of-1.77.partial").touch()  # as long as another rank writes
    write(tmp_path, "checkpoint_last.pt", rank(20))
    assert {file.name for file in tmp_path.glob("*memory*")} == {
        "checkpoint_last.pt.memory-0-of-1", "checkpoint_best.pt.memory-0-of-2", "newest.memory-0-of-1",
        "checkpoint_9.pt.memory-1-of-1.77.partial",
    }  # fmt: skip


def test_random_generators_go_on_where_they_were():
    states = random_state()
    drawn = torch.rand(2).tolist(), np.random.rand(), random.random()
    restore_random_state(states)
    assert (torch.rand(2).tolist(), np.random.rand(), random.random()) == drawn
