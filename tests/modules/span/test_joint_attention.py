"""The backward pass written by hand, held against autograd's."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from fairseq_plugins.modules.common.dropout import Dropout, kept_scale
from fairseq_plugins.modules.common.relative_position import RelativePosition
from fairseq_plugins.modules.span import joint_attention
from fairseq_plugins.modules.span.attention import Context, JoinedContext
from fairseq_plugins.modules.span.persistent_memory import PersistentMemory

H, B, M, D, W, N = 2, 3, 7, 4, 5, 6


def make(masked, persistent):
    """A query, keys, values, mask and persistent vectors, all with gradients."""
    torch.manual_seed(0)
    query, keys, values = (
        torch.randn(H, B, length, D, dtype=torch.float64, requires_grad=True) for length in (M, W + M - 1, W + M - 1)
    )
    mask = torch.rand(H, W, dtype=torch.float64, requires_grad=True) if masked else None
    memory = PersistentMemory(H, N, D).double() if persistent else None
    return query, keys, values, mask, RelativePosition(D, W).double(), memory


def attend(kind, dropout, query, keys, values, mask, position, memory):
    return kind(keys, values, W, position, mask, False).attend(query, memory, dropout)


def same_dropout(joined, rate, vectors):
    """Dropout of positions, then of persistent vectors, that drops what the joined way has dropped."""
    persistent, own = joint_attention.split(~saved_weights(joined).signbit(), vectors, W + M - 1)
    masks = iter((own, persistent))
    return lambda weights: weights * next(masks) * kept_scale(rate, weights.device)


def saved_weights(joined):
    return next(x for x in joined.grad_fn.saved_tensors if x is not None and x.size(-1) > W)


def gradients(y, query, keys, values, mask, position, memory):
    leaves = [query, keys, values, *position.parameters()]
    leaves += ([] if mask is None else [mask]) + ([] if memory is None else [*memory.parameters()])
    torch.manual_seed(2)
    return torch.autograd.grad((y * torch.randn_like(y)).sum(), leaves)


@pytest.mark.parametrize("streams", [H * B, B, 2, 0])
@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_equals_the_plain_way_gradients_included(masked, persistent, rate, streams, monkeypatch):
    """Whether a part of the scores is of all heads, of one, or of some streams of one."""
    inputs, vectors = make(masked, persistent), N * persistent
    a_stream = joint_attention.joint(inputs[0], vectors, W + M - 1)[0, 0]
    monkeypatch.setattr(joint_attention, "SCORES", streams * a_stream.numel())
    joined = attend(JoinedContext, Dropout(rate), *inputs)
    assert saved_weights(joined).signbit().any() == (rate > 0)
    plain = attend(Context, same_dropout(joined, rate, vectors), *inputs)
    assert torch.allclose(joined, plain, atol=1e-12)
    for a, b in zip(gradients(joined, *inputs), gradients(plain, *inputs), strict=True):
        assert torch.allclose(a, b, atol=1e-12)


def test_it_keeps_the_weights_once():
    """Autograd keeps them twice, before and after dropout."""
    kept = {}
    for kind in (Context, JoinedContext):
        saved = []
        with saved_tensors_hooks(lambda tensor, saved=saved: saved.append(tensor) or tensor, lambda tensor: tensor):
            attend(kind, Dropout(0.4), *make(True, True))
        parts = {tensor.data_ptr(): tensor for tensor in saved if tensor.size(-1) > W}
        kept[kind] = sum(tensor.numel() * tensor.element_size() for tensor in parts.values())
    weights = H * B * M * (W + M - 1 + N)
    assert kept[JoinedContext] == H * B * M * 32 * 8  # float64, with columns to a multiple of 16
    assert kept[Context] >= weights * (8 + 8 + 1)
