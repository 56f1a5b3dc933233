"""Training in chunks computes what its slow twin computes, is exact with as many passes as tokens, and ends with
training."""

import gc
from functools import partial

import pytest
import torch
from chunked_recurrence import ChunkedRecurrence
from plain_recurrence import PlainRecurrence

from docs.examples.gated_memory import gate
from fairseq_plugins.modules import Chunks, FeedbackLayerConfig, FeedbackStream, MemoryWindow
from fairseq_plugins.modules.feedback.engine import chunks as chunks_engine
from fairseq_plugins.modules.feedback.engine.places import Places
from fairseq_plugins.modules.feedback.memory import FeedbackMemory

T, B, C, SPAN = 10, 2, 12, 5
RATES = {"dropout": 0.2, "attention_dropout": 0.3, "activation_dropout": 0.1}
MODELS = [{}, {"kv": "per-layer"}, {"memory": "recurrent"}, {"pre_norm": False}, {"span": 13}, {"twice": True}]


def body(chunk=1, passes=1, kv="shared", memory="weighted", pre_norm=True, ramp=None, span=SPAN, twice=False, **rates):
    """A chunk of 1: trained exactly."""
    torch.manual_seed(0)
    config = FeedbackLayerConfig(embed_dim=C, ffn_dim=20, heads=3, attention_bias=False, pre_norm=pre_norm, **rates)
    chunks = Chunks(chunk, passes) if chunk > 1 else None
    window = MemoryWindow(span, 3, 3, 4, ramp)
    stream = FeedbackStream(config, 3, window, memory, kv, normalise_twice=twice, chunks=chunks).double()
    for parameter in stream.parameters():  # away from the symmetries of the initial values
        torch.nn.init.normal_(parameter, std=0.5)
    return stream


def slow(engine, **options):
    stream = body(**options)
    stream.stack.engine = engine
    return stream


def in_chunks(chunk, passes, through=True, **options):
    return slow(partial(ChunkedRecurrence, chunk=chunk, passes=passes, through=through), **options)


def results(stream):
    """Outputs of two blocks, the memory after them, and all gradients. Of the second, row 1 has 3 steps of padding."""
    x = torch.randn(B, 2 * T, C, generator=torch.Generator().manual_seed(1), dtype=torch.double, requires_grad=True)
    stream.zero_grad()
    torch.manual_seed(2)  # of dropout
    first, memory = stream(x[:, :T])
    then, memory = stream(x[:, T:], memory, torch.tensor([0, 3]))
    y = torch.cat([first, then], dim=1)
    (y * torch.linspace(-1, 1, y.numel(), dtype=torch.double).view_as(y)).sum().backward()
    gradients = [parameter.grad for parameter in stream.parameters() if parameter.grad is not None]
    return [y.detach(), *memory.vectors, x.grad, *gradients]


def difference(one, other):
    """The largest one of two streams, of results of size 1 or more."""
    pairs = zip(results(one), results(other), strict=True)
    return max(((a - b).abs().max() / a.abs().max().clamp(min=1)).item() for a, b in pairs)


@pytest.mark.parametrize("chunk, passes", [(4, 2), (3, 1), (7, 3), (10, 4)])
@pytest.mark.parametrize("options", MODELS)
def test_it_is_the_slow_twin_with_all_gradients(options, chunk, passes):
    assert difference(in_chunks(chunk, passes, **options), body(chunk, passes, **options)) < 1e-12


@pytest.mark.parametrize("options", MODELS)
def test_as_many_passes_as_tokens_are_exact(options):
    """10 tokens: chunks of 4, 4 and 2."""
    exact = partial(slow, PlainRecurrence, **options)
    assert difference(exact(), in_chunks(1, 1, **options)) < 1e-12
    assert difference(exact(), in_chunks(4, 4, **options)) < 1e-12
    assert difference(exact(), body(4, 4, **options)) < 1e-12
    assert difference(exact(), body(4, 3, **options)) > 1e-3


def test_a_block_may_be_shorter_than_a_chunk():
    x, stream = torch.randn(B, 1, C, dtype=torch.double), body(4, 3)
    exact = body()(x)[0]
    assert torch.allclose(stream(x)[0], exact)


def test_all_passes_over_a_chunk_have_the_same_dropout():
    """So the first tokens, which 4 passes make exact, stay as they are in more."""
    x = torch.randn(B, T, C, dtype=torch.double)

    def outputs(passes, **rates):
        stream = body(10, passes, **rates)
        torch.manual_seed(3)
        return stream(x)[0][:, :4]

    assert torch.allclose(outputs(4, **RATES), outputs(8, **RATES), rtol=1e-12)
    assert not torch.allclose(outputs(4, **RATES), outputs(4))


def test_dropout_is_differentiated():
    stream, x = body(4, 2, **RATES), torch.randn(2, B, T, C, dtype=torch.double)

    def loss(step):
        torch.manual_seed(3)
        return stream(embeddings + step * x[1])[0].sin().sum()

    embeddings = x[0].requires_grad_()
    (gradient,) = torch.autograd.grad(loss(0), embeddings)
    with torch.no_grad():
        finite = (loss(1e-6) - loss(-1e-6)) / 2e-6
    assert torch.allclose((gradient * x[1]).sum(), finite, rtol=1e-6)


