"""save_pretrained: a folder from which from_pretrained makes the same model, in any place."""

import importlib
import shutil
from pathlib import Path

import pytest
import torch
from test_hub import MODELS, TEXT, fill

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.reading import FORMATS
from fairseq_plugins.models.feedback_lm import FeedbackLanguageModel
from fairseq_plugins.tools.lib.language_model import load_language_model

TRAINED = "feedback_lm_tiny"


@pytest.fixture
def lm(tmp_path):
    return load(tmp_path)


def load(tmp_path: Path, arch=TRAINED, **options):
    (tmp_path / "training").mkdir()
    return MODELS[arch].from_pretrained(fill(tmp_path / "training", arch), **options)


def read_by_tools(format: str) -> str:
    if format == "safetensors":
        pytest.importorskip("safetensors")
    return format


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("arch", MODELS)
def test_the_same_model_is_elsewhere(arch, format, tmp_path):
    lm = load(tmp_path, arch, generation_args={"lenpen": 2.0})
    lm.save_pretrained(tmp_path / "saved", read_by_tools(format))
    expected = lm.score(TEXT)["positional_scores"], lm.sample("bad c", length=30, seed=3)
    shutil.move(tmp_path / "saved", tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "training")
    other = MODELS[arch].from_pretrained(tmp_path / "elsewhere")
    assert torch.equal(other.score(TEXT)["positional_scores"], expected[0])
    assert other.sample("bad c", length=30, seed=3) == expected[1] and other.cfg.generation.lenpen == 2


def test_weights_are_those_of_now(lm, tmp_path):
    with torch.no_grad():
        next(lm.models[0].parameters()).mul_(1.5)
    lm.save_pretrained(tmp_path / "saved")
    other = FeedbackLanguageModel.from_pretrained(tmp_path / "saved")
    assert torch.equal(other.score(TEXT)["positional_scores"], lm.score(TEXT)["positional_scores"])


def test_tied_weights_are_stored_once_and_stay_tied(tmp_path):
    safetensors = pytest.importorskip("safetensors")
    lm = load(tmp_path, "span_transformer_lm_tiny")
    lm.save_pretrained(tmp_path / "saved", "safetensors")
    with safetensors.safe_open(tmp_path / "saved/model.safetensors", "pt") as file:
        stored = set(file.keys())
    assert (tmp_path / "saved/model.safetensors").stat().st_mode == (tmp_path / "saved/config.json").stat().st_mode
    state = lm.models[0].state_dict()
    assert stored < state.keys() and len(stored) == len({tensor.data_ptr() for tensor in state.values()})
    decoder = MODELS["span_transformer_lm_tiny"].from_pretrained(tmp_path / "saved").models[0].decoder
    assert decoder.embed.tables[0] is decoder.output.tables[0]


def test_an_export_is_replaced_and_nothing_else(lm, tmp_path):
    for folder in ("saved", "with_folder"):
        lm.save_pretrained(tmp_path / folder)
    FeedbackLanguageModel.from_pretrained(tmp_path / "saved").save_pretrained(tmp_path / "saved")  # in its own place
    (tmp_path / "saved/notes.txt").write_text("mine")
    (tmp_path / "with_folder/runs").mkdir()
    for folder in ("saved", "with_folder", "training"):
        before = sorted((tmp_path / folder).iterdir())
        with pytest.raises(UserError, match=f"{folder} is not empty, and no export alone is in it: name a new folder"):
            lm.save_pretrained(tmp_path / folder)
        assert sorted((tmp_path / folder).iterdir()) == before


def test_a_failure_leaves_the_earlier_folder(lm, tmp_path, monkeypatch):
    lm.save_pretrained(tmp_path / "saved")
    before = sorted(tmp_path.rglob("*"))
    with monkeypatch.context() as patch:
        patch.setattr("fairseq_plugins.files.exported.write_config", fail)
        for folder in ("saved", "new/deep"):
            with pytest.raises(UserError, match=r"could not be written \(No space left on device\)"):
                lm.save_pretrained(tmp_path / folder)
    assert sorted(tmp_path.rglob("*")) == before
    FeedbackLanguageModel.from_pretrained(tmp_path / "saved")


