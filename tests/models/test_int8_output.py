"""Models whose output layer computes in eight bits when they are asked to, those of earlier versions too."""

import json
from pathlib import Path
from types import SimpleNamespace

import language_models
import pytest
import torch
import translation_models
from fairseq import checkpoint_utils
from fairseq.sequence_generator import SequenceGenerator
from omegaconf import OmegaConf

from fairseq_plugins.compat.command_line import complete_model
from fairseq_plugins.errors import UserError
from fairseq_plugins.models import (  # noqa: F401  (registered)
    active_memory_lm,
    all_attention_lm,
    feedback_lm,
    span_transformer_lm,
    transformer_xl_lm,
)
from fairseq_plugins.models.common.hub import ModelHub
from fairseq_plugins.modules.common.int8 import Int8Linear
from fairseq_plugins.tasks import streaming_language_modeling  # noqa: F401

FOLDER = Path(__file__).parent / "checkpoints"
GENERATION = SimpleNamespace(generation=SimpleNamespace(beam=3))
pytestmark = pytest.mark.skipif(not torch.cpu._is_vnni_supported(), reason="the processor has no such products")


def in_int8(model: torch.nn.Module) -> bool:
    return any(isinstance(module, Int8Linear) for module in model.modules())


NAMES = {path.stem for path in FOLDER.glob("*.pt")} - {"span_transformer_lm_tiny"}  # it has an adaptive softmax


@pytest.mark.parametrize("name", sorted(NAMES))
@torch.no_grad()
def test_a_checkpoint_that_knows_no_int8_says_nearly_the_same_in_eight_bits(name):
    expected = json.loads((FOLDER / f"{name}.json").read_text())
    models, *_ = checkpoint_utils.load_model_ensemble_and_task(
        [str(FOLDER / f"{name}.pt")], arg_overrides={"data": str(FOLDER), "int8": True}
    )
    model = models[0].eval()
    model.prepare_for_inference_(GENERATION)
    assert in_int8(model)
    said = model.get_normalized_probs(model(torch.tensor(expected["tokens"])), log_probs=True)
    off = (said - torch.tensor(expected["log_probs"])).abs().max()
    assert 0 < off < 0.2


@pytest.mark.parametrize("name", ["feedback", "feedback-top", "active-memory-self-attention"])
@torch.no_grad()
def test_beam_search_gives_each_sentence_the_same_words_in_any_batch(name):
    arch, options = translation_models.MODELS[name]
    models = [translation_models.build(arch, **options, int8=int8).float() for int8 in (False, True)]
    exact, model = models
    model.prepare_for_inference_(GENERATION)
    assert in_int8(model) and not in_int8(exact)
    search = SequenceGenerator([model], translation_models.DICTIONARY, beam_size=3)

    def translate(sentences):
        found = search.generate([model], {"net_input": translation_models.source(sentences)})
        return [best[0]["tokens"].tolist() for best in found]

    sentences = translation_models.SENTENCES
    assert translate(sentences) == [translate([sentence])[0] for sentence in sentences]


def test_no_other_model_takes_it():
    words = language_models.build(*language_models.MODELS["xl-words"])
    words.decoder.int8 = True
    with pytest.raises(UserError, match="^int8 does not work with an adaptive softmax: leave int8 out"):
        words.prepare_for_inference_(GENERATION)
    cfg = OmegaConf.create({"model": {"_name": "transformer_lm"}})
    complete_model(cfg)
    assert "int8" not in cfg.model


def test_a_model_in_eight_bits_is_not_saved(tmp_path):
    model = translation_models.build(translation_models.FEEDBACK, int8=True).float()
    model.prepare_for_inference_(GENERATION)
    hub = SimpleNamespace(models=[model])
    with pytest.raises(UserError, match="^a model with int8 cannot be saved: load it without int8"):
        ModelHub.save_pretrained(hub, tmp_path / "new")
    assert not (tmp_path / "new").exists()
