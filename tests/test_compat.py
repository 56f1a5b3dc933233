"""Each mend of fairseq_plugins.compat, against fairseq's own function, which shows the fault.

A mended function keeps fairseq's as ``__wrapped__``. What only shows in whole commands is in cli/.
"""

import argparse
import importlib
import math
import os
import pickle
import re
import signal
import types
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.distributed as dist
from fairseq import checkpoint_utils, file_io, options, search
from fairseq.data import Dictionary, data_utils, indexed_dataset
from fairseq.data.token_block_dataset import TokenBlockDataset
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.distributed import utils as distributed_utils
from fairseq.models import distributed_fairseq_model
from omegaconf import OmegaConf

from fairseq_plugins import compat
from fairseq_plugins.errors import UserError


@pytest.mark.parametrize("lines", [1, 5, 8, 13, 60])
def test_every_sentence_is_in_a_batch(lines):
    order = np.random.RandomState(lines).permutation(lines)
    batches = data_utils.batch_by_size(order, None, np.full(lines, 6), max_tokens=100, required_batch_size_multiple=8)
    assert np.concatenate(batches).tolist() == order.tolist()
    assert all(len(batch) * 6 <= 100 for batch in batches)


def test_fairseq_drops_the_last_batch():
    batches = data_utils.batch_by_size.__wrapped__(
        np.arange(60), None, np.full(60, 6), max_tokens=100, required_batch_size_multiple=8
    )
    assert sum(map(len, batches)) == 56


def test_no_sentences_make_no_batches():
    assert data_utils.batch_by_size([], None, np.zeros(0), max_tokens=100, required_batch_size_multiple=8) == []


def blocks_of_sentences():
    sentences = [torch.tensor([4, 5, 2]), torch.tensor([6, 2])]
    return TokenBlockDataset(sentences, [3, 2], block_size=None, pad=1, eos=2, break_mode="eos")


def test_a_task_may_have_no_data_folder(tmp_path):
    dataset = types.SimpleNamespace(
        ignore_unused_valid_subsets=False, combine_valid_subsets=False, disable_validation=False, valid_subset="valid"
    )
    look = data_utils.raise_if_valid_subsets_unintentionally_ignored
    cfg = types.SimpleNamespace(dataset=dataset, task=types.SimpleNamespace(data=""))
    look(cfg)
    with pytest.raises(FileNotFoundError):
        look.__wrapped__(cfg)
    cfg.task.data = str(tmp_path)
    (tmp_path / "valid1.bin").touch()
    with pytest.raises(ValueError, match="valid1"):
        look(cfg)


def test_numpy_compat(monkeypatch):
    assert [len(block) for block in blocks_of_sentences()] == [3, 2]
    monkeypatch.delattr(np, "compat")
    with pytest.raises(AttributeError, match="compat"):
        blocks_of_sentences()
    compat.restore_np_compat()
    assert [len(block) for block in blocks_of_sentences()] == [3, 2]


def test_batch_buckets(monkeypatch):
    assert data_utils.get_buckets(np.arange(1, 101), 4).tolist() == [25, 50, 75, 100]
    assert np.percentile([0, 10], 50) == 5
    if hasattr(np.percentile, "__wrapped__"):
        monkeypatch.setattr(np, "percentile", np.percentile.__wrapped__)
        with pytest.raises(TypeError, match="interpolation"):
            data_utils.get_buckets(np.arange(1, 101), 4)


TRAINING = "data --arch transformer_tiny --optimizer adam".split()


@pytest.mark.parametrize("flags, tpu", [(["--bf16"], False), (["--bf16", "--tpu"], True), ([], False)])
def test_bf16_is_not_tpu(flags, tpu):
    assert options.parse_args_and_arch(options.get_training_parser(), TRAINING + flags).tpu == tpu


def test_fairseq_takes_bf16_for_tpu():
    assert options.parse_args_and_arch.__wrapped__(options.get_training_parser(), [*TRAINING, "--bf16"]).tpu


STOPPED_WHILE_READING = """
import torch
from fairseq.data.iterators import BufferedIterator

class Batches:
    def __len__(self):
        return 1000

    def __iter__(self):
        while True:
            yield torch.ones(200, 200) @ torch.ones(200, 200)

next(BufferedIterator(1000, Batches()))
"""


@pytest.mark.parametrize("plugin, status", [("import fairseq_plugins", 0), ("", -signal.SIGABRT)])
def test_the_end_of_a_process_that_still_reads(plugin, status, run):
    assert run("python", "-c", plugin + STOPPED_WHILE_READING, check=False).returncode == status


