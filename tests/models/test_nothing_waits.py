"""The host must not wait for a GPU within a block or a step of decoding. Without a GPU, the operations tell.

`tests/operations.py` lists which operations make the host wait.
"""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from language_models import MODELS, VOCABULARY, build
from operations import OneDevice, Waits
from test_feedback_transformer import build as build_translation

from fairseq_plugins.criterions.streaming_lm import StreamingLMCriterion
from fairseq_plugins.models import active_memory_lm  # noqa: F401  (registered)
from fairseq_plugins.modules.common.stream_memory import StreamMemory

ON_META = {name: model for name, model in MODELS.items() if not {"adaptive_span", "adaptive_input"} & model[1].keys()}
every_model = pytest.mark.parametrize("arch, options", MODELS.values(), ids=MODELS)
every_model_on_meta = pytest.mark.parametrize("arch, options", ON_META.values(), ids=ON_META)


def tokens(device=None):
    return torch.randint(4, VOCABULARY, (3, 12), generator=torch.Generator().manual_seed(1)).to(device)


def update(model, x, memory):
    """One block of tokens forward and backward, as in training."""
    padding = SimpleNamespace(target_dictionary=SimpleNamespace(pad=lambda: 1))
    sample = {"net_input": {"src_tokens": x, "memory": memory}, "target": x.flip(1)}
    loss, _, _ = StreamingLMCriterion(padding)(model, {**sample, "ntokens": x.numel(), "nsentences": len(x)})
    loss.backward()
    model.after_update({})


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
    model, x, state = build("active_memory_lm_tiny", {"max_target_positions": None}), tokens(), {}
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
    with Waits() as waits:
        model.decoder.reorder_incremental_state(state, torch.tensor([2, 0, 1]))
    assert len(waits.seen) <= 1


@pytest.fixture
def no_autocast(monkeypatch):
    """torch has no autocast for meta tensors, and cannot switch it off either."""
    monkeypatch.setattr(torch, "autocast", lambda *device, **options: nullcontext())


@every_model_on_meta
def test_a_block_and_a_step_make_no_tensors_on_the_host(arch, options, no_autocast):
    """Each such tensor would be copied to the GPU."""
    with torch.device("meta"):
        model = build(arch, {**options, "dropout": 0.1}).train()
    memory, state, x = StreamMemory(), {}, tokens(device="meta")
    update(model, x, memory)
    model.eval().decoder(x[:, :2], incremental_state=state)
    with OneDevice(), torch.no_grad():
        model.decoder(x[:, :3], incremental_state=state)
    with OneDevice():
        update(model.train(), x, memory)


@pytest.fixture(scope="module")
def translation():
    dictionary = Dictionary()
    for i in range(20):
        dictionary.add_symbol(f"w{i}")
    return build_translation(dictionary, dropout=0.1, attention_dropout=0.1).float()


def stack_and_inputs(translation):
    """The layers of the decoder, a target [T, B, C] with padding [B, T], and the output of an encoder [S, B, C]."""
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    return translation.decoder.layers[0], torch.randn(5, 2, 64, requires_grad=True), torch.randn(4, 2, 64), padding


def test_translation_waits_for_nothing_but_a_look_at_the_padding(translation):
    stack, x, context, padding = stack_and_inputs(translation.train())
    with Waits() as waits:
        y, _, _ = stack(x, context, torch.zeros(2, 4, dtype=torch.bool), self_attn_padding_mask=padding)
        assert len(waits.seen) == 1  # fairseq's own decoder has waited for another look just before
        y.sum().backward()
    assert len(waits.seen) == 1


@torch.no_grad()
def test_a_step_of_translation_waits_for_nothing_and_a_new_order_once(translation):
    stack, x, context, _ = stack_and_inputs(translation.eval())
    state = {}
    stack(x[:1], context, incremental_state=state)
    with Waits() as waits:
        stack(x[1:2], context, incremental_state=state)
        assert not waits.seen
        stack.reorder_incremental_state(state, torch.tensor([1, 0]))
        assert len(waits.seen) == 1
        stack(x[2:3], context, incremental_state=state)
    assert len(waits.seen) == 1


def test_the_layers_of_translation_make_no_tensors_on_the_host(translation, no_autocast):
    inputs = [x.detach().to("meta") for x in stack_and_inputs(translation)[1:3]]
    stack = translation.decoder.layers[0].to("meta").train()
    with OneDevice():
        stack(*inputs)[0].sum().backward()
    state = {}
    with OneDevice(), torch.no_grad():
        for t in range(3):
            stack(inputs[0][t : t + 1], inputs[1], incremental_state=state)
