"""The patches of compat/checkpoints.py."""

import errno
import os
import pickle
import re
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, file_io
from fairseq.data import Dictionary
from fairseq.dataclass.configs import CheckpointConfig
from fakes import Epochs, Trainer, fairseqs, write_checkpoint

from fairseq_plugins.compat import checkpoints
from fairseq_plugins.errors import UserError
from fairseq_plugins.files import sealed


class RunsCode:
    """Unpickling it creates a file."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def test_a_checkpoint_cannot_run_code(tmp_path):
    path = write_checkpoint(tmp_path / "evil.pt", extra=RunsCode(tmp_path / "ran"))
    with pytest.raises(UserError, match=r"evil.pt holds a \w+\.mkdir"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert not (tmp_path / "ran").exists()
    torch.load(path, weights_only=False)
    assert (tmp_path / "ran").exists()


def test_safe_loading_does_not_depend_on_torchs_default(tmp_path, monkeypatch):
    """Even where torch's own default is to trust every file."""
    path = write_checkpoint(tmp_path / "evil.pt", extra=RunsCode(tmp_path / "ran"))
    trusting = lambda *args, weights_only=False, **kwargs: weights_only  # noqa: E731
    monkeypatch.setattr(torch, "load", trusting)
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint_to_cpu", None)
    checkpoints.load_safely()
    assert torch.load(path) is True
    assert torch.load(path, weights_only=False) is False