# Processes; the real launches are in cli/test_distributed.py


def test_torchrun_on_cpu_makes_one_training(monkeypatch):
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    seen = launch_of("fairseq_cli.train")
    assert (seen.distributed_world_size, seen.distributed_rank, seen.distributed_backend) == (2, 1, "gloo")
    assert seen.distributed_no_spawn and seen.distributed_init_method == "env://"


def test_one_process_is_left_alone():
    assert launch_of("fairseq_cli.train").distributed_init_method is None


@pytest.mark.parametrize("command", ["eval_lm", "validate"])
def test_evaluation_in_several_processes_is_refused(command, monkeypatch):
    with pytest.raises(UserError, match="without torchrun"):
        launch_of(f"fairseq_cli.{command}", distributed_world_size=2)


def test_spawning_without_gpus_is_refused():
    with pytest.raises(UserError, match="torchrun --nproc_per_node 3"):
        launch_of("fairseq_cli.train", distributed_world_size=3)


def test_fp16_on_a_cpu_is_refused():
    with pytest.raises(UserError, match="--fp16 needs a GPU.*--bf16"):
        launch_of("fairseq_cli.train", common={"fp16": True})


@pytest.mark.parametrize(
    "command, common",
    [
        ("train", {"fp16": True, "memory_efficient_fp16": True}),
        ("train", {"fp16": True, "fp16_no_flatten_grads": True}),
        ("train", {"fp16": True, "cpu": False}),
        ("validate", {"fp16": True}),
    ],
)
def test_fp16_is_let_through_where_it_works(command, common, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert launch_of(f"fairseq_cli.{command}", common=common)


@pytest.mark.parametrize("overrides", ["mem_len=64", "[1]", "{mem_len: 64}", "{'mem_len': 64"])
def test_overrides_are_a_dictionary(overrides):
    command = ["data", "--path", "model.pt", "--model-overrides"]
    with pytest.raises(UserError, match="--model-overrides .* is no dictionary; write it as"):
        options.parse_args_and_arch(options.get_generation_parser(), [*command, overrides])
    options.parse_args_and_arch(options.get_generation_parser(), [*command, "{}"])


def test_overrides_name_options_of_the_checkpoint():
    cfg = OmegaConf.create(
        {"model": {"mem_len": 4}, "bpe": None, "lost": "???", "old": argparse.Namespace(depth=2)},
        flags={"allow_objects": True},
    )
    compat.check_options(cfg, ["mem_len", "bpe", "lost", "depth"])
    with pytest.raises(UserError, match="the checkpoint has no option memlen, width; write options as the flags"):
        compat.check_options(cfg, ["width", "memlen", "mem_len"])


def test_only_names_of_the_command_are_looked_for():
    overwrite, cfg = checkpoint_utils.overwrite_args_by_name, OmegaConf.create({"model": {"mem_len": 4}})
    overwrite(cfg, {"mem_len": 5, "asked_by_nobody": 1})
    assert cfg.model.mem_len == 5
    command = ["data", "--path", "model.pt", "--model-overrides", "{'memlen': 6}"]
    options.parse_args_and_arch(options.get_generation_parser(), command)
    with pytest.raises(UserError, match="no option memlen"):
        overwrite(cfg, {"memlen": 6})


def launch_of(module, common={}, **settings):
    """What fairseq's call_main would be asked to start."""
    join = dict(distributed_world_size=1, distributed_init_method=None, distributed_no_spawn=False, distributed_rank=0)
    join = types.SimpleNamespace(**{**join, "distributed_backend": "nccl", "device_id": 0, **settings})
    numbers = dict(fp16=False, memory_efficient_fp16=False, fp16_no_flatten_grads=False)
    common = types.SimpleNamespace(**{"cpu": True, "tpu": False, **numbers, **common})
    cfg = types.SimpleNamespace(distributed_training=join, common=common)
    main = importlib.import_module(module).main
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed_utils, "call_main", lambda cfg, main: None)
        compat.no_flat_fp16_on_cpu()
        compat.one_training_per_launch()
        distributed_utils.call_main(cfg, main)
    return join


