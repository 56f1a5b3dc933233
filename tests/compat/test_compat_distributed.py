"""The patches of compat/distributed.py."""

import importlib
import sys
import types

import pytest
import torch
import torch.distributed as dist
from fairseq import checkpoint_utils, options
from fairseq.distributed import utils as distributed_utils
from fairseq.models import distributed_fairseq_model

from fairseq_plugins.compat import distributed
from fairseq_plugins.errors import UserError


def test_torchrun_on_cpu_makes_one_training(monkeypatch):
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    seen = launch_of("fairseq_cli.train")
    assert (seen.distributed_world_size, seen.distributed_rank, seen.distributed_backend) == (2, 1, "gloo")
    assert seen.distributed_no_spawn and seen.distributed_init_method == "env://"


@pytest.mark.parametrize(
    "command, settings, words",
    [
        ("eval_lm", {"distributed_world_size": 2}, "without torchrun"),
        ("validate", {"distributed_world_size": 2}, "without torchrun"),
        ("train", {"distributed_world_size": 3}, "torchrun --nproc_per_node 3"),
        ("train", {"common": {"fp16": True}}, "--fp16 needs a GPU.*--bf16"),
    ],
)
def test_a_launch_that_cannot_work_is_refused(command, settings, words):
    with pytest.raises(UserError, match=words):
        launch_of(f"fairseq_cli.{command}", **settings)


@pytest.mark.parametrize(
    "command, common",
    [
        ("train", {}),
        ("train", {"fp16": True, "memory_efficient_fp16": True}),
        ("train", {"fp16": True, "fp16_no_flatten_grads": True}),
        ("train", {"fp16": True, "cpu": False}),
        ("validate", {"fp16": True}),
    ],
)
def test_one_process_is_left_alone(command, common, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert launch_of(f"fairseq_cli.{command}", common=common).distributed_init_method is None


def test_several_processes_do_not_translate_the_same(monkeypatch):
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match="each of 2 processes would translate everything: .* --num-shards"):
        parse("data", "--path", "a.pt")
    assert parse("data", "--path", "a.pt", "--num-shards", "2").num_shards == 2
    monkeypatch.undo()
    assert parse("data", "--path", "a.pt").num_shards == 1


def parse(*words):
    return options.parse_args_and_arch(options.get_generation_parser(), list(words))


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
        distributed.no_flat_fp16_on_cpu()
        distributed.one_training_per_launch()
        distributed_utils.call_main(cfg, main)
    return join


@pytest.fixture
def one_process_group(tmp_path, monkeypatch):
    """torch.distributed, of this process alone."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # torch puts its own before it, for good
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
    monkeypatch.setattr(distributed_fairseq_model, "DistributedDataParallel", wrap)  # patched again only in this test
    distributed.data_parallel_on_cpu()
    monkeypatch.setattr(dist, "get_backend", lambda group: "nccl")
    assert distributed_utils.all_gather_list({"loss": 1.5}, one_process_group) == "fairseq's own"


def test_what_a_killed_training_has_half_written_is_removed(tmp_path):
    for name in ("", ".7.partial"):
        (tmp_path / f"checkpoint_last.pt{name}").touch()
    for name in ("mine.partial", "newest.memory-0-of-1.7.partial"):
        (tmp_path / name).touch()
    checkpoint_utils.verify_checkpoint_directory(str(tmp_path))
    assert sorted(path.name for path in tmp_path.glob("*.p*")) == ["checkpoint_last.pt", "mine.partial"]


def test_a_folder_is_trained_into_once_at_a_time(tmp_path, run):
    checkpoint_utils.verify_checkpoint_directory(str(tmp_path))
    again = f"import fairseq_plugins, fairseq as f; f.checkpoint_utils.verify_checkpoint_directory({str(tmp_path)!r})"
    done = run("python", "-c", again, check=False)
    assert done.returncode == 1
    assert "another process is training into" in done.stderr and "Traceback" not in done.stderr
