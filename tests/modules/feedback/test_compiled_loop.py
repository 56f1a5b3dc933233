"""Decoding by the compiled step against the same operations one by one (`test_feedback_engines.py` has the rest)."""

import itertools

import pytest
import torch

from fairseq_plugins.modules.common import compiled
from fairseq_plugins.modules.feedback.engine import compiled_loop
from fairseq_plugins.modules.feedback.engine.compiled_loop import CompiledLoop
from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.stack import FeedbackStack
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.feedback.window import MemoryWindow

LAYERS, HEADS, C = 3, 2, 20
SPANS = {"fixed": {}, "adaptive": {"ramp": 3, "trim_step": 2}}


def stream(kind="fixed", memory="weighted", kv="shared", engine="fast", dtype=torch.double, **options):
    torch.manual_seed(1)
    config = FeedbackLayerConfig(C, 28, HEADS, head_dim=9, **options)
    window = MemoryWindow(50, LAYERS, HEADS, 9, **SPANS[kind])
    body = FeedbackStream(config, LAYERS, window, memory, kv, engine)
    for layer, adaptive in enumerate(window.spans):
        adaptive.span_ratio.data.copy_(torch.tensor([0.1, 0.3 + 0.2 * layer]))
    return body.to(dtype).eval()


@torch.no_grad()
def decoded(body, x):
    """Outputs and attention of every step; the second row begins anew in the middle."""
    state, found = body.start(None, x[:, 0]), []
    for t, x_t in enumerate(x.unbind(1)):
        if t == x.size(1) // 2:
            body.restart(state, torch.arange(len(x)) == 1)
        found += [body.step(state, x_t), *state.decoder.memory_weights()]
    return found, state


@pytest.mark.parametrize(
    "kind, memory, kv, pre_norm",
    list(itertools.product(SPANS, ["weighted", "recurrent"], ["shared", "per-layer"], [True, False])),
)
def test_a_stream_longer_than_its_buffers(kind, memory, kv, pre_norm):
    x = torch.randn(3, 150, C, generator=torch.Generator().manual_seed(2), dtype=torch.double)
    options = dict(kind=kind, memory=memory, kv=kv, pre_norm=pre_norm, attention_bias=not pre_norm)
    (fast, state), (eager, _) = (decoded(stream(**options, engine=engine), x) for engine in ("fast", "eager"))
    assert isinstance(state.decoder, CompiledLoop)
    torch.testing.assert_close(fast, eager, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("options", [{"activation": "gelu"}, {"dtype": torch.bfloat16}, {"engine": "eager"}])
def test_others_are_decoded_one_operation_at_a_time(options):
    body, x = stream(**options), torch.randn(2, 3, C).to(options.get("dtype", torch.double))
    assert not isinstance(decoded(body, x)[1].decoder, CompiledLoop)


def test_models_in_training_are_decoded_one_operation_at_a_time():
    assert not isinstance(decoded(stream().train(), torch.randn(2, 2, C).double())[1].decoder, CompiledLoop)


def test_without_a_compiler_many_rows_are_decoded_one_operation_at_a_time(monkeypatch):
    x = torch.randn(65, 2, C, dtype=torch.double)
    fast, _ = decoded(stream(), x)
    monkeypatch.setenv("CC", "none")
    monkeypatch.setattr(compiled_loop, "library", compiled.library.__wrapped__)  # without what it compiled before
    found, state = decoded(stream(), x)
    assert not isinstance(state.decoder, CompiledLoop)
    torch.testing.assert_close(found, fast, rtol=1e-9, atol=1e-9)


def test_results_of_a_step_remain_as_they_are():
    stack = FeedbackStack(FeedbackLayerConfig(C, 28, HEADS, context_dim=8), LAYERS).eval()
    with torch.no_grad():
        state = stack.start(torch.randn(2, 5, 8))
        first = state.step(torch.randn(2, C))
        kept = [x.clone() for x in first]
        state.step(torch.randn(2, C))
    assert all(torch.equal(a, b) for a, b in zip(first, kept))


@pytest.mark.parametrize("rows", [1, 20, 33, 64, 65, 160])
@pytest.mark.parametrize("threads", [1, 2, 3])  # whatever the machine has
def test_threads_share_a_step_or_take_groups_of_rows(rows, threads, monkeypatch):
    monkeypatch.setattr(compiled_loop, "threads_for", lambda products: threads)
    x = torch.randn(rows, 6, C, dtype=torch.double)
    (fast, state), (eager, _) = (decoded(stream(engine=engine), x) for engine in ("fast", "eager"))
    assert isinstance(state.decoder, CompiledLoop)
    torch.testing.assert_close(fast, eager, rtol=1e-9, atol=1e-9)


def test_groups_cut_sentences_of_a_beam(monkeypatch):
    """165 rows of 33 sentences are groups of 28; then some sentences end."""
    monkeypatch.setattr(compiled_loop, "threads_for", lambda products: 2)
    context, padding = torch.randn(33, 7, 8, dtype=torch.double), torch.arange(7) > torch.arange(33)[:, None] % 7
    rows = torch.arange(165).view(33, 5)
    orders = [rows[:, [1, 0, 0, 4, 2]].flatten(), rows[::2].flatten()]
    x, found = torch.randn(3, 165, C, dtype=torch.double), {}
    for engine in ("fast", "eager"):
        torch.manual_seed(1)
        stack = FeedbackStack(FeedbackLayerConfig(C, 28, HEADS, context_dim=8), LAYERS, engine=engine).double().eval()
        with torch.no_grad():
            state = stack.start(context, padding, beam=5)
            found[engine] = [state.step(x[0])]
            for order, x_t in zip(orders, x[1:]):
                state.reorder(order)
                found[engine].append(state.step(x_t[: len(order)]))
    torch.testing.assert_close(found["fast"], found["eager"], rtol=1e-9, atol=1e-9)


def test_rows_that_do_not_fit_are_refused():
    body = stream()
    with torch.no_grad():
        state = body.start(None, torch.zeros(2, C, dtype=torch.double))
        body.step(state, torch.randn(2, C, dtype=torch.double))
        with pytest.raises(RuntimeError, match="a step of 16 rows does not go on with 2 rows"):
            body.step(state, torch.randn(16, C, dtype=torch.double))
        with pytest.raises(RuntimeError, match="takes embeddings"):
            body.step(state, torch.randn(2, 1, dtype=torch.double))


def test_computed_and_odd_parameters():
    """Weights that exist for the moment only, rows that do not lie side by side, and a LayerNorm without a shift."""
    x = torch.randn(2, 5, C, dtype=torch.double)
    found = []
    for engine in ("fast", "eager"):
        body = stream(engine=engine)
        for layer in body.stack.layers:
            torch.nn.utils.parametrizations.weight_norm(layer.fc1)
            layer.fc2.weight.data = layer.fc2.weight.data.t().contiguous().t()
            layer.final_layer_norm.bias = None
        found.append(decoded(body, x)[0])
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)


def test_rows_that_went_are_refused():
    body = stream()
    with torch.no_grad():
        state = body.start(None, torch.zeros(4, C, dtype=torch.double))
        body.step(state, torch.randn(4, C, dtype=torch.double))
        state.reorder(torch.tensor([1, 2]))
        with pytest.raises(RuntimeError, match="a step of 4 rows does not go on with 2 rows"):
            body.step(state, torch.randn(4, C, dtype=torch.double))