@pytest.mark.parametrize("held", [Path("x"), SimpleNamespace(a=1), np.array(["text"]), Dictionary()])
def test_a_foreign_type_is_named(tmp_path, held):
    path = write_checkpoint(tmp_path / "foreign.pt", extra=held)
    with pytest.raises(UserError, match=f"{path} holds a .*(Path|SimpleNamespace|StrDType|Dictionary)"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


@pytest.mark.parametrize("core", ["core", "_core"])
def test_what_fairseq_stores_is_loaded(tmp_path, core):
    """numpy 1 and 2 write different names of the functions that make arrays and numbers."""
    whole = write_checkpoint(
        tmp_path / "whole.pt", meters={"counts": np.arange(4), "sum": np.float32(1.5), "flag": np.bool_(True)}
    )
    path = tmp_path / "named.pt"
    with zipfile.ZipFile(whole) as saved, zipfile.ZipFile(path, "w") as named:
        for entry in saved.infolist():
            content = saved.read(entry)
            if entry.filename.endswith("data.pkl"):
                content = re.sub(rb"numpy\._?core\.", f"numpy.{core}.".encode(), content)
                assert content.count(f"numpy.{core}.multiarray".encode()) == 2
            named.writestr(entry, content)
    loaded = torch.load(path)["meters"]
    assert loaded["counts"].tolist() == [0, 1, 2, 3] and loaded["sum"] == 1.5 and loaded["flag"]
    torch.serialization.clear_safe_globals()
    try:
        with pytest.raises(pickle.UnpicklingError, match="Namespace"):
            torch.load(path)
    finally:
        torch.serialization.add_safe_globals(checkpoints.checkpoint_types())


def test_the_switch_that_allows_code_is_named(tmp_path, run):
    path = write_checkpoint(tmp_path / "evil.pt", extra=RunsCode(tmp_path / "ran"))
    load = f"import fairseq_plugins, fairseq, torch; torch.load({str(path)!r})"
    done = run("python", "-c", load, env={checkpoints.UNSAFE_SWITCH: "1"})
    assert checkpoints.UNSAFE_SWITCH in done.stderr
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("size", [0, 4, 100, 1000, None])
def test_a_truncated_checkpoint_or_a_text_is_refused(tmp_path, size):
    path = write_checkpoint(tmp_path / "cut.pt")
    if size is None:
        path.write_text("no checkpoint at all\n" * 100)
    else:
        assert path.stat().st_size > size
        os.truncate(path, size)
    with pytest.raises(UserError, match=f"{path} is damaged, truncated or no"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


@pytest.mark.parametrize("opened", [False, True], ids=["path", "open file"])
def test_a_damaged_checkpoint_is_refused(tmp_path, opened):
    """Of whomever: torch's archives hold a checksum of each part, at which torch itself does not look."""
    path = write_checkpoint(tmp_path / "flipped.pt")
    content = path.read_bytes()
    path.write_bytes(content.replace(torch.ones(2).numpy().tobytes(), torch.tensor([1.0, 2.0]).numpy().tobytes()))
    fairseqs_own = checkpoint_utils.load_checkpoint_to_cpu.__wrapped__
    for load in (torch.load, fairseqs_own, checkpoint_utils.load_checkpoint_to_cpu):
        with pytest.raises(UserError, match=f"{path} is damaged, truncated or no"):
            load(open(path, "rb") if opened and load is torch.load else str(path))  # noqa: SIM115
    assert fairseqs(torch.load)(path)["model"]["weight"].tolist() == [1.0, 2.0]


def going_on(folder, restore_file="checkpoint_last.pt", continue_once=None):
    """Whether fairseq is asked to load what these flags of fairseq-train name; UserError where that is refused."""
    cfg = SimpleNamespace(save_dir=str(folder), restore_file=restore_file, continue_once=continue_once)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint_utils, "load_checkpoint", lambda cfg, trainer: True)
        checkpoints.never_restart_from_zero()
        return checkpoint_utils.load_checkpoint(cfg, SimpleNamespace(checkpoint_suffix=""))


def test_a_checkpoint_behind_a_url_is_restored(tmp_path, monkeypatch):
    url = "https://models.example/big.pt"
    with pytest.raises(UserError, match=f"--restore-file {url} does not exist"):
        going_on(tmp_path, restore_file=url)
    monkeypatch.setattr(file_io.PathManager, "isfile", lambda path: path == url)
    assert going_on(tmp_path, restore_file=url)


def test_continue_once(tmp_path):
    """It names what to go on from, so a folder without checkpoint_last.pt is no loss; a missing file is."""
    earlier = write_checkpoint(tmp_path / "checkpoint1.pt")
    with pytest.raises(UserError, match="no checkpoint_last.pt"):
        going_on(tmp_path)
    with pytest.raises(UserError, match="--continue-once none.pt does not exist"):
        going_on(tmp_path, continue_once="none.pt")
    assert going_on(tmp_path, continue_once=str(earlier))
    write_checkpoint(tmp_path / "checkpoint_last.pt")
    assert going_on(tmp_path, continue_once="none.pt"), "it is for the first launch only"


def fails(times: int, number=errno.EIO):
    """A stand-in for ``torch.save`` that writes half a file and fails so many times."""
    failures = [OSError(number, os.strerror(number))] * times
    save = torch.save

    def fail(state, file):
        if failures:
            file.write(b"half of a file")
            raise failures.pop()
        save(state, file)

    return fail


@pytest.fixture
def no_pause(monkeypatch):
    monkeypatch.setattr(sealed, "PAUSE", 0)


def test_one_error_while_saving_is_made_good(tmp_path, monkeypatch, no_pause):
    """fairseq writes the checkpoint behind the half that it had written before, and nobody can read it."""
    state = {"weight": torch.ones(3)}
    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", fails(1))
        patch.setattr(sealed, "PAUSE", 0)
        checkpoint_utils.torch_persistent_save(state, str(tmp_path / "ours"))
    assert torch.load(tmp_path / "ours")["weight"].tolist() == [1, 1, 1]
    monkeypatch.setattr(torch, "save", fails(1))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    checkpoint_utils.torch_persistent_save.__wrapped__(state, str(tmp_path / "fairseqs"))
    monkeypatch.undo()
    with pytest.raises(Exception):  # noqa: B017  (torch has many kinds)
        torch.load(tmp_path / "fairseqs")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fairseqs", "ours"]


def test_a_copy_that_fails_replaces_nothing(tmp_path, monkeypatch, no_pause):
    new, last = tmp_path / "checkpoint2.pt", tmp_path / "checkpoint_last.pt"
    sealed.save({"new": torch.ones(3)}, new)
    last.write_bytes(b"old")

    def fail(source, target):
        Path(target).write_bytes(Path(source).read_bytes()[:500])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with (
        monkeypatch.context() as patch,
        pytest.raises(UserError, match="checkpoint_last.pt could not be written.*No sp"),
    ):
        patch.setattr("shutil.copyfile", fail)
        file_io.PathManager.copy(str(new), str(last), overwrite=True)
    assert last.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 2
    file_io.PathManager.copy(str(new), str(last), overwrite=True)
    assert last.read_bytes() == new.read_bytes()


@pytest.fixture
def trainer(tmp_path):
    """What saving needs of a trainer; its task writes down what it is told."""
    told = []
    task = SimpleNamespace(
        before_checkpoints=lambda folder, trainer: told.append(sorted(path.name for path in folder.glob("*"))),
        after_checkpoints=lambda paths, trainer: told.append(sorted(path.name for path in paths)),
    )
    return Trainer(task=task, told=told, updates=6)


def test_a_task_is_told_which_checkpoints_were_written(trainer, tmp_path):
    """Before and after; those that were left as they were are not among them."""
    (tmp_path / "checkpoint1.pt").write_text("old")
    (tmp_path / "checkpoint_last.pt").write_text("old")
    cfg = CheckpointConfig(save_dir=str(tmp_path), save_interval_updates=3)
    epoch_itr = Epochs(6)
    checkpoint_utils.save_checkpoint(cfg, trainer, epoch_itr, None)
    assert trainer.told == [["checkpoint1.pt", "checkpoint_last.pt"], ["checkpoint_2_6.pt", "checkpoint_last.pt"]]


def test_a_save_that_stays_impossible_deletes_nothing_and_names_what_is_good(trainer, tmp_path, monkeypatch, no_pause):
    """With --keep-interval-updates 1, where fairseq would now delete the checkpoint before."""
    cfg = CheckpointConfig(save_dir=str(tmp_path), save_interval_updates=3, keep_interval_updates=1)
    epoch_itr = Epochs(6)
    checkpoint_utils.save_checkpoint(cfg, trainer, epoch_itr, None)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    trainer.updates = 9
    monkeypatch.setattr(torch, "save", fails(3, errno.ENOSPC))
    with pytest.raises(UserError) as refused:
        checkpoint_utils.save_checkpoint(cfg, trainer, epoch_itr, None)
    assert re.search(r"checkpoint_2_9.pt could not be written \(No space left on device\)", str(refused.value))
    assert f"the last good checkpoint is {tmp_path / 'checkpoint_last.pt'}" in str(refused.value)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_checkpoints_written_together_share_an_identity(trainer, tmp_path):
    trainer.save_checkpoint = lambda path, state: identities.append(trainer.checkpoint_identity)
    identities, epoch_itr = [], Epochs(6)
    for _ in range(2):
        checkpoint_utils.save_checkpoint(CheckpointConfig(save_dir=str(tmp_path)), trainer, epoch_itr, None)
    assert len(set(identities)) == 2