@pytest.fixture
def one_process_group(tmp_path):
    """torch.distributed, of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.skipif(torch.cuda.is_available(), reason="the faults show without a GPU only")
def test_data_parallel_on_cpu(one_process_group):
    stated = dict(device_ids=[0], output_device=0, process_group=one_process_group)
    wrap, gather = distributed_fairseq_model.DistributedDataParallel, distributed_utils.all_gather_list
    assert wrap(torch.nn.Linear(2, 3), **stated)(torch.ones(1, 2)).shape == (1, 3)
    assert gather({"loss": 1.5}, one_process_group) == [{"loss": 1.5}]
    with pytest.raises(ValueError, match="device_ids"):
        wrap.__wrapped__(torch.nn.Linear(2, 3), **stated)
    with pytest.raises((TypeError, RuntimeError, AssertionError)):
        gather.__wrapped__({"loss": 1.5}, one_process_group)


def test_gathering_without_gpus_where_there_are_some(one_process_group, monkeypatch):
    """It is the group that decides: with --cpu, gloo also where torch finds a GPU; with GPUs, fairseq's own way."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    gather = distributed_utils.all_gather_list
    assert gather({"loss": torch.tensor(1.5)}, one_process_group) == [{"loss": 1.5}]
    monkeypatch.setattr(distributed_utils, "all_gather_list", lambda data, group, max_size: "fairseq's own")
    wrap = distributed_fairseq_model.DistributedDataParallel
    monkeypatch.setattr(distributed_fairseq_model, "DistributedDataParallel", wrap)  # mended again only in this test
    compat.data_parallel_on_cpu()
    monkeypatch.setattr(dist, "get_backend", lambda group: "nccl")
    assert distributed_utils.all_gather_list({"loss": 1.5}, one_process_group) == "fairseq's own"


# Binarised data


@pytest.fixture
def sentences(tmp_path):
    """A binarised file of 20 sentences of 5 tokens, and a dictionary for it."""
    dictionary = Dictionary()
    for letter in "abcdefgh":
        dictionary.add_symbol(letter)
    builder = indexed_dataset.make_builder(str(tmp_path / "train.bin"), "mmap", len(dictionary))
    for start in range(20):
        builder.add_item(torch.arange(start, start + 5) % 8 + 4)
    builder.finalize(str(tmp_path / "train.idx"))
    return tmp_path / "train", dictionary


def load(sentences):
    path, dictionary = sentences
    return data_utils.load_indexed_dataset(str(path), dictionary)


def test_whole_data_is_loaded(sentences):
    assert load(sentences)[3].tolist() == [7, 8, 9, 10, 11]


@pytest.mark.parametrize("suffix, size", [("bin", 0), ("bin", 150), ("idx", 0), ("idx", 3), ("idx", 12), ("idx", 100)])
def test_truncated_data_is_refused(sentences, suffix, size):
    file = sentences[0].with_suffix(f".{suffix}")
    os.truncate(file, size)
    with pytest.raises(UserError, match=str(file)):
        load(sentences)


def test_fairseq_maps_truncated_data(sentences):
    os.truncate(sentences[0].with_suffix(".bin"), 150)
    dataset = object.__new__(indexed_dataset.MMapIndexedDataset)
    indexed_dataset.MMapIndexedDataset._do_init.__wrapped__(dataset, str(sentences[0]))
    assert len(dataset) == 20
    with pytest.raises(ValueError):
        dataset[19]


def test_another_dictionary_is_refused(sentences):
    path, _ = sentences
    smaller = Dictionary()
    smaller.add_symbol("a")
    with pytest.raises(UserError, match="token 11 but the dictionary has 5"):
        load((path, smaller))
    assert data_utils.load_indexed_dataset.__wrapped__(str(path), smaller) is not None


# Checkpoints


class RunsCode:
    """Unpickling it creates a file."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def save(path: Path, **extra) -> Path:
    torch.save({"model": {"weight": torch.ones(2)}, "args": argparse.Namespace(arch="transformer"), **extra}, path)
    return path


def test_a_checkpoint_cannot_run_code(tmp_path):
    path = save(tmp_path / "evil.pt", extra=RunsCode(tmp_path / "ran"))
    with pytest.raises(UserError, match=r"evil.pt holds a \w+\.mkdir"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert not (tmp_path / "ran").exists()
    torch.load(path, weights_only=False)
    assert (tmp_path / "ran").exists()


def test_safe_loading_does_not_depend_on_torchs_default(tmp_path, monkeypatch):
    """Even where torch's own default is to trust every file."""
    path = save(tmp_path / "evil.pt", extra=RunsCode(tmp_path / "ran"))
    trusting = lambda *args, weights_only=False, **kwargs: weights_only  # noqa: E731
    monkeypatch.setattr(torch, "load", trusting)
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint_to_cpu", None)
    compat.load_safely()
    assert torch.load(path) is True
    assert torch.load(path, weights_only=False) is False