def fail(*arguments):
    raise OSError(28, "No space left on device")


def test_damage_is_named(lm, tmp_path):
    pytest.importorskip("safetensors")
    lm.save_pretrained(tmp_path / "saved", "safetensors")
    weights, config = tmp_path / "saved/model.safetensors", tmp_path / "saved/config.json"
    for file, said in ((weights, "is damaged, or not the file of"), (config, r"is damaged \(its checksum is wrong\)")):
        whole = file.read_bytes()
        file.write_bytes(whole[:-9].replace(b"512", b"513", 1) + bytes([whole[-9] ^ 1]) + whole[-8:])
        with pytest.raises(UserError, match=f"{file.name} {said}"):
            FeedbackLanguageModel.from_pretrained(tmp_path / "saved")
        file.write_bytes(whole)
    config.unlink()
    with pytest.raises(UserError, match=r"config\.json, which .*model\.safetensors needs, is missing"):
        FeedbackLanguageModel.from_pretrained(tmp_path / "saved")


def test_a_folder_that_lacks_a_file_takes_none_from_elsewhere(lm, tmp_path):
    """Neither that of the training nor that in which the export was written, though both are there."""
    lm.save_pretrained(tmp_path / "saved")
    shutil.copytree(tmp_path / "saved", tmp_path / "copy")
    for name in ("dict.txt", "prepared_text.json"):
        (tmp_path / "copy" / name).rename(tmp_path / "kept")
        with pytest.raises(UserError, match=f"copy/{name}, which the model in this folder needs, is missing: copy it"):
            FeedbackLanguageModel.from_pretrained(tmp_path / "copy")
        with pytest.raises(UserError, match=f"copy/{name}, which the model in this folder needs, is missing: copy it"):
            load_language_model(tmp_path / "copy/checkpoint_best.pt", None, cpu=True)
        (tmp_path / "kept").rename(tmp_path / "copy" / name)
    (tmp_path / "copy/dict.txt").unlink()
    given = FeedbackLanguageModel.from_pretrained(tmp_path / "copy", data_name_or_path=tmp_path / "saved")
    assert given.score(TEXT)["score"] == lm.score(TEXT)["score"]  # a folder that is asked for


def test_what_cannot_be_saved_is_refused(tmp_path, lm, monkeypatch):
    with pytest.raises(UserError, match="format 'onnx' does not fit; give torch or safetensors"):
        lm.save_pretrained(tmp_path / "saved", "onnx")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="is not empty"):
        lm.save_pretrained(".")
    with pytest.raises(UserError, match="no folder"):
        lm.save_pretrained("")
    with monkeypatch.context() as patch, pytest.raises(UserError, match="no longer has the dictionaries of the model"):
        patch.setattr(lm.task.args, "data", str(tmp_path / "gone"))
        lm.save_pretrained("saved")
    shutil.copy("training/checkpoint_best.pt", "training/checkpoint_last.pt")
    both = FeedbackLanguageModel.from_pretrained("training", "checkpoint_best.pt:checkpoint_last.pt")
    with pytest.raises(UserError, match="an ensemble of 2 models: load and save each for itself"):
        both.save_pretrained("saved")
    assert not Path("saved").exists()


def test_a_file_that_safetensors_cannot_write_is_named(lm, tmp_path, monkeypatch):
    safetensors = pytest.importorskip("safetensors.torch")

    def fails(*arguments, **options):
        raise importlib.import_module("safetensors").SafetensorError("I/O error: File too large")

    monkeypatch.setattr(safetensors, "save_file", fails)
    with pytest.raises(UserError, match=r"model\.safetensors could not be written \(I/O error: File too large\)"):
        lm.save_pretrained(tmp_path / "saved", "safetensors")
    assert not (tmp_path / "saved").exists()
