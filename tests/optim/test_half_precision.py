"""The float32 copies behind parameters in half precision."""

from types import SimpleNamespace

import torch
from fairseq.optim.fp16_optimizer import FP16Optimizer
from torch import nn

from fairseq_plugins.modules.common.adaptive_span import AdaptiveSpan
from fairseq_plugins.optim.half_precision import master_copies


def parameters():
    torch.manual_seed(1)
    return [nn.Parameter(torch.randn(shape).bfloat16()) for shape in [(2, 3), (4,), (1, 5)]]


def test_one_long_copy_of_all():
    """fairseq's default on a GPU."""
    halves = parameters()
    flat = nn.Parameter(torch.cat([half.detach().float().flatten() for half in halves]))
    copies = master_copies(SimpleNamespace(fp16_params=halves, fp32_params={0: flat}))
    assert all(torch.equal(copies[half], half.float()) for half in halves)
    copies[halves[1]].zero_()
    assert flat[6:10].tolist() == [0, 0, 0, 0] and flat.count_nonzero() == 11


def test_optimisers_of_the_parameters_themselves_have_none():
    assert master_copies(SimpleNamespace()) == {}


def test_a_clamped_span_starts_from_the_clamp_again():
    """Without its copy clamped, a ratio pushed below zero would stay there for as many updates as it was pushed."""
    span = AdaptiveSpan(2, 64).bfloat16()
    (master,) = FP16Optimizer.build_fp32_params(None, [span.span_ratio], flatten=False)
    optimizer = SimpleNamespace(fp16_params=[span.span_ratio], fp32_params=[master])
    with torch.no_grad():
        for step in (-0.3, -0.3, +0.1):
            master.add_(step)
            span.span_ratio.copy_(master)
            span.clamp_(master_copies(optimizer)[span.span_ratio])
    torch.testing.assert_close(span.span_ratio.float(), torch.full((2,), 0.1), atol=1e-3, rtol=0)
