"""The host must not wait for a GPU within a block or a step of decoding. Without a GPU, the operations tell.

`benchmarks/shared/operations.py` lists which operations make the host wait.
"""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from language_models import MODELS, VOCABULARY, build
from operations import Answers, OneDevice, Waits
from test_roberta_cross_head import HEAD
from test_roberta_cross_head import build as build_roberta
from test_roberta_cross_head import sentences as roberta_sentences
from translation_models import ACTIVE_MEMORY, DICTIONARY, FEEDBACK
from translation_models import batch as translation_batch
from translation_models import build as build_translation_model

from fairseq_plugins.criterions.streaming_lm import StreamingLMCriterion
from fairseq_plugins.modules.common.stream_memory import StreamMemory

every_model = pytest.mark.parametrize("arch, options", MODELS.values(), ids=MODELS)
every_translation = pytest.mark.parametrize("arch", [FEEDBACK, ACTIVE_MEMORY])


def tokens(device=None):
    return torch.randint(4, VOCABULARY, (3, 12), generator=torch.Generator().manual_seed(1)).to(device)


def update(model, x, memory):
    """One block of tokens forward and backward, as in training."""
    padding = SimpleNamespace(target_dictionary=SimpleNamespace(pad=lambda: 1))
    sample = {"net_input": {"src_tokens": x, "memory": memory}, "target": x.flip(1)}
    loss, _, _ = StreamingLMCriterion(padding)(model, {**sample, "ntokens": x.numel(), "nsentences": len(x)})
    loss.backward()
    model.after_update({})


DRAWN_ON_HOST = {"xl-cross-heads": {"cross_head_p": 1.0}, "xl-skips": {"skip_schedule": "linear"}}


@pytest.mark.parametrize("options", DRAWN_ON_HOST.values(), ids=DRAWN_ON_HOST)
def test_what_is_drawn_on_the_host_needs_no_wait(options):
    model, x, memory = build("transformer_xl_lm_tiny", {"mem_len": 5, **options}).train(), tokens(), StreamMemory()
    with Waits() as waits:
        for _ in range(3):
            update(model, x, memory)
    assert not waits.seen


@every_model
def test_an_update_waits_for_the_widths_of_spans_and_for_the_clusters_of_words_only(arch, options):
    model, x, memory = build(arch, {**options, "dropout": 0.1}).train(), tokens(), StreamMemory()
    update(model, x, memory)
    with Waits() as waits:
        update(model, x, memory)
    allowed = ("adaptive_span" in options) + ("adaptive_softmax_cutoff" in options)  # which decide on shapes
    assert len(waits.seen) == allowed, waits.seen


@every_model
@torch.no_grad()
def test_a_step_of_decoding_waits_for_nothing(arch, options):
    model, x, state = build(arch, options).eval(), tokens(), {}
    model.decoder(x[:, :1], incremental_state=state)
    with Waits() as waits:
        for t in (2, 3, 4):
            model.decoder(x[:, :t], incremental_state=state)
    assert not waits.seen


@torch.no_grad()
def test_active_memory_waits_for_nothing():
    model, x, state = build("active_memory_lm_tiny"), tokens(), {}
    model.decoder(x[:, :1], incremental_state=state)
    with Waits() as waits:
        model(x)
        model.decoder(x[:, :2], incremental_state=state)
    assert not waits.seen


@every_model
@torch.no_grad()
def test_a_new_order_of_beams_waits_once(arch, options):
    model, x, state = build(arch, options).eval(), tokens(), {}
    model.decoder(x[:, :1], incremental_state=state)
    order = torch.tensor([2, 0, 1])
    with Waits() as waits:
        model.decoder.reorder_incremental_state(state, order)
    assert len(waits.seen) <= 1


@pytest.fixture
def no_autocast(monkeypatch):
    """torch has no autocast for meta tensors, and cannot switch it off either."""
    monkeypatch.setattr(torch, "autocast", lambda *device, **options: nullcontext())


@every_model
def test_a_block_and_a_step_make_no_tensors_on_the_host(arch, options, no_autocast):
    """Each such tensor would be copied to the GPU."""
    answers = Answers()
    for device in ("cpu", "meta"):
        with torch.device(device):
            model = build(arch, {**options, "dropout": 0.1}).train()
        memory, state, x = StreamMemory(), {}, tokens(device)
        with answers:
            update(model, x, memory)
            model.eval().decoder(x[:, :2], incremental_state=state)
            with OneDevice(), torch.no_grad():
                model.decoder(x[:, :3], incremental_state=state)
            with OneDevice():
                update(model.train(), x, memory)
    assert not answers.given


def build_translation(arch):
    return build_translation_model(arch, dropout=0.1, attention_dropout=0.1, encoder_layers=3).float()


def translation_update(model):
    """A batch of sentences of several lengths forward and backward, as in training."""
    x = translation_batch([[5, 6, 7, 8], [9, 10], [11]])
    sample = {"net_input": x, "target": x["prev_output_tokens"].roll(-1, 1), "ntokens": 10}
    task = SimpleNamespace(target_dictionary=DICTIONARY)
    loss, _, _ = LabelSmoothedCrossEntropyCriterion(task, sentence_avg=False, label_smoothing=0.1)(model, sample)
    loss.backward()


@every_translation
def test_an_update_of_translation_waits_twice_at_most(arch):
    """For a look at the padding of the source, and for one at that of the target where padding might come first."""
    model = build_translation(arch).train()
    translation_update(model)
    with Waits() as waits:
        translation_update(model)
    assert len(waits.seen) == {FEEDBACK: 2, ACTIVE_MEMORY: 1}[arch], waits.seen


@every_translation
@torch.no_grad()
def test_a_step_of_translation_waits_for_nothing_and_a_new_order_once_at_most(arch):
    model, state = build_translation(arch).eval(), {}
    x = translation_batch([[5, 6, 7, 8], [9, 10], [11]])
    source, target = model.encoder(x["src_tokens"], x["src_lengths"]), x["prev_output_tokens"]
    model.decoder(target[:, :1], encoder_out=source, incremental_state=state)
    with Waits() as waits:
        model.decoder(target[:, :2], encoder_out=source, incremental_state=state)
        assert not waits.seen
        order = torch.tensor([1, 0, 2])
        model.decoder.reorder_incremental_state_scripting(state, order)
        source = model.encoder.reorder_encoder_out(source, order)
        assert len(waits.seen) <= 1
        model.decoder(target[:, :3], encoder_out=source, incremental_state=state)
    assert len(waits.seen) <= 1


def test_an_update_of_roberta_waits_once():
    model, x = build_roberta("roberta_cross_head", cross_head_p=1.0).train(), roberta_sentences()
    with Waits() as waits:
        scores, _ = model(x, features_only=True, classification_head_name=HEAD)
        scores.square().sum().backward()
    assert len(waits.seen) == 1, waits.seen


def test_the_layers_of_translation_make_no_tensors_on_the_host(no_autocast):
    stack = build_translation(FEEDBACK).decoder.layers[0].to("meta").train()
    x, context = (torch.randn(length, 2, 64, device="meta") for length in (5, 4))
    with OneDevice():
        stack(x, context)[0].sum().backward()
    state = {}
    with OneDevice(), torch.no_grad():
        for t in range(3):
            stack(x[t : t + 1], context, incremental_state=state)
