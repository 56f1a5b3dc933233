"""tools.export: the folder of a trained model for other places."""

import shutil
from pathlib import Path

import pytest

from fairseq_plugins.text.levels import Characters
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Plain

KEPT = Path(__file__).parents[1] / "models/checkpoints"


@pytest.fixture
def training(tmp_path) -> Path:
    folder = tmp_path / "training"
    folder.mkdir()
    shutil.copy(KEPT / "span_transformer_lm_tiny.pt", folder / "checkpoint_last.pt")
    shutil.copy(KEPT / "dict.txt", folder)
    PreparedText(Plain(), Plain(), Characters(space="h")).save(folder)
    return folder


def test_tools_read_weights_as_safetensors(training, tool, tmp_path):
    """fairseq alone reads files of torch.save."""
    pytest.importorskip("safetensors")
    done = tool("export", training, "--out", tmp_path / "out", "--format", "safetensors")
    assert "from_pretrained(" in done.stdout, done.stderr
    (tmp_path / "text").write_text("bad cafe\n")
    ours, theirs = (tool("score_text", folder, tmp_path / "text").stdout for folder in (tmp_path / "out", training))
    assert ours == theirs and len(ours.split()) > 1


def test_other_files_are_never_replaced(training, tool, tmp_path):
    before = sorted(training.iterdir())
    for out, said in ((training, "is not empty"), (tmp_path / "file", "is a file; name a new folder")):
        (tmp_path / "file").write_text("mine")
        done = tool("export", training, "--out", out)
        assert done.returncode and said in done.stderr and done.stderr.count("\n") == 1
    assert sorted(training.iterdir()) == before and (tmp_path / "file").read_text() == "mine"