def test_each_chunk_draws_dropout_of_its_own_and_scales_what_it_keeps(monkeypatch):
    drawn = []
    monkeypatch.setattr(chunks_engine, "draw", lambda x, rate: drawn.append(rate) or (torch.ones_like(x).bool(), 2.0))
    twice, plain = body(5, 2, **RATES), body(5, 2)
    with torch.no_grad():
        for layer in plain.stack.layers:
            layer.self_attn.out_proj.weight *= 4  # of the weights and of the output
            layer.fc2.weight *= 4
            layer.fc2.bias *= 2
    x = torch.randn(B, T, C, dtype=torch.double)
    assert torch.allclose(twice(x)[0], plain(x)[0])
    assert len(drawn) == 4 * 3 * 2  # places, layers, chunks


def test_layers_in_evaluation_have_no_dropout():
    stream, x = body(4, 2, **RATES), torch.randn(B, T, C, dtype=torch.double)
    stream.stack.layers.eval()
    assert torch.equal(stream(x)[0], body(4, 2)(x)[0])


def test_evaluation_is_exact():
    stream, exact = body(4, 1), body()
    assert difference(exact, stream) > 1e-3
    assert difference(exact.eval(), stream.eval()) == 0


def test_gradients_of_the_last_pass_alone_leave_the_outputs_as_they_are():
    whole, last = (results(in_chunks(4, 4, through)) for through in (True, False))
    assert torch.equal(whole[0], last[0])
    assert (whole[2] - last[2]).abs().max() > 1e-3


def test_bfloat16_is_near():
    exact = results(body(4, 2).float())[0]
    with torch.autocast("cpu", torch.bfloat16):
        near = results(body(4, 2).float())[0]
    assert 0 < (near - exact).abs().max() < 0.2 * exact.abs().max()


def test_every_parameter_has_a_gradient():
    """Even where nothing attends to a memory that the block made: several processes need all gradients."""
    stream = body(12, 1, memory="recurrent", kv="per-layer")
    stream(torch.randn(B, T, C, dtype=torch.double))[0].sum().backward()
    assert all(parameter.grad is not None for parameter in stream.parameters())


@pytest.mark.parametrize("chunk, passes", [(4, 1), (4, 2)])
@pytest.mark.parametrize("options", MODELS)
def test_a_block_is_freed_without_the_garbage_collector(options, chunk, passes):
    def alive():
        return sum(type(each) is Places for each in gc.get_objects())

    stream, x = body(chunk, passes, **options), torch.randn(B, T, C, dtype=torch.double)
    gc.collect()
    gc.disable()
    try:
        y = stream(x)[0]
        assert alive()
        del y
        assert not alive()
        y = stream(x)[0]
        y.sum().backward()
        assert not alive()
        y = stream(x)[0]
        torch.autograd.grad(y.sum(), stream.stack.layers[0].fc1.weight, create_graph=True)
        del y
        assert not alive()
    finally:
        gc.enable()


def test_a_block_is_differentiated_once():
    y, _ = body(4, 2)(torch.randn(B, T, C, dtype=torch.double))
    y.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="differentiated only once"):
        y.sum().backward()


def test_a_memory_holds_no_more_than_its_own():
    _, memory = body(4, 2)(torch.randn(B, T, C, dtype=torch.double))
    assert all(each.untyped_storage().nbytes() == each.nbytes for each in memory.vectors)


def test_half_precision_is_that_of_the_engine():
    """Under autocast memories are as exact as the residual stream, keys and values are not."""
    stream, written = body(4, 2, **RATES).float(), []
    with pytest.MonkeyPatch.context() as patch, torch.autocast("cpu", torch.bfloat16):
        patch.setattr(chunks_engine, "Places", lambda keys, size: written.append(keys.dtype) or Places(keys, size))
        _, memory = stream(torch.randn(B, T, C))
    assert {each.dtype for each in memory.vectors} == {torch.float32}
    assert set(written) == {torch.bfloat16}


@pytest.mark.parametrize("chunk, passes, words", [
    (1, 1, "a chunk has 2 tokens or more, not 1"),
    (2, 3, "a chunk of 2 tokens has 1 to 2 passes, not 3"),
    (2, 0, "a chunk of 2 tokens has 1 to 2 passes, not 0"),
])  # fmt: skip
def test_wrong_numbers_are_refused(chunk, passes, words):
    with pytest.raises(ValueError, match=words):
        Chunks(chunk, passes)


def test_other_equations_and_other_memories_are_refused():
    stream, x = body(2, 1), torch.randn(B, T, C, dtype=torch.double)
    with pytest.raises(ValueError, match="the memory holds 3 vectors a step, this model makes 1"):
        stream(x, FeedbackMemory([x, x, x]))
    with pytest.raises(ValueError, match="an engine of your own does not train in chunks"):
        gate(stream)(x)


def test_adaptive_spans_have_no_chunks():
    with pytest.raises(ValueError, match="fixed spans"):
        body(2, 1, ramp=2)
