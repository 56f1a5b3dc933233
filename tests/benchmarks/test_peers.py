"""benchmarks/peers.py, without the packages that it installs."""

import subprocess
from argparse import Namespace

import peer_models
import peers
import pinned
import pytest
import torch
from torch import nn

from fairseq_plugins.errors import UserError

SIZE = Namespace(layers=2, width=16, heads=2, block=4, span=8, batch=3, vocabulary=20, dropout=0.0)
SIZE.device, SIZE.dtype = "cpu", "float32"


class Counts:
    """A model whose logits are a table's rows; frozen, it learns nothing."""

    name, differs = "counts", "no memory"

    def __init__(self, size, frozen=False):
        self.model, self.frozen = nn.Embedding(size.vocabulary, size.vocabulary), frozen

    def read(self, tokens, memory):
        logits = self.model(tokens)
        return logits * (0 if self.frozen else 1), memory


def test_a_peer_that_does_not_learn_is_refused():
    learning, frozen = peers.Training(Counts, SIZE), peers.Training(Counts, SIZE, frozen=True)
    for job in (learning, frozen):
        assert job() == job() == 3 * 4
    assert learning.differs() == "no memory"
    with pytest.raises(AssertionError, match="counts does not learn"):
        frozen.differs()


def test_batches_of_a_job_and_peer_are_one_row():
    rows = [
        ["training", "labml", "16", "2, 3", "**1.50**", "1.1"],
        ["training", "labml", "64", "2, 4", "**2.00**", "1.1"],
    ]
    (row,) = peers.by_job(rows)
    assert row == ["training", "labml", "16; 64", "2, 3; 2, 4", "**1.50**; **2.00**", "1.1"]


def test_fairseq_reads_token_by_token_as_it_reads_a_text():
    peer = peer_models.Fairseq(SIZE)
    model, tokens, memory = peer.model.eval(), torch.randint(4, 20, (3, 6)), None
    for place in range(6):
        logits, memory = peer.read(tokens[:, place : place + 1], memory)
    torch.testing.assert_close(logits[:, -1], model(tokens)[0][:, -1])


def test_generation_starts_from_the_same_memory_in_each_call():
    job = peers.Generation(peer_models.Fairseq, SIZE, steps=4)
    seen = job.memory[0].shape[1]
    assert seen + 4 // 2 == SIZE.span
    assert job() == job() == 3 * 4 and job.memory[0].shape[1] == seen


def test_only_what_is_not_there_is_installed(tmp_path, monkeypatch):
    for requirement in peers.PINNED[1:]:
        name, version = requirement.split("==")
        info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    calls = []
    failed = subprocess.CompletedProcess([], 1)
    monkeypatch.setattr(subprocess, "run", lambda command: calls.append(command) or failed)
    with pytest.raises(UserError, match="--site .*: pip did not install feedback-transformer-pytorch==0.0.11; give"):
        pinned.install(peers.PINNED, tmp_path)
    assert [argument for argument in calls[0] if "==" in argument] == [peers.PINNED[0]]