@pytest.mark.parametrize("held", [Path("x"), types.SimpleNamespace(a=1), np.array(["text"]), Dictionary()])
def test_a_foreign_type_is_named(tmp_path, held):
    path = save(tmp_path / "foreign.pt", extra=held)
    with pytest.raises(UserError, match=f"{path} holds a .*(Path|SimpleNamespace|StrDType|Dictionary)"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_what_fairseq_stores_is_loaded(tmp_path):
    meters = {"counts": np.arange(4), "sum": np.float32(1.5), "flag": np.bool_(True)}
    path = save(tmp_path / "meters.pt", meters=meters)
    assert torch.load(path)["meters"]["counts"].tolist() == [0, 1, 2, 3]
    torch.serialization.clear_safe_globals()
    try:
        with pytest.raises(pickle.UnpicklingError, match="Namespace"):
            torch.load(path)
    finally:
        torch.serialization.add_safe_globals(compat.checkpoint_types())


@pytest.mark.parametrize("core", ["core", "_core"])
def test_either_numpy_may_have_written_the_checkpoint(tmp_path, core):
    """numpy 1 and 2 write different names of the functions that make arrays and numbers."""
    meters = {"counts": np.arange(4), "sum": np.float32(1.5)}
    path = tmp_path / "named.pt"
    with zipfile.ZipFile(save(tmp_path / "meters.pt", meters=meters)) as saved, zipfile.ZipFile(path, "w") as named:
        for entry in saved.infolist():
            content = saved.read(entry)
            if entry.filename.endswith("data.pkl"):
                content = re.sub(rb"numpy\._?core\.", f"numpy.{core}.".encode(), content)
                assert content.count(f"numpy.{core}.multiarray".encode()) == 2
            named.writestr(entry, content)
    loaded = torch.load(path)["meters"]
    assert loaded["counts"].tolist() == [0, 1, 2, 3] and loaded["sum"] == 1.5


def test_the_switch_that_allows_code_is_named(tmp_path, run):
    path = save(tmp_path / "evil.pt", extra=RunsCode(tmp_path / "ran"))
    load = f"import fairseq_plugins, torch; torch.load({str(path)!r})"
    done = run("python", "-c", load, env={compat.UNSAFE_SWITCH: "1"})
    assert compat.UNSAFE_SWITCH in done.stderr
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("size", [0, 4, 100, 1000])
def test_a_truncated_checkpoint_is_refused(tmp_path, size):
    path = save(tmp_path / "cut.pt")
    assert path.stat().st_size > size
    os.truncate(path, size)
    with pytest.raises(UserError, match=f"{path} is damaged, truncated or no"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_a_damaged_checkpoint_is_refused(tmp_path):
    path = save(tmp_path / "flipped.pt")
    content = path.read_bytes()
    path.write_bytes(content.replace(torch.ones(2).numpy().tobytes(), bytes(8)))
    with pytest.raises(UserError, match=f"{path} is damaged, truncated or no"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_text_is_no_checkpoint(tmp_path):
    path = tmp_path / "text.pt"
    path.write_text("no checkpoint at all\n" * 100)
    with pytest.raises(UserError, match=f"{path} is damaged"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


def going_on(folder, restore_file="checkpoint_last.pt", continue_once=None):
    """Whether fairseq is asked to load what these flags of fairseq-train name; UserError where that is refused."""
    cfg = types.SimpleNamespace(save_dir=str(folder), restore_file=restore_file, continue_once=continue_once)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint_utils, "load_checkpoint", lambda cfg, trainer: True)
        compat.never_restart_from_zero()
        return checkpoint_utils.load_checkpoint(cfg, types.SimpleNamespace(checkpoint_suffix=""))


def test_a_checkpoint_behind_a_url_is_restored(tmp_path, monkeypatch):
    url = "https://models.example/big.pt"
    with pytest.raises(UserError, match=f"--restore-file {url} does not exist"):
        going_on(tmp_path, restore_file=url)
    monkeypatch.setattr(file_io.PathManager, "isfile", lambda path: path == url)
    assert going_on(tmp_path, restore_file=url)


def test_continue_once(tmp_path):
    """It names what to go on from, so a folder without checkpoint_last.pt is no loss; a missing file is."""
    earlier = save(tmp_path / "checkpoint1.pt")
    with pytest.raises(UserError, match="no checkpoint_last.pt"):
        going_on(tmp_path)
    with pytest.raises(UserError, match="--continue-once none.pt does not exist"):
        going_on(tmp_path, continue_once="none.pt")
    assert going_on(tmp_path, continue_once=str(earlier))
    save(tmp_path / "checkpoint_last.pt")
    assert going_on(tmp_path, continue_once="none.pt"), "it is for the first launch only"


def test_checkpoints_are_copied_whole(tmp_path, monkeypatch):
    """Killed in the middle of a copy, the old checkpoint_last.pt is still there; fairseq's own copy leaves half of
    the new."""
    new, last = tmp_path / "checkpoint2.pt", tmp_path / "checkpoint_last.pt"
    new.write_bytes(b"new" * 1000)

    def killed_half_way(source, target):
        Path(target).write_bytes(Path(source).read_bytes()[:1500])
        raise KeyboardInterrupt

    copies = {"mended": file_io.PathManager.copy, "own": file_io.PathManager.copy.__wrapped__}
    for name, copy in copies.items():
        last.write_bytes(b"old")
        copy(str(new), str(last), overwrite=True)
        assert last.read_bytes() == new.read_bytes()
        last.write_bytes(b"old")
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("shutil.copyfile", killed_half_way)
            copy(str(new), str(last), overwrite=True)
        assert (last.read_bytes() == b"old") == (name == "mended")


def test_a_folder_is_trained_into_once_at_a_time(tmp_path, run):
    checkpoint_utils.verify_checkpoint_directory(str(tmp_path))
    again = f"import fairseq_plugins, fairseq as f; f.checkpoint_utils.verify_checkpoint_directory({str(tmp_path)!r})"
    done = run("python", "-c", again, check=False)
    assert done.returncode == 1
    assert "another process is training into" in done.stderr and "Traceback" not in done.stderr


def test_a_forced_token_that_is_too_unlikely_to_draw_is_drawn():
    """As of a prompt, at a low temperature; and a likely one is drawn as before."""
    dictionary = Dictionary()
    lprobs = torch.full((2, 1, len(dictionary)), -math.inf)
    lprobs[0, 0, 3], lprobs[1, 0, 2] = -500.0, -0.1
    scores, drawn, _ = search.Sampling(dictionary, sampling_topk=2).step(0, lprobs, None)
    assert drawn.flatten().tolist() == [3, 2]
    assert scores[1].item() == pytest.approx(-0.1)


def test_fairseq_cannot_draw_it():
    lprobs = torch.full((1, 1, 6), -math.inf)
    lprobs[0, 0, 3] = -500.0
    with pytest.raises(RuntimeError, match="invalid multinomial distribution"):
        search.Sampling.step.__wrapped__(search.Sampling(Dictionary(), sampling_topk=2), 0, lprobs, None)


@pytest.fixture
def trainer(tmp_path):
    """What saving needs of a trainer; its task writes down what it is told."""
    told = []
    task = SimpleNamespace(
        before_checkpoints=lambda folder, trainer: told.append(sorted(path.name for path in folder.glob("*"))),
        after_checkpoints=lambda paths, trainer: told.append(sorted(path.name for path in paths)),
    )
    return SimpleNamespace(
        task=task, told=told, data_parallel_rank=0, data_parallel_world_size=1, checkpoint_suffix="",
        should_save_checkpoint_on_current_rank=True, consolidate_optimizer=lambda: None, get_num_updates=lambda: 6,
        save_checkpoint=lambda path, state: Path(path).write_text("new"),
    )  # fmt: skip


def test_a_task_is_told_which_checkpoints_were_written(trainer, tmp_path):
    """Before and after; those that were left as they were are not among them."""
    (tmp_path / "checkpoint1.pt").write_text("old")
    (tmp_path / "checkpoint_last.pt").write_text("old")
    cfg = CheckpointConfig(save_dir=str(tmp_path), save_interval_updates=3)
    epoch_itr = SimpleNamespace(epoch=2, end_of_epoch=lambda: False, state_dict=dict)
    checkpoint_utils.save_checkpoint(cfg, trainer, epoch_itr, None)
    assert trainer.told == [["checkpoint1.pt", "checkpoint_last.pt"], ["checkpoint_2_6.pt", "checkpoint_last.pt"]]


def test_a_task_is_told_nothing_where_nothing_is_saved(trainer, tmp_path):
    checkpoint_utils.save_checkpoint(CheckpointConfig(save_dir=str(tmp_path), no_save=True), trainer, None, None)
    assert trainer.told == []
