"""Models whose output layer computes in eight bits when they are asked to, those of earlier versions too."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import translation_models
from fairseq import checkpoint_utils
from fairseq.sequence_generator import SequenceGenerator

from fairseq_plugins.errors import UserError
from fairseq_plugins.models import (  # noqa: F401  (registered)
    active_memory_lm,
    all_attention_lm,
    feedback_lm,
    span_transformer_lm,
    transformer_xl_lm,
)
from fairseq_plugins.models.common.hub import ModelHub
from fairseq_plugins.models.common.int8 import ask_for_int8, in_int8
from fairseq_plugins.models.feedback_lm import FeedbackLanguageModel
from fairseq_plugins.tasks import streaming_language_modeling  # noqa: F401

FOLDER = Path(__file__).parent / "checkpoints"
GENERATION = SimpleNamespace(generation=SimpleNamespace(beam=3))
pytestmark = pytest.mark.skipif(not torch.cpu._is_vnni_supported(), reason="the processor has no such products")


def load(name: str, **overrides):
    models, *_ = checkpoint_utils.load_model_ensemble_and_task(
        [str(FOLDER / f"{name}.pt")], arg_overrides={"data": str(FOLDER), **overrides}
    )
    return models[0]


NAMES = {path.stem for path in FOLDER.glob("*.pt")} - {"span_transformer_lm_tiny"}  # it has an adaptive softmax


@pytest.mark.parametrize("name", sorted(NAMES))
@torch.no_grad()
def test_a_checkpoint_says_nearly_the_same_in_eight_bits(name):
    expected = json.loads((FOLDER / f"{name}.json").read_text())
    model = load(name, int8=True).eval()
    model.prepare_for_inference_(GENERATION)
    assert in_int8(model)
    said = model.get_normalized_probs(model(torch.tensor(expected["tokens"])), log_probs=True)
    off = (said - torch.tensor(expected["log_probs"])).abs().max()
    assert 0 < off < 0.2


def test_a_hub_takes_it(tmp_path):
    hub = FeedbackLanguageModel.from_pretrained(FOLDER, "feedback_lm_tiny.pt", FOLDER, int8=True)
    assert in_int8(hub)
    with pytest.raises(UserError, match="^a model with int8 cannot be saved: load it without int8"):
        ModelHub.save_pretrained(hub, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "name, int8, words",
    [
        (
            "span_transformer_lm_tiny",
            True,
            "span_transformer_lm_tiny.pt has an adaptive softmax or factorised embeddings, for which",
        ),
        ("feedback_lm_tiny", "False", "int8 'False' does not fit; give True or False."),
    ],
)
def test_what_cannot_be_is_refused(name, int8, words):
    with pytest.raises(UserError, match=words):
        load(name, int8=int8)


def test_no_other_model_takes_it():
    with pytest.raises(UserError, match="^other.pt is a Linear: int8 is for language and translation models of this"):
        ask_for_int8(torch.nn.Linear(2, 2), "other.pt")


@pytest.mark.parametrize("name", ["feedback", "feedback-top", "active-memory-self-attention"])
@torch.no_grad()
def test_beam_search_gives_each_sentence_the_same_words_in_any_batch(name):
    arch, options = translation_models.MODELS[name]
    model = translation_models.build(arch, **options).float()
    ask_for_int8(model, arch)
    model.prepare_for_inference_(GENERATION)
    assert in_int8(model)
    search = SequenceGenerator([model], translation_models.DICTIONARY, beam_size=3)

    def translate(sentences):
        found = search.generate([model], {"net_input": translation_models.source(sentences)})
        return [best[0]["tokens"].tolist() for best in found]

    sentences = translation_models.SENTENCES
    assert translate(sentences) == [translate([sentence])[0] for sentence in sentences]
